"""Cases with a known answer, for tests and benchmarks: generated, published, or from theory."""
