"""The demo: an experiment on a simulated consumer, what it finds, and the report on it."""
