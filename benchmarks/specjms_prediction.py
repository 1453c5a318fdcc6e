"""Completion times of SPECjms2007 at a higher BASE, predicted from a lower one."""

from tests.known.specjms_prediction import run

__all__ = ["run"]
