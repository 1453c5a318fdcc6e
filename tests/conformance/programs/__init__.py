"""One file for each client library: how it consumes a queue, in its own words."""
