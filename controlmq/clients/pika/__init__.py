"""pika: connecting by URL, running a user's handler, a consumer ready to run."""
