"""A tuned controller as a value: which law, which gains, for which model; and its file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from controlmq.checks import above_zero, finite
from controlmq.errors import InputError
from controlmq.files import JsonFile, check_keys
from controlmq.gains import Gains
from controlmq.model import ArxModel

KINDS = ("p", "pi", "pid")
"""The control laws, by the names users give them."""


def check_shaping(derivative_filter: float, setpoint_weight: float) -> None:
    """Refuse a derivative filter or a setpoint weight with which the law would be another."""
    if not 0 <= finite("derivative_filter", derivative_filter) < 1:
        raise InputError(
            f"derivative_filter is {derivative_filter:g}; give 0 (none) up to, not including, 1."
        )
    if not 0 <= finite("setpoint_weight", setpoint_weight) <= 1:
        raise InputError(f"setpoint_weight is {setpoint_weight:g}; give 0 to 1.")


@dataclass(frozen=True)
class Tuning(JsonFile):
    """Everything that makes a controller: the law, its gains and the model they are for.

    ``derivative_filter`` (0 up to but not including 1) smooths the derivative of a PID;
    ``setpoint_weight`` (0 to 1) softens the answer of PI and PID to a step of the goal. The
    defaults are the published laws. ``upper`` is the highest prefetch that the user allows; without
    it the law may go on beyond the linear range of the model, as long as the rate follows.
    """

    kind: str
    gains: Gains
    model: ArxModel
    derivative_filter: float = 0.0
    setpoint_weight: float = 1.0
    upper: float | None = None

    what = "controller file"
    file_format = "controlmq-controller"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"controller is {self.kind!r}; give one of {', '.join(KINDS)}.")
        check_shaping(self.derivative_filter, self.setpoint_weight)
        if self.kind == "p" and (self.gains.ki or self.gains.kd):
            raise InputError("a p controller has only kp; set ki and kd to 0.")
        if self.kind == "pi" and self.gains.kd:
            raise InputError("a pi controller has no kd; set kd to 0 or take pid.")
        if self.kind != "pid" and self.derivative_filter:
            raise InputError("only a pid controller has a derivative to filter.")
        if self.kind == "p" and self.setpoint_weight != 1:
            raise InputError("setpoint_weight softens pi and pid; a p controller takes none.")
        if self.upper is not None:
            above_zero("upper", self.upper)

    def content(self) -> dict[str, Any]:
        """The tuning, its model included."""
        return {
            "controller": self.kind,
            **asdict(self.gains),
            "derivative_filter": self.derivative_filter,
            "setpoint_weight": self.setpoint_weight,
            "upper": self.upper,
            "model": self.model.as_data(),
            "units": {
                "kp, ki, kd": "messages of prefetch per message/second",
                "derivative_filter": "share kept from one sample to the next",
                "setpoint_weight": "1",
                "upper": "messages of prefetch",
            },
        }

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Tuning:
        """The tuning that the object of a controller file describes.

        Files of earlier releases have no ``upper``: there, the end of the model's range was it.
        """
        shaping = ("derivative_filter", "setpoint_weight")
        required = ("controller", "kp", "ki", "kd", "model")
        check_keys(content, required, (*shaping, "upper", "format", "version", "units"))
        model = ArxModel.from_json(json.dumps(content["model"]), source="its model")
        return cls(
            kind=content["controller"],
            gains=Gains(kp=content["kp"], ki=content["ki"], kd=content["kd"]),
            model=model,
            upper=content.get("upper", model.linear_range[1]),
            **{name: content[name] for name in shaping if name in content},
        )
