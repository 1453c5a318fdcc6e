"""Statistics add up and age, whatever the rows were split by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlmq.errors import InputError
from identification.statistics import (
    FIRST_HALF,
    HELD_OUT,
    PAIRS,
    Cells,
    Forgetting,
    Moments,
    merged,
    moments_of_sums,
)

Rows = np.ndarray


def moments(rows: Rows, weight: Rows) -> Moments:
    """The moments of rows (3 by n), each formula as it is written."""
    total, mean = weight.sum(), rows @ weight / weight.sum()
    apart = rows - mean[:, None]
    return Moments(
        np.array([rows.shape[1]]),
        np.array([total]),
        np.array([np.sum(weight**2)]),
        mean[None],
        ((apart * weight) @ apart.T)[None],
    )


def stacked(parts: list[Moments]) -> Moments:
    names = ("rows", "weight", "weight2", "mean", "products")
    return Moments(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@given(
    st.integers(0, 2**32 - 1), st.integers(2, 8), st.sampled_from([0.0, 1e6, 1e9]), st.booleans()
)
@settings(max_examples=60)
def test_moments_of_parts_add_up_to_those_of_the_whole(
    seed: int, parts: int, offset: float, weighted: bool
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(offset, 10, (3, 40))
    weight = rng.uniform(0.01, 1, 40) if weighted else np.ones(40)
    pieces = [
        moments(piece, w)
        for piece, w in zip(
            np.array_split(rows, parts, axis=1), np.array_split(weight, parts), strict=True
        )
    ]
    whole = moments(rows, weight)
    union = merged(stacked(pieces), np.zeros(parts, dtype=np.int64), 1)
    assert union.rows[0] == 40
    assert union.weight2 == pytest.approx(whole.weight2)
    assert union.mean == pytest.approx(whole.mean, rel=1e-14)
    # A mean of 1e9 is itself off by 1e-7, and a product of deviations by 1e-7 times the other.
    assert union.products == pytest.approx(whole.products, rel=1e-9, abs=1e-3 if offset else 1e-9)


def test_sums_about_a_shift_give_the_moments() -> None:
    rng = np.random.default_rng(1)
    rows, weight = rng.normal(1e9, 1, (3, 50)), rng.uniform(0, 1, 50)
    near = rows - 1e9
    found = moments_of_sums(
        np.array([50]),
        np.array([weight.sum()]),
        np.array([np.sum(weight**2)]),
        np.full((1, 3), 1e9),
        (near @ weight)[None],
        np.array([[np.sum(weight * near[i] * near[j]) for i, j in PAIRS]]),
    )
    exact = moments(near, weight)
    assert found.products == pytest.approx(exact.products, rel=1e-12)
    assert found.mean - 1e9 == pytest.approx(exact.mean, abs=1e-6)


def cells(keys: list[tuple[str, int, int]], seed: int) -> tuple[Cells, dict[object, Rows]]:
    """Cells of random rows, and the rows themselves by key."""
    rng = np.random.default_rng(seed)
    rows = {key: rng.normal(5, 2, (3, 12)) for key in keys}
    groups = sorted({(name,) for name, _, _ in keys})
    extremes = np.array([[r[0].min(), r[0].max(), 24.0, 2.0, 2.0] for r in rows.values()]).T
    table = Cells(
        ("consumer",),
        groups,
        np.array([groups.index((name,)) for name, _, _ in keys]),
        np.array([part for _, part, _ in keys]),
        np.array([level for _, _, level in keys]),
        stacked([moments(r, np.ones(12)) for r in rows.values()]),
        *extremes,
    )
    return table, rows


def test_merging_joins_cells_of_the_same_key_and_keeps_the_others() -> None:
    first, of_first = cells([("a", FIRST_HALF, 3), ("b", HELD_OUT, 1)], 1)
    second, of_second = cells([("c", FIRST_HALF, 3), ("a", FIRST_HALF, 3)], 2)
    both = first.merge(second)
    assert both.groups == [("a",), ("b",), ("c",)]
    assert both.group.tolist() == [0, 1, 2]
    assert both.moments.rows.tolist() == [24, 12, 12]
    key = ("a", FIRST_HALF, 3)
    rows = np.concatenate([of_first[key], of_second[key]], axis=1)
    assert both.moments.products[0] == pytest.approx(moments(rows, np.ones(24)).products[0])
    assert (both.u_low[0], both.u_high[0]) == (rows[0].min(), rows[0].max())
    assert both.interval_sum.tolist() == [48, 24, 24]
    assert (both.part.tolist(), both.bin.tolist()) == ([0, 2, 0], [3, 1, 3])


def test_statistics_survive_a_file() -> None:
    table, _ = cells([("a", FIRST_HALF, 3), ("b", HELD_OUT, 1)], 3)
    again = Cells.from_arrow(table.to_arrow(), ("consumer",))
    assert again.groups == table.groups
    assert again.moments.products == pytest.approx(table.moments.products, rel=0)
    assert again.u_high == pytest.approx(table.u_high, rel=0)
    assert again.bin.tolist() == table.bin.tolist()


def test_ageing_twice_is_ageing_once_by_both() -> None:
    forgetting = Forgetting(half_life=60.0)
    assert forgetting.ageing(60) == 0.5
    table, _ = cells([("a", FIRST_HALF, 3)], 4)
    twice = table.scaled(forgetting.ageing(30)).scaled(forgetting.ageing(90))
    assert twice.moments.weight[0] == pytest.approx(12 / 4)
    assert twice.moments.weight2[0] == pytest.approx(12 / 16)
    assert twice.moments.effective_rows[0] == pytest.approx(12)
    assert twice.moments.mean == pytest.approx(table.moments.mean)


def test_a_half_life_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="half-life is 0"):
        Forgetting(half_life=0)
