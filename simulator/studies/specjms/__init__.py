"""The benchmarks SPECjms2007 and jms2009-PS: topology, scenario, run, audit, report."""

from simulator.studies.specjms.audit import Finding, audit, passes
from simulator.studies.specjms.build import Deployment, Phases, Workload, workload
from simulator.studies.specjms.expected import Expected, expected
from simulator.studies.specjms.freeform import load_freeform
from simulator.studies.specjms.largest_base import Trial, largest_base
from simulator.studies.specjms.message_types import TYPES, Delivery, MessageType
from simulator.studies.specjms.options import Option
from simulator.studies.specjms.phased_run import Run, run
from simulator.studies.specjms.report import report
from simulator.studies.specjms.topology import Topology, horizontal, scaled, vertical

__all__ = [
    "TYPES",
    "Delivery",
    "Deployment",
    "Expected",
    "Finding",
    "MessageType",
    "Option",
    "Phases",
    "Run",
    "Topology",
    "Trial",
    "Workload",
    "audit",
    "expected",
    "horizontal",
    "largest_base",
    "load_freeform",
    "passes",
    "report",
    "run",
    "scaled",
    "vertical",
    "workload",
]
