"""One adapter for each client library, and what a process that runs one needs."""
