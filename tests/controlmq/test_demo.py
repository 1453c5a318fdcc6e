"""The demo, end to end, with and without noise in the simulated consumer."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from controlmq.cli.main import main
from controlmq.experiments.demo.experiment import GOALS
from controlmq.performance import performance
from simulator import load_scenario
from tests.testbed.browser import browser
from tests.testbed.reports import explorable, series_of

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module", params=["rosa", "rosa-noisy"])
def demo(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The report folder and the data of a quick run."""
    out = tmp_path_factory.mktemp(request.param)
    printed = io.StringIO()
    words = ["demo", "--quick", "--scenario", request.param, "--out", str(out), "--json"]
    with contextlib.redirect_stdout(printed):
        assert main(words) == 0
    return out, json.loads(printed.getvalue())


def test_the_data_has_what_a_program_needs(demo: tuple[Path, dict[str, Any]]) -> None:
    _, data = demo
    assert data["model"].keys() >= {
        "a",
        "b",
        "c",
        "interval",
        "linear_range",
        "r2_train",
        "r2_test",
        "rmse_test",
    }
    for kind in ("p", "pi", "pid"):
        assert data["gains"][kind].keys() == {"kp", "ki", "kd"}
        for key in ("closed_loop", "closed_loop_450"):
            assert data[key][kind].keys() == {"mean", "sd", "settling_samples", "overshoot"}
    assert data["published"]["closed_loop"]["pi"] == {"mean": 397.19, "sd": 95.12}


def test_the_model_explains_what_it_has_not_seen(demo: tuple[Path, dict[str, Any]]) -> None:
    assert demo[1]["model"]["r2_test"] >= 0.9


def test_the_knee_is_where_theory_puts_it(demo: tuple[Path, dict[str, Any]]) -> None:
    """cap * (round trip + work), work being all that a handler spends on a message."""
    _, data = demo
    scenario = load_scenario(data["scenario"])
    consumer, link = scenario.consumers[0], scenario.links[0]
    work = consumer.work.mean + consumer.overhead
    jitter = 2 * link.jitter.mean if link.jitter else 0.0
    expected = consumer.handlers / work * (link.round_trip + jitter + work)
    assert data["curve"]["knee"] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(("key", "goal"), [("closed_loop", 400), ("closed_loop_450", 450)])
def test_pi_holds_its_goal(demo: tuple[Path, dict[str, Any]], key: str, goal: float) -> None:
    held = demo[1][key]["pi"]
    assert held["mean"] == pytest.approx(goal, rel=0.01)
    assert held["sd"] <= 0.03 * goal


@pytest.mark.parametrize("kind", ["p", "pi", "pid"])
def test_the_simulated_step_is_the_predicted_one(
    demo: tuple[Path, dict[str, Any]], kind: str
) -> None:
    assert demo[1]["goal_step"][kind]["largest_gap_percent"] <= 5


def test_a_ramp_without_offset_gives_the_published_model(
    demo: tuple[Path, dict[str, Any]],
) -> None:
    ramp = demo[1]["ramp_without_offset"]
    assert f"{ramp['a']:.4f}" == "0.2631"
    assert f"{ramp['b']:.2f}" == "59.73"
    assert "ill-conditioned" in ramp["refusal_with_offset"]


def test_the_report_stands_alone(demo: tuple[Path, dict[str, Any]]) -> None:
    out, _ = demo
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 5
    for outside in ("<link", 'src="', "@import"):
        assert outside not in page
    assert {path.name for path in out.iterdir()} == {
        "report.html",
        "open-loop.svg",
        "prediction.svg",
        "poles.svg",
        "closed-loop.svg",
        "disturbances.svg",
        "model.json",
        "p.json",
        "pi.json",
        "pid.json",
        "traces",
    }


def test_the_report_can_be_explored(demo: tuple[Path, dict[str, Any]]) -> None:
    out, data = demo
    curve, closed_loop, disturbances = explorable((out / "report.html").read_text())
    for panel, goal, key in zip(closed_loop[:2], GOALS, ("", "_450"), strict=True):
        for kind in ("p", "pi", "pid"):
            rates = series_of(panel, kind.upper())["y"]
            assert performance(rates, goal).mean == pytest.approx(
                data[f"closed_loop{key}"][kind]["mean"], rel=1e-6
            )
    (knee,) = curve[0]["marks"]
    assert knee["x"] == pytest.approx(data["curve"]["knee"], rel=1e-6)
    with browser() as chromium:
        chromium.open((out / "report.html").as_uri())
        chromium.value("document.querySelectorAll('.chart').item(5).focus()")
        chromium.do("Input.dispatchKeyEvent", type="keyDown", key="End")
        last = disturbances[0]["series"][1]
        said = chromium.until("document.querySelector('.tip:not([hidden])')?.innerText")
        heading = f"{last['name']} "
        (line,) = (line for line in said.splitlines() if line.startswith(heading))
        assert float(line.removeprefix(heading)) == pytest.approx(last["y"][-1], rel=1e-4)


def test_a_folder_that_cannot_be_made_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "report")]) == 2
    assert "cannot use the folder" in capsys.readouterr().err


def test_a_folder_with_other_files_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "mine.parquet").write_text("mine")
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "traces" / "mine.parquet").read_text() == "mine"
