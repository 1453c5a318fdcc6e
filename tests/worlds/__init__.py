"""Deterministic worlds: the core of the live consumer between a seeded broker and seeded handlers.

``python -m tests.worlds SEED`` replays one of them and prints its trace.
"""
