"""A folder with a model file for every group, each replaced when the model has changed.

**The rule.** The new model replaces the published one when the published one lies outside the
joint 99 % confidence region of the new one's a, b and c, that is, when

    n * mean((da*y + db*u + dc)^2) > 11.34 * s^2

with ``da``, ``db``, ``dc`` the differences, the mean taken over the rows as they weigh now, ``n``
their effective number and ``s`` the new model's error on them: when the two predict rates further
apart than the noise in the estimates can explain. Coefficients one by one would not do: a and b
are estimated together, and may both stay inside their own intervals while the gain moves out of
its own. A difference in predictions below a thousandth of the rate is never worth a file; a
linear range or a sample interval that moved by more than a tenth always is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from controlmq.errors import ControlmqError, InputError
from controlmq.model import ArxModel
from identification.fit import Fit
from identification.statistics import FIRST_HALF, SECOND_HALF, Cells, Moments, U, Y, merged

CHI_SQUARE_99 = 11.345
"""99 % of a sum of three squared normal variables lie below it."""

NOTICEABLE_SHARE_OF_RATE = 1e-3
"""Share of the rate: a controller designed for one model works as well with the other."""

SAME_MODEL_SHARE = 0.1
"""Share by which interval and ends of the linear range may differ in what counts as the same
model: a knee is uncertain by as much, see :mod:`identification.knee`."""

LONGEST_NAME_CHARACTERS = 50
"""Characters; a file system allows 255 bytes, and a character may take four."""

Why = Literal["first model", "coefficients", "linear range", "interval"]


@dataclass(frozen=True)
class NewModel:
    """A model that was written to ``path``, and ``why``: what had changed."""

    group: str
    path: Path
    model: ArxModel
    why: Why


class ModelFolder:
    """Writes models into a folder, one file per group, where they say something new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._published: dict[Path, ArxModel] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}: {error.strerror}.") from None

    def publish(self, cells: Cells, fits: Sequence[Fit]) -> list[NewModel]:
        """Write the models that differ from those in the folder by more than their uncertainty.

        ``fits`` are those of ``cells``, whose groups stand in order.
        """
        done = []
        ends = np.searchsorted(cells.group, np.arange(len(fits) + 1)).tolist()
        for number, fit in enumerate(fits):
            if fit.model is None:
                continue
            path = self.folder / file_name(fit.group)
            own = slice(ends[number], ends[number + 1])
            why = news(self._before(path), fit, fitted_rows(cells, own, fit.model.linear_range))
            if why is not None:
                fit.model.save(path)
                self._published[path] = fit.model
                done.append(NewModel(fit.group, path, fit.model, why))
        return done

    def _before(self, path: Path) -> ArxModel | None:
        """The model published last, read from its file because consumers have that."""
        if path not in self._published:
            try:
                self._published[path] = ArxModel.load(path)
            except ControlmqError:
                return None
        return self._published[path]


def news(before: ArxModel | None, fit: Fit, rows: Moments) -> Why | None:
    """What a model says that the one published before does not; ``rows`` are those it is from."""
    model = fit.model
    assert model is not None
    assert fit.train is not None
    if before is None:
        return "first model"
    if abs(model.interval - before.interval) > SAME_MODEL_SHARE * before.interval:
        return "interval"
    if _range_moved(before.linear_range, model.linear_range):
        return "linear range"
    apart = mean_square_difference(before, model, rows)
    noise = CHI_SQUARE_99 * fit.train.rmse**2 / max(float(rows.effective_rows[0]), 1.0)
    rate = float(rows.raw_products[0, Y, Y] / rows.weight[0])
    return "coefficients" if apart > max(noise, NOTICEABLE_SHARE_OF_RATE**2 * rate) else None


def mean_square_difference(one: ArxModel, other: ArxModel, rows: Moments) -> float:
    """Between what two models predict for the rows, (messages/second) squared."""
    difference = np.zeros(3)
    difference[Y], difference[U] = other.a - one.a, other.b - one.b
    spread = difference @ rows.products[0] @ difference / rows.weight[0]
    return float(spread + (difference @ rows.mean[0] + other.c - one.c) ** 2)


def fitted_rows(cells: Cells, own: slice, linear_range: tuple[float, float]) -> Moments:
    """The rows that a group's model comes from, as one set; ``own`` are the group's cells."""
    low, high = linear_range
    train = np.isin(cells.part[own], (FIRST_HALF, SECOND_HALF))
    inside = train & (cells.u_low[own] >= low) & (cells.u_high[own] <= high)
    rows = cells.moments[own][inside if inside.any() else train]
    return merged(rows, np.zeros(len(rows), dtype=np.int64), 1)


def _range_moved(before: tuple[float, float], now: tuple[float, float]) -> bool:
    allowed = SAME_MODEL_SHARE * (before[1] - before[0])
    return any(abs(new - old) > allowed for old, new in zip(before, now, strict=True))


def file_name(group: str) -> str:
    """A group's file: its own name where a file can have it, else one that no other group gets."""
    name = re.sub(r"[^\w.-]", "_", group).lstrip(".")[:LONGEST_NAME_CHARACTERS]
    if not name or name != group:
        name = f"{name}-{hashlib.sha256(group.encode()).hexdigest()[:8]}"
    return f"{name}.json"
