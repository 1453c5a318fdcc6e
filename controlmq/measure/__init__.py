"""What measures a broker: calibration, load, SPECjms flows."""
