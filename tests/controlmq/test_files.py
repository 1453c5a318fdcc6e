"""Model and controller files: round trips, refusals, and no half-written file."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlmq import ArxModel, ControlmqError, Gains, InputError, Profile, Schedule, Tuning
from controlmq.model import FitQuality, StandardErrors
from controlmq.replacing import write_atomically

numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
any_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)

full_models = st.builds(
    ArxModel,
    a=st.floats(-0.999, 0.999),
    b=st.floats(1e-6, 1e6),
    c=numbers,
    interval=st.floats(1e-3, 1e4),
    linear_range=st.tuples(st.floats(0, 10), st.floats(11, 1000)),
    standard_errors=st.none() | st.just(StandardErrors(0.01, 0.2, 3.0)),
    quality=st.none() | st.just(FitQuality(0.9, 0.8, 3.5, 4.0, 100, 30)),
)

MODEL = ArxModel(0.26, 59.7, -3.0, 10.0, (1.0, 22.0), StandardErrors(0.01, 0.5, 2.0))


@given(model=full_models)
def test_a_model_survives_its_file(model: ArxModel) -> None:
    assert ArxModel.from_json(model.to_json()) == model


@given(kp=numbers, ki=numbers, kd=numbers)
def test_a_tuning_survives_its_file(kp: float, ki: float, kd: float) -> None:
    tuning = Tuning("pid", Gains(kp, ki, kd), MODEL, 0.5, 0.25)
    assert Tuning.from_json(tuning.to_json()) == tuning


@given(text=st.text() | any_json.map(json.dumps))
def test_any_other_text_is_refused_with_one_sentence(text: str) -> None:
    for kind in (ArxModel, Tuning):
        with pytest.raises(InputError) as refusal:
            kind.from_json(text, "file.json")
        assert "file.json" in str(refusal.value)
        assert "\n" not in str(refusal.value).strip()


@given(key=st.sampled_from(sorted(json.loads(MODEL.to_json()))), value=any_json)
def test_a_model_with_any_one_value_replaced_is_read_or_refused(key: str, value: object) -> None:
    content = json.loads(MODEL.to_json())
    content[key] = value
    with contextlib.suppress(InputError):
        ArxModel.from_json(json.dumps(content))


WITHOUT: dict[str, float | None] = {"standard_errors": None, "upper": MODEL.linear_range[1]}
"""Optional keys whose absence changes the value, and what it is then."""

TUNING = Tuning("p", Gains(1.0), MODEL)
SCHEDULE = Schedule([Profile({"service_time": 0.001}, Tuning("pi", Gains(0.1, 0.2), MODEL))])
REQUIRED = [
    (MODEL, ("format", "version", "a", "b", "c", "interval", "linear_range")),
    (TUNING, ("format", "version", "controller", "kp", "ki", "kd", "model")),
    (SCHEDULE, ("format", "version", "profiles")),
]
"""The keys that the file of each value must have; all others may be left out."""


@pytest.mark.parametrize(
    ("value", "key"),
    [(value, key) for value, keys in REQUIRED for key in keys],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_a_file_without_a_required_key_is_refused(
    value: ArxModel | Tuning | Schedule, key: str
) -> None:
    content = json.loads(value.to_json())
    del content[key]
    with pytest.raises(InputError, match=key):
        type(value).from_json(json.dumps(content), "file.json")


@pytest.mark.parametrize(("value", "required"), REQUIRED, ids=["model", "controller", "schedule"])
def test_a_file_without_an_optional_key_is_read(
    value: ArxModel | Tuning | Schedule, required: tuple[str, ...]
) -> None:
    whole = json.loads(value.to_json())
    optional = [key for key in whole if key not in required]
    assert optional
    for key in optional:
        content = {name: whole[name] for name in whole if name != key}
        read = type(value).from_json(json.dumps(content))
        changes = {key: WITHOUT[key]} if key in WITHOUT else {}
        assert read == dataclasses.replace(value, **changes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"a": 1.0}, "between -1 and 1"),
        ({"a": "0.2"}, "give a number"),
        ({"a": True}, "give a number"),
        ({"b": 0}, "above 0"),
        ({"b": -1}, "above 0"),
        ({"c": 10**400}, "finite"),
        ({"interval": 0}, "interval is 0"),
        ({"interval": -1}, "above 0"),
        ({"linear_range": [5, 5]}, "below its high end"),
        ({"linear_range": [-1, 5]}, "0 or more"),
        ({"linear_range": 5}, "list of two"),
        ({"standard_errors": {"a": 1}}, "exactly the keys"),
        ({"standard_errors": {"a": -1, "b": 0, "c": 0}}, "0 or more"),
        ({"r2_train": 0.5}, "incomplete"),
        ({"extra": 1}, "unknown key extra"),
        ({"version": 2}, "version 2"),
        ({"format": "x"}, "format 'x'"),
    ],
)
def test_a_malformed_model_says_what_is_wrong(change: dict[str, object], says: str) -> None:
    content = json.loads(MODEL.to_json()) | change
    with pytest.raises(InputError, match=says):
        ArxModel.from_json(json.dumps(content), "model.json")


@pytest.mark.parametrize("name", ["NaN", "Infinity", "-Infinity"])
def test_json_constants_that_are_no_numbers_are_refused(name: str) -> None:
    text = MODEL.to_json().replace("0.26", name)
    with pytest.raises(InputError, match="not a number"):
        ArxModel.from_json(text)


def test_a_model_in_code_is_checked_too() -> None:
    with pytest.raises(InputError, match="finite"):
        ArxModel(math.nan, 1.0, 0.0, 1.0, (0.0, 1.0))


def test_the_settled_model_inverts() -> None:
    assert MODEL.rate_at(MODEL.prefetch_for(400)) == pytest.approx(400)
    assert MODEL.next_rate(400, MODEL.prefetch_for(400)) == pytest.approx(400)
    assert MODEL.gain == pytest.approx(59.7 / 0.74)


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.json"
    MODEL.save(path)

    def disk_full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(ControlmqError, match=r"cannot write .*model.json: No space"):
        write_atomically(path, "half")
    assert ArxModel.load(path) == MODEL
    assert list(tmp_path.iterdir()) == [path]
