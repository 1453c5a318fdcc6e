"""The wheel in an environment of its own."""
