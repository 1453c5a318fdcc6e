"""The workload by arithmetic: sizes, shares, counts and topologies as published."""

from __future__ import annotations

import pytest

from controlmq.errors import InputError
from simulator.specjms import TYPES, Topology, expected, horizontal, scaled, vertical
from simulator.specjms.messages import BYTES, CYCLE
from tests.simulator.specjms.published import BASE_TIMES_SECONDS, MEANS, VERTICAL_COUNTS


def test_sizes_have_the_published_means() -> None:
    assert {each.name for each in TYPES} == set(MEANS)
    for each in TYPES:
        assert each.mean_size == pytest.approx(MEANS[each.name], abs=0.0101), each.name


def test_sizes_come_in_the_published_shares_whoever_sends() -> None:
    for each in TYPES:
        for turn in (0, 3, 99):
            values = each.drawn(turn).values
            assert values is not None
            assert len(values) == CYCLE
            assert sum(values) == pytest.approx(CYCLE * BYTES * each.mean_size)


@pytest.mark.parametrize(
    ("topology", "messages", "kilobytes"),
    [
        (horizontal(100), (37.46, 12.45, 24.55, 25.55), (24.66, 2.41, 49.19, 23.74)),
        (vertical(45), (14.19, 5.99, 39.09, 40.74), (7.19, 2.25, 61.03, 29.52)),
    ],
)
def test_the_shares_of_delivery_groups_are_the_published_ones(
    topology: Topology, messages: tuple[float, ...], kilobytes: tuple[float, ...]
) -> None:
    found = expected(topology)
    assert tuple(round(share, 2) for share in found.group_shares().values()) == messages
    # The slopes and offsets of the sizes are printed with four digits.
    assert tuple(found.group_shares(kilobytes=True).values()) == pytest.approx(kilobytes, abs=0.01)


def test_the_shares_of_interactions_are_the_published_ones() -> None:
    found = expected(vertical(45))
    sent, received = found.interaction_shares()
    assert [round(share, 2) for share in sent.values()] == [
        *(32.00, 14.19, 0.35, 11.35, 40.40, 1.00, 0.72)
    ]
    assert [round(share, 2) for share in received.values()] == [
        *(26.48, 13.60, 2.90, 9.39, 33.44, 8.25, 5.94)
    ]
    sent, received = found.interaction_shares(kilobytes=True)
    assert list(sent.values()) == pytest.approx(
        [17.08, 9.05, 0.02, 8.01, 65.04, 0.39, 0.40], abs=0.01
    )
    assert list(received.values()) == pytest.approx(
        [15.74, 9.55, 0.23, 7.38, 59.91, 3.55, 3.65], abs=0.01
    )


def test_the_counts_of_the_vertical_topology_are_the_published_ones() -> None:
    found = expected(vertical(45))
    for interaction, counts in VERTICAL_COUNTS.items():
        rates = found.of_interaction(interaction)
        assert tuple(round(rate * BASE_TIMES_SECONDS / 45, 2) for rate in rates) == counts


def test_topologies_scale_as_published() -> None:
    assert (vertical(300).starts[0], vertical(300).starts[4]) == pytest.approx(
        (228.57, 1731.60), abs=0.01
    )
    for base in (1, 7, 45, 96):
        topology = horizontal(base)
        assert topology.supermarkets == base
        assert topology.headquarters == -(-base // 10)
        assert sum(topology.suppliers_of_families().values()) == pytest.approx(1)
    assert horizontal(45).offers == pytest.approx(2)


@pytest.mark.parametrize("topology", [vertical(45), horizontal(45), horizontal(7)])
def test_families_have_the_average_number_of_suppliers(topology: Topology) -> None:
    families = topology.suppliers_of_families()
    offers = sum(len(offering) * share for (offering, _), share in families.items())
    assert offers == pytest.approx(topology.offers)
    assert all(chosen in offering for offering, chosen in families)


def test_bad_topologies_are_refused() -> None:
    with pytest.raises(InputError, match="vertical"):
        scaled("diagonal", 45)
    with pytest.raises(InputError, match="whole number"):
        scaled("horizontal", 4.5)
    with pytest.raises(InputError, match="seven"):
        Topology("few", 1, 1, 1, 1, 1, 1.0, (1.0,))
