"""Faults under load: a consumer with a restless window, what goes wrong, and the verdict.

:func:`tests.faults.trial.run` is one trial. The benchmark ``fault_campaign`` runs each of
:data:`tests.faults.kinds.FAULTS` many times; the live tests run each once.
"""
