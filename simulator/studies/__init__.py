"""What is built on simulations: SPECjms2007, a clustered queue, visibility timeouts, tuning."""
