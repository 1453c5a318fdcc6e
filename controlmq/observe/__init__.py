"""What a running consumer tells: metrics, a live view, and the registry that both read.

Nothing here runs for a message. Every sample of a consumer makes one :class:`Reading`; scrapes,
pages and terminals read those, in threads of their own.
"""
