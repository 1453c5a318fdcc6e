"""Conformance: the same trials for the adapter of every client library.

:data:`tests.conformance.drivers.DRIVERS` are the clients, :data:`tests.conformance.trials.TRIALS`
what each has to pass. The live tests run a short cut, the benchmark ``client_conformance`` all of
it, and makes the table of who passes what.
"""
