"""The words a user writes: what a scenario has, in Python and in TOML, and what is allowed."""
