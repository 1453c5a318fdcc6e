"""Models of a fleet of consumers: one file each, a table and a report."""
