"""Where an event happens: a busy client and a broker that blocks let it wait."""

ANYWHERE, CLIENT, BROKER = 0, 1, 2
