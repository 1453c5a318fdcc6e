"""pika: channels, blocking and asynchronous, whose consumers hold their goals."""
