"""What is compiled with numba: the event loop, what it calls, and the tables it works on."""
