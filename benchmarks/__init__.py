"""Measurements: each a ratio against a named peer, taken in the same run, as JSON."""
