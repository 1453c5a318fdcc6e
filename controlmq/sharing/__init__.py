"""One goal for several consumers: who may hand over how much, without a socket or a clock."""
