"""The self-optimising clustered queue: election, provisioning, and controllers for it."""

from simulator.studies.cluster.membership import CONSUMER, PRODUCER, Cluster, Member
from simulator.studies.cluster.provisioning import (
    ClusterPlant,
    ClusterSample,
    GrowthFeedback,
    ProvisioningRule,
)
from simulator.studies.cluster.system import Machines, Reading, SimulatedCluster

__all__ = [
    "CONSUMER",
    "PRODUCER",
    "Cluster",
    "ClusterPlant",
    "ClusterSample",
    "GrowthFeedback",
    "Machines",
    "Member",
    "ProvisioningRule",
    "Reading",
    "SimulatedCluster",
]
