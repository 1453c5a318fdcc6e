"""The command line, as a user types it."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlmq import ArxModel, Loop, Sample, TraceWriter, Tuning
from controlmq.cli.main import main
from controlmq.cli.run import _json_line
from controlmq.controllers import OpenLoop, ramp
from controlmq.loop import Step
from simulator import SimulatedConsumer, load_scenario

MODEL = ArxModel(0.02, 78.0, 5.0, 10.0, (1.0, 20.0))
GALLERY = str(Path(__file__).parents[2] / "examples" / "simulator" / "slow-beside-fast.toml")
PUBLISHED = ["--a", "0.2631", "--b", "59.73"]


AUTOMATIC = """
name = "automatic"
sample_interval = 1.0
publishers = [{name = "all", queue = "work", every = 0.01}]
queues = [{name = "work"}]

[[consumers]]
name = "auto"
queue = "work"
work = 0.001
acknowledge = "automatic"
"""


def design(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["design", *words, "--json"]) == 0
    content: dict[str, Any] = json.loads(capsys.readouterr().out)
    return content


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence a command fails with."""
    assert main(list(words)) != 0
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    assert "Traceback" not in captured.err
    return lines[0]


class TestRun:
    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            ("--at-most -5/minute", "at_most is -5; give a number above 0."),
            ("--goal -1/s", "goal is -1; give a number above 0."),
            ("--buffer-time -100ms", "buffer_time is -100; give a number above 0."),
            (
                "--goal -.5/parsec",
                "goal is '-.5/parsec'; give messages per second, minute, hour or day, as in "
                "'5/minute'.",
            ),
        ],
    )
    def test_a_goal_below_zero_gets_its_own_sentence(
        self, capsys: pytest.CaptureFixture[str], words: str, sentence: str
    ) -> None:
        given = ["run", "--queue", "orders", "--handler", "shop:handle", *words.split()]
        assert refusal(capsys, *given).endswith(sentence)

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            ("run --prefetch -1", "prefetch is -1; give a number above 0."),
            ("run --prefetch 0", "prefetch is 0; give a number above 0."),
            ("run --prefetch 70000", "prefetch is 70000; AMQP allows at most 65535."),
            ("run --interval 0", "interval is 0; give a number above 0."),
            ("run --goal 5 --interval -1", "interval is -1; give a number above 0."),
            (
                "collect --levels 1 9 --trace t --interval 0",
                "interval is 0; give a number above 0.",
            ),
        ],
    )
    def test_a_setting_that_cannot_be_is_refused_before_connecting(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        words: str,
        sentence: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("controlmq.clients.pika.service.Service.run", pytest.fail)
        given = [*words.split(), "--queue", "orders", "--work", "0"]
        assert refusal(capsys, *given).endswith(sentence)
        assert main([*given, "--json"]) == 2


class TestDesign:
    def test_published_pi(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = design(
            capsys, *PUBLISHED, "--controller", "pi", "--poles", "0.5+0.33166j", "0.5-0.33166j"
        )
        assert f"{found['kp']:.6f}" == "-0.001622"
        assert f"{found['ki']:.6f}" == "0.006027"

    def test_published_pid(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["--controller", "pid", "--polynomial", "1", "-0.7", "-0.063", "0.11"]
        found = design(capsys, *PUBLISHED, *words)
        assert f"{found['kp']:.6f}" == "0.001776"
        assert f"{found['ki']:.6f}" == "0.005809"
        assert f"{found['kd']:.6f}" == "0.001842"

    def test_p_prints_its_stable_range(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["design", *PUBLISHED, "--controller", "p"]) == 0
        assert "-0.012337..0.021147" in capsys.readouterr().out

    @pytest.mark.parametrize("word", ["-6.3e-2", "-0.063", "-.063", "-63E-3", "-0.063+0j"])
    def test_negative_numbers_work_as_written(
        self, capsys: pytest.CaptureFixture[str], word: str
    ) -> None:
        found = design(capsys, *PUBLISHED, "--controller", "p", "--poles", word)
        assert found["analysis"]["poles"][0][0] == pytest.approx(-0.063)

    def test_the_imaginary_unit_may_be_written_as_mathematicians_do(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = design(capsys, *PUBLISHED, "--poles", "-.3+.2i", "-.3-.2i")
        assert found["polynomial"] == pytest.approx([1, 0.6, 0.13])

    def test_a_pair_of_poles_left_of_the_axis(self, capsys: pytest.CaptureFixture[str]) -> None:
        found = design(capsys, *PUBLISHED, "--poles", "-0.3+0.2j", "-0.3-0.2j")
        assert found["polynomial"] == pytest.approx([1, 0.6, 0.13])

    def test_an_unstable_placement_is_refused_unless_asked_for(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = [*PUBLISHED, "--controller", "p", "--poles", "1.2"]
        assert "unstable" in refusal(capsys, "design", *words)
        assert design(capsys, *words, "--allow-unstable")["analysis"]["stable"] is False

    def test_the_written_controller_is_what_others_take(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        MODEL.save(tmp_path / "model.json")
        out = tmp_path / "controller.json"
        model = str(tmp_path / "model.json")
        found = design(capsys, "--model", model, "--settling", "6", "--out", str(out))
        assert Tuning.load(out).gains.ki == found["ki"]
        assert Tuning.load(out).model == MODEL

    def test_a_table_for_people(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["design", *PUBLISHED, "--controller", "pid"]) == 0
        shown = capsys.readouterr().out
        assert "modulus margin" in shown
        assert "0.5271" in shown

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ([], "no model"),
            (["--a", "0.2"], "--a and --b"),
            (["--a", "0.2", "--b", "0"], "above 0"),
            (["--a", "0.2", "--b", "5", "--interval", "0"], "interval is 0"),
            (["--a", "2", "--b", "5"], "between -1 and 1"),
            ([*PUBLISHED, "--overshoot", "5"], "settling time"),
            ([*PUBLISHED, "--poles", "0.1"], "1 poles given"),
            (["--model", "nowhere.json"], "cannot read"),
            ([*PUBLISHED, "--model", "x.json"], "one of the two"),
            ([*PUBLISHED, "--out", "/nowhere/at/all.json"], "cannot write"),
        ],
    )
    def test_bad_input_gets_one_sentence(
        self, capsys: pytest.CaptureFixture[str], words: list[str], says: str
    ) -> None:
        assert says in refusal(capsys, "design", *words)

    @pytest.mark.parametrize("word", ["nan", "inf", "-inf", "x"])
    def test_what_is_no_number_is_refused_by_name(
        self, capsys: pytest.CaptureFixture[str], word: str
    ) -> None:
        with pytest.raises(SystemExit) as stopped:
            main(["design", "--a", word, "--b", "5"])
        assert stopped.value.code == 2
        assert "--a" in capsys.readouterr().err


class TestSimulate:
    def test_a_constant_prefetch(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["simulate", "rosa", "--prefetch", "5", "--samples", "3", "--json"]
        assert main(words) == 0
        samples = json.loads(capsys.readouterr().out)["samples"]
        assert samples[-1]["rate"] == pytest.approx(400, rel=0.01)

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--goal", "450/s"], 450),
            (["--at-most", "300"], 300),
            (["--at-most", "300", "--goal", "200"], 200),
            (["--buffer-time", "5 ms"], 1774.5),
            (["--protect"], 1774.5),
        ],
    )
    def test_goals_are_those_of_a_live_consumer(
        self, capsys: pytest.CaptureFixture[str], words: list[str], expected: float
    ) -> None:
        assert main(["simulate", "rosa", *words, "--samples", "30", "--json"]) == 0
        samples = json.loads(capsys.readouterr().out)["samples"]
        assert samples[-1]["rate"] == pytest.approx(expected, rel=0.02)
        if "5 ms" in words:
            assert samples[-1]["buffer_time"] == pytest.approx(0.005, rel=0.1)

    def test_a_controller_and_another_goal(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Nothing is congested, so that the controller has its way."""
        MODEL.save(tmp_path / "model.json")
        words = ["--controller", "pi", "--model", str(tmp_path / "model.json"), "--goal", "450"]
        assert main(["simulate", "rosa", *words, "--protect", "--samples", "40", "--json"]) == 0
        samples = json.loads(capsys.readouterr().out)["samples"]
        assert samples[-1]["rate"] == pytest.approx(450, rel=0.02)

    @pytest.mark.parametrize("goal", ["450", "450/s", "27000/minute"])
    def test_a_controller_by_name(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, goal: str
    ) -> None:
        MODEL.save(tmp_path / "model.json")
        words = ["--controller", "pi", "--model", str(tmp_path / "model.json"), "--goal", goal]
        assert main(["simulate", "rosa", *words, "--samples", "40", "--json"]) == 0
        judged = json.loads(capsys.readouterr().out)["performance"]
        assert judged["mean"] == pytest.approx(450, rel=0.01)

    def test_a_run_is_recorded_drawn_and_shown(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        picture, trace = tmp_path / "run.svg", tmp_path / "trace"
        words = ["--ramp", "1", "50", "--trace", str(trace), "--plot", str(picture)]
        assert main(["simulate", "rosa", *words]) == 0
        assert "..." in capsys.readouterr().out
        assert picture.read_text().startswith("<?xml")
        assert pq.read_table(trace).num_rows == 50

    def test_a_scenario_runs_as_it_is_written(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        picture, metrics = tmp_path / "run.svg", tmp_path / "metrics"
        words = ["--samples", "3", "--out", str(metrics), "--plot", str(picture)]
        assert main(["simulate", GALLERY, *words, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert {row["name"] for row in said["queues"]} == {"fair", "unfair"}
        assert pq.read_table(metrics / "consumers.parquet").num_rows == 3 * 4
        assert picture.read_text().startswith("<?xml")
        assert said["chains"] == said["changes"] == []
        assert main(["simulate", GALLERY, "--samples", "3"]) == 0
        shown = capsys.readouterr().out
        for each in ("unfair slow", "busy %", "blocked %", "acked/s"):
            assert each in shown

    def test_what_rules_did_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        scenario = str(Path(GALLERY).with_name("autoscaling.toml"))
        assert main(["simulate", scenario, "--samples", "40"]) == 0
        assert "add-consumer worker" in capsys.readouterr().out
        assert main(["simulate", scenario, "--samples", "40", "--json"]) == 0
        first, *_ = json.loads(capsys.readouterr().out)["changes"]
        assert (first["rule"], first["action"], first["target"]) == (
            "grow",
            "add-consumer",
            "worker",
        )
        assert 20 < first["time"] < 40

    def test_one_consumer_of_several_is_driven(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        metrics = tmp_path / "metrics"
        words = ["--consumer", "unfair slow", "--prefetch", "2", "--samples", "4"]
        assert main(["simulate", GALLERY, *words, "--out", str(metrics), "--json"]) == 0
        samples = json.loads(capsys.readouterr().out)["samples"]
        assert [sample["prefetch"] for sample in samples] == [200, 2, 2, 2]
        table = pq.read_table(metrics / "consumers.parquet").to_pylist()
        last = {row["name"]: row["prefetch"] for row in table[-4:]}
        assert last == {"fair fast": 1, "fair slow": 1, "unfair fast": 200, "unfair slow": 2}

    def test_a_consumer_that_is_named_alone_finds_the_least_prefetch(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As with a prefetch of 1000, which loses nothing; the one that it needs is near 20."""
        rates, prefetches = [], []
        for words in ([], ["--prefetch", "1000"]):
            named = ["--consumer", "consumer", *words, "--samples", "40", "--json"]
            assert main(["simulate", "rosa", *named]) == 0
            settled = json.loads(capsys.readouterr().out)["samples"][20:]
            rates.append(sum(sample["rate"] for sample in settled))
            prefetches.append(max(sample["prefetch"] for sample in settled))
        least, without_loss = rates
        assert least > 0.98 * without_loss
        assert prefetches[0] < 40

    @pytest.mark.parametrize("words", [["--goal", "5"], ["--consumer", "auto", "--at-most", "5"]])
    def test_a_consumer_without_a_prefetch_takes_no_goals(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str]
    ) -> None:
        scenario = tmp_path / "automatic.toml"
        scenario.write_text(AUTOMATIC)
        assert "no prefetch to adapt" in refusal(capsys, "simulate", str(scenario), *words)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ([GALLERY, "--prefetch", "1"], "4 consumers"),
            ([GALLERY, "--prefetch", "1", "--consumer", "nobody"], "'nobody'"),
            (["--trace", "traces/"], "--trace is for"),
            (["--goal", "400", "--prefetch", "1"], "--prefetch says what the prefetch is"),
            (["--at-most", "400", "--ramp", "1", "5"], "--ramp says what the prefetch is"),
            (["--protect", "--levels", "1", "5"], "--levels says what the prefetch is"),
            (["--at-most", "400", "--goal", "500"], "give a goal up to at_most"),
            (["--buffer-time", "5 parsecs"], "or a time such as '100 ms'"),
            (["--controller", "pi", "--model", "x", "--goal", "0"], "goal is 0"),
            (["--controller", "pi", "--model", "x", "--goal", "-1"], "goal is -1"),
            (["--controller", "pi", "--model", "x", "--goal", "nan"], "goal is nan"),
            (["--controller", "pi", "--model", "x", "--goal", "fast"], "goal is 'fast'; give"),
            (["--controller", "pi", "--model", "x", "--goal", "5/parsec"], "as in '5/minute'"),
            (["--controller", "x.json", "--model", "y", "--goal", "4"], "p, pi or pid; leave"),
            (["--ramp", "1", "5", "--samples", "9"], "leave --samples out"),
            (["--prefetch", "1", "--group", "mine"], "give --trace"),
            (["--group", "mine"], "give --trace"),
            (["nowhere", "--prefetch", "1"], "nowhere"),
            (["--prefetch", "-1"], "0 or more"),
            (["--controller", "pi", "--goal", "400"], "needs a model"),
            (["--controller", "nowhere.json", "--goal", "400"], "cannot read"),
            (["--ramp", "5", "1"], "no level"),
            (["--ramp", "1", "1e9"], "at most 65535"),
            (["--prefetch", "70000"], "at most 65535"),
            (["--levels", "5", "5"], "cannot draw"),
            (["--prefetch", "1", "--model", "x"], "leave it out"),
            (["--prefetch", "1", "--samples", "1", "--plot", "run.xyz"], "cannot draw"),
        ],
    )
    def test_bad_input_gets_one_sentence(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        words: list[str],
        says: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert says in refusal(capsys, "simulate", *words)

    def test_a_controller_needs_a_goal(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        MODEL.save(tmp_path / "model.json")
        said = refusal(capsys, "simulate", "--controller", str(tmp_path / "model.json"))
        assert "--goal" in said

    def test_an_unknown_key_in_a_scenario_is_named(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        path = tmp_path / "mine.toml"
        path.write_text('name = "mine"\nsample_interval = 1.0\ncolour = "red"\n')
        assert "colour" in refusal(capsys, "simulate", str(path), "--prefetch", "1")


@pytest.mark.spark
class TestIdentify:
    @pytest.fixture
    def trace(self, tmp_path: Path) -> Path:
        folder = tmp_path / "trace"
        words = ["--levels", "1", "18", "--samples", "80", "--trace", str(folder)]
        assert main(["simulate", "rosa", *words, "--json"]) == 0
        return folder

    def test_a_simulated_trace_gives_the_model_of_its_scenario(
        self, capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
    ) -> None:
        capsys.readouterr()
        out = tmp_path / "model.json"
        assert main(["identify", str(trace), "--out", str(out), "--json"]) == 0
        (group,) = json.loads(capsys.readouterr().out)["groups"]
        assert group["model"]["b"] == pytest.approx(80, rel=0.02)
        assert group["model"]["a"] == pytest.approx(0, abs=0.02)
        assert ArxModel.load(out).b == group["model"]["b"]

    def test_a_table_for_people_and_a_folder_of_models(
        self, capsys: pytest.CaptureFixture[str], trace: Path, tmp_path: Path
    ) -> None:
        capsys.readouterr()
        assert main(["identify", str(trace), "--out", str(tmp_path / "models")]) == 0
        assert "linear range" in capsys.readouterr().out
        left = sorted(path.name for path in (tmp_path / "models").iterdir())
        assert left == ["models.parquet", "report.html", "simulated.json"]

    def test_a_ramp_is_refused_with_the_reason(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        folder = str(tmp_path / "ramp")
        assert main(["simulate", "rosa", "--ramp", "1", "22", "--trace", folder, "--json"]) == 0
        capsys.readouterr()
        assert main(["identify", folder, "--held-out", "0"]) == 2
        assert "ill-conditioned" in capsys.readouterr().err

    @pytest.mark.parametrize("scenario", ["rosa", "rosa-noisy"])
    @pytest.mark.parametrize("samples_per_level", [1, 4, 10])
    def test_no_ramp_passes_for_an_experiment(
        self,
        capsys: pytest.CaptureFixture[str],
        tmp_path: Path,
        scenario: str,
        samples_per_level: int,
    ) -> None:
        plan = OpenLoop(ramp(1, 22, samples_per_level))
        plant = SimulatedConsumer(load_scenario(scenario), seed=2)
        with TraceWriter(tmp_path) as writer:
            list(Loop(plant, plan, 1.0, record=writer).run(22 * samples_per_level + 1))
        assert main(["identify", str(tmp_path)]) == 2
        assert "ill-conditioned" in capsys.readouterr().err

    def test_without_held_out_rows_the_model_is_shown_all_the_same(
        self, capsys: pytest.CaptureFixture[str], trace: Path
    ) -> None:
        capsys.readouterr()
        assert main(["identify", str(trace), "--held-out", "0"]) == 0
        assert "simulated" in capsys.readouterr().out

    def test_a_master_that_spark_has_not_is_refused(
        self, capsys: pytest.CaptureFixture[str], trace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("identification.session._running", lambda: None)
        capsys.readouterr()
        assert main(["identify", str(trace), "--master", "garbage"]) == 2
        assert "Spark master is 'garbage'" in capsys.readouterr().err

    @pytest.mark.parametrize("fault", ["missing", "empty", "text", "column", "type", "nan"])
    def test_bad_traces_get_one_sentence(
        self, capsys: pytest.CaptureFixture[str], trace: Path, fault: str
    ) -> None:
        (file,) = trace.glob("*.parquet")
        table = pq.read_table(file)
        if fault == "missing":
            trace = trace / "nowhere"
        elif fault == "empty":
            file.unlink()
        elif fault == "text":
            file.write_text("not parquet")
        elif fault == "column":
            pq.write_table(table.drop_columns(["u"]), file)
        elif fault == "type":
            index = table.schema.get_field_index("u")
            pq.write_table(table.set_column(index, "u", table["u"].cast(pa.string())), file)
        else:
            index = table.schema.get_field_index("y")
            rates = [math.nan, *table["y"].to_pylist()[1:]]
            pq.write_table(table.set_column(index, "y", pa.array(rates)), file)
        capsys.readouterr()
        assert main(["identify", str(trace)]) != 0
        captured = capsys.readouterr()
        said = [line for line in captured.err.splitlines() if line.startswith("controlmq: ")]
        assert len(said) == 1
        assert "Traceback" not in captured.err


def test_help_teaches_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("demo", "design", "identify", "simulate"):
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
        assert "examples:" in capsys.readouterr().out


def test_ctrl_c_ends_cleanly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("controlmq.cli.design.model_from", interrupted)
    assert main(["design", *PUBLISHED]) == 130
    assert capsys.readouterr().err == "controlmq: stopped.\n"


def test_a_missing_extra_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'control'", name="control")

    monkeypatch.setattr("controlmq.cli.design.model_from", missing)
    assert main(["design", *PUBLISHED]) == 2
    assert "pip install 'controlmq[all]'" in capsys.readouterr().err


def test_a_line_of_json_has_all_that_a_sample_measured() -> None:
    step = Step(Sample(1, 1.0, 1.0, 2.0, 3, gated=0.5, unused=0.25), 4.0, 2.5)
    line = json.loads(_json_line(step))
    # The number is there as the sample, the arrivals as a rate.
    measured = {each.name for each in fields(Sample)} - {"number", "interval", "arrivals"}
    assert measured <= line.keys()
    assert (line["gated"], line["unused"]) == (0.5, 0.25)
