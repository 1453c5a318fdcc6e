"""One adapter for each client library, around the consumer without a socket."""
