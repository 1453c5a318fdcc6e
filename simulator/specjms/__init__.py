"""SPECjms2007 and jms2009-PS as a workload: topology, scenario, run, audit, report."""

from simulator.specjms.audit import Finding, audit, passes
from simulator.specjms.build import Deployment, Phases, Workload, workload
from simulator.specjms.expected import Expected, expected
from simulator.specjms.freeform import load_freeform
from simulator.specjms.messages import TYPES, Delivery, MessageType
from simulator.specjms.options import Option
from simulator.specjms.report import report
from simulator.specjms.run import Run, run
from simulator.specjms.search import Trial, largest_base
from simulator.specjms.topology import Topology, horizontal, scaled, vertical

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
