"""The train command: from a CSV file and a problem without a network to a plan."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import Command, launch
from patience import AMPLE
from reluplan.cli.train import repeat_option
from reluplan.data import write_transitions
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem
from shared_data import ROOT
from systems import CASCADE, cascade_data

QUICK = ("--hidden", 4, "--epochs", 5, "--polish", 20)


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    """A problem whose network does not exist yet, and data.csv beside it."""
    path = tmp_path / "problem.toml"
    path.write_text(CASCADE)
    write_transitions(cascade_data(), tmp_path / "data.csv")
    return path


@pytest.fixture
def data(problem: Path) -> Path:
    return problem.parent / "data.csv"


def report_of(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def test_from_a_csv_file_to_a_plan(command: Command, problem: Path, data: Path, tmp_path: Path) -> None:
    done = command("train", data, "--problem", problem, *QUICK)
    assert done.code == 0, done.err
    network = tmp_path / "learned" / "network.onnx"
    assert ReluNetwork.load(network).relu_count == 4
    report = report_of(network.with_suffix(".json"))
    assert report["settings"]["predicts"] == "delta"
    assert report["learning"]["ending"] == "finished"
    assert re.search(r"upper +\d", done.out)
    assert "R² change" in done.out
    assert str(network) in done.out.replace("\n", "")
    assert done.err == ""
    planned = command("plan", problem, "--out", tmp_path / "run", "--json")
    assert planned.code == 0
    assert json.loads(planned.out)["status"] == "optimal"


def test_the_readme_leads_from_a_spreadsheet_to_a_plan(command: Command, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```toml\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    (tmp_path / "problem.toml").write_text(textwrap.dedent(block[1]).replace("horizon = 24", "horizon = 4"))
    rng, temperature, lines = np.random.default_rng(0), 12.0, ["\ufeffDatum;episode;step;Room Temp ;power"]
    for row in range(300):
        power = rng.uniform(0, 5)
        temperature = rng.uniform(5, 30) if row % 20 == 0 else temperature
        cells = (f"{value:.3f}".replace(".", ",") for value in (temperature, power))
        lines.append(";".join(["01.03.2024", str(row // 20 + 1), str(row % 20 + 1), *cells]))
        temperature += 0.03 * (5.0 - temperature) + 0.4 * power
    (tmp_path / "data.csv").write_text("\r\n".join([*lines, ";;;;", ""]), encoding="utf-8", newline="")
    problem = tmp_path / "problem.toml"
    assert command("train", tmp_path / "data.csv", "--problem", problem, "--hidden", "4", "--epochs", "20").code == 0
    assert report_of(tmp_path / "network.json")["states"][0]["r2_change"] > 0.999
    assert command("plan", problem, "--time-limit", AMPLE, "--out", tmp_path / "run").code == 0
    assert command("check", problem, tmp_path / "run").code == 0


def test_hidden_takes_several_numbers_anywhere_on_the_line(
    command: Command, problem: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "n.onnx"
    quick = ("--epochs", 1, "--polish", 0, "--quiet", "--problem", problem, "--out", out)
    for line in (("--hidden", 3, 2, data), (data, "--hidden", 3, 2), ("--hidden", 3, "--hidden", 2, data)):
        done = command("train", *line, *quick)
        assert (done.code, done.out, done.err) == (0, "", "")
        assert [layer.unit_count for layer in ReluNetwork.load(out).hidden] == [3, 2]
    assert command("train", data, *quick, "--hidden", "wide").code == 4
    assert repeat_option(["--seed", "3", "4"], "--hidden") == ["--seed", "3", "4"]


def test_files_go_where_they_are_sent(command: Command, problem: Path, data: Path, tmp_path: Path) -> None:
    files = [tmp_path / "a" / "n.onnx", tmp_path / "b" / "r.json", tmp_path / "c.png"]
    line = ("--out", files[0], "--report", files[1], "--plot", files[2], "--json", *QUICK)
    done = command("train", data, data, "--problem", problem, *line)
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["network"] == str(files[0])
    assert printed["states"] == report_of(files[1])["states"]
    assert sum(printed["rows"].values()) == 2 * len(cascade_data())
    assert files[2].read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "learned").exists()


def test_the_same_command_writes_the_same_network(command: Command, problem: Path, data: Path, tmp_path: Path) -> None:
    files = [tmp_path / "1.onnx", tmp_path / "2.onnx"]
    for file in files:
        assert command("train", data, "--problem", problem, "--out", file, *QUICK, "--seed", 7, "--quiet").code == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    reports = [report_of(file.with_suffix(".json")) for file in files]
    assert reports[0]["states"] == reports[1]["states"]
    assert reports[0]["fingerprint"] == reports[1]["fingerprint"]


def test_another_prediction_than_the_problem_expects_is_pointed_out(
    command: Command, problem: Path, data: Path
) -> None:
    done = command("train", data, "--problem", problem, *QUICK, "--predicts", "next")
    assert done.code == 0
    assert "change network.predicts" in done.out


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("bounds = [0, 10]", "bounds = [0, 5]", [], "column 'upper'.*outside the bounds.*widen"),
        (r"[network]", "[constants]", [], "unknown key|expected a number"),
        ("-abs(upper' - 5)", "-abs(uper' - 5)", [], "did you mean 'upper''?"),
        ("", "", ["--hidden", "0"], "hidden = .*at least 1"),
        ("", "", ["--predicts", "state"], 'predicts = state: must be "next" or "delta"'),
        ("", "", ["--prune", "1"], "prune = 1.0"),
        ("", "", ["--out", "network.pt"], "end in .onnx"),
        ("", "", ["--plot", "curve.txt"], "a plot must end in"),
        ("", "", ["--report", "{problem}"], "named twice"),
        ("", "", ["--epochs", "many"], "--epochs.*integer"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(
    command: Command, problem: Path, data: Path, old: str, new: str, line: list[str], message: str
) -> None:
    if old:
        problem.write_text(CASCADE.replace(old, new))
    before = sorted(problem.parent.iterdir())
    text = problem.read_text()
    done = command("train", data, "--problem", problem, *QUICK, *(part.format(problem=problem) for part in line))
    assert done.code == 4
    assert re.search(message, done.err.replace("\n", " "))
    assert "Traceback" not in done.err
    assert sorted(problem.parent.iterdir()) == before
    assert problem.read_text() == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [lines[0].replace("upper", "uper"), *lines[1:]], "column 'upper' is missing"),
        (lambda lines: [*lines[:5], lines[5].rsplit(",", 1)[0] + ",high", *lines[6:]], "line 6, column '.*'high'"),
        (lambda lines: [*lines[:5], lines[5].rsplit(",", 1)[0] + ",NaN", *lines[6:]], "line 6, column '"),
        (lambda lines: [], "is empty"),
        (lambda lines: lines[:1], "no rows"),
        (lambda lines: lines[:2], "single row"),
    ],
)
def test_bad_data_are_explained_and_nothing_is_written(
    command: Command, problem: Path, data: Path, change: Callable[[list[str]], list[str]], message: str
) -> None:
    data.write_text("\n".join(change(data.read_text().splitlines())))
    before = sorted(problem.parent.iterdir())
    done = command("train", data, "--problem", problem, *QUICK)
    assert done.code == 4
    assert re.search(message, done.err.replace("\n", " "))
    assert str(data) in done.err.replace("\n", "")
    assert sorted(problem.parent.iterdir()) == before


def test_files_with_different_columns_are_refused_and_nothing_is_written(
    command: Command, problem: Path, data: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.csv"
    rows = [line.split(",") for line in data.read_text().splitlines()]
    at = rows[0].index("episode")
    other.write_text("\n".join(",".join(row[:at] + row[at + 1 :]) for row in rows))
    before = sorted(tmp_path.iterdir())
    done = command("train", data, other, "--problem", problem, *QUICK)
    assert done.code == 4
    assert "other.csv: has no column for 'episode'" in done.err.replace("\n", "")
    assert sorted(tmp_path.iterdir()) == before


def test_a_problem_without_a_network_has_nothing_to_learn(command: Command, tmp_path: Path, data: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text(
        'horizon = 1\nreward = "-upper"\n[state."upper"]\n[state."lower"]\n[action."pump"]\n'
        '[transition]\n"upper" = "upper + pump"\n"lower" = "lower"\n'
    )
    done = command("train", data, "--problem", known)
    assert done.code == 4
    assert "no section [network]" in done.err


def test_too_few_rows_are_refused(command: Command, problem: Path, tmp_path: Path) -> None:
    write_transitions(cascade_data(5, 4), tmp_path / "few.csv")
    done = command("train", tmp_path / "few.csv", "--problem", problem, *QUICK)
    assert done.code == 4
    assert "20 transitions are too few" in done.err


def test_a_time_limit_keeps_the_best_so_far(command: Command, problem: Path, data: Path, tmp_path: Path) -> None:
    done = command("train", data, "--problem", problem, "--epochs", 100000, "--time-limit", 0.5)
    assert done.code == 0
    assert "time limit" in done.out
    assert report_of(tmp_path / "learned" / "network.json")["learning"]["ending"] == "time limit"
    assert Problem.load(problem).dynamics.relu_count > 0


def test_ctrl_c_keeps_the_best_weights_and_says_so(problem: Path, data: Path) -> None:
    marker = "\n".join(
        [
            "import sys, reluplan.report.training as view",
            "tell = view.TrainingView.__call__",
            "def call(self, point):",
            "    tell(self, point)",
            "    print('epoch', point.epoch, file=sys.stderr, flush=True)",
            "view.TrainingView.__call__ = call",
            "from reluplan.cli import main",
            "main()",
        ]
    )
    line = [sys.executable, "-c", marker, "train", data, "--problem", problem, "--epochs", "1000000"]
    running = subprocess.Popen(
        list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert running.stderr is not None
    while running.stderr.readline() != "epoch 3\n":
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=AMPLE)
    assert running.returncode == 0
    assert "interrupted: these are the best weights so far" in out
    report = report_of(problem.parent / "learned" / "network.json")
    assert report["learning"]["ending"] == "interrupted"
    validation = [point["validation"] for point in report["learning"]["points"]]
    assert validation[report["learning"]["kept"]] == min(validation)
    predicted = ReluNetwork.load(problem.parent / "learned" / "network.onnx").forward([1.0, 5.0, 700.0])
    assert np.isfinite(predicted).all()


def test_help_lists_the_options() -> None:
    done = launch("train", "--help")
    assert done.code == 0
    for option in ("--problem", "--hidden", "--predicts", "--stability", "--prune", "--time-limit", "--plot"):
        assert option in done.out


def test_without_sizes_the_smallest_network_is_looked_for_and_the_search_is_told(
    command: Command, problem: Path, data: Path, tmp_path: Path
) -> None:
    line = ("train", data, "--problem", problem, "--epochs", 10, "--polish", 60, "--accuracy", 0.999)
    done = command(*line)
    assert done.code == 0, done.err
    report = report_of(tmp_path / "learned" / "network.json")
    chosen = report["search"]["trials"][report["search"]["chosen"]]
    assert chosen["relus"] == report["relus"] < 32
    assert re.search(r"^linear +0 +0 ", done.out, re.MULTILINE)
    assert re.search(r"^full +32 ", done.out, re.MULTILINE)
    assert "chosen" in done.out
    assert f"search     {report['relus']} ReLUs and {report['nonzero_weights']} weights are as good" in done.out
    assert report["settings"]["searching"]["negligible"] == pytest.approx(1e-3)
    plain = command(*line, "--no-search", "--json", "--epochs", 1)
    assert json.loads(plain.out)["search"] is None
    assert command(*line, "--accuracy", 2).code == 4


def test_rows_are_left_out_by_conditions_and_counted(command: Command, problem: Path, data: Path) -> None:
    line = ("train", data, "--problem", problem, *QUICK)
    done = command(*line, "--drop-if", "upper > 8", "--drop-if", "lower' < 100 and pump > 1", "--json")
    assert done.code == 0, done.err
    found = cascade_data()
    expected = {
        "upper > 8": int((found.states[:, 0] > 8).sum()),
        "lower' < 100 and pump > 1": int(((found.next_states[:, 1] < 100) & (found.actions[:, 0] > 1)).sum()),
    }
    record = json.loads(done.out)
    assert record["dropped"] == expected
    assert sum(record["rows"].values()) < len(found)
    assert (
        f"left out   {expected['upper > 8']} rows for which upper > 8" in command(*line, "--drop-if", "upper > 8").out
    )
    wrong = command(*line, "--drop-if", "uper > 8")
    assert wrong.code == 4
    assert "did you mean 'upper'" in wrong.err


def test_what_the_network_neither_reads_nor_predicts_need_not_be_in_the_data(
    command: Command, problem: Path, data: Path, tmp_path: Path
) -> None:
    clock = '[state."clock"]\ninitial = 0\n[action."lamp"]\nbounds = [0, 1]\n[transition]\nclock = "clock + 1"\n'
    problem.write_text(CASCADE + clock)
    assert command("train", data, "--problem", problem, *QUICK).code == 0
    problem.write_text(CASCADE.replace('"pump", "upper"', '"pump", "clock", "upper"') + clock)
    done = command("train", data, "--problem", problem, *QUICK)
    assert done.code == 4
    assert "the column 'clock' is missing" in done.err


def test_a_fit_of_nothing_is_warned_about(command: Command, problem: Path, data: Path, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).uniform(0.0, 10.0, (400, 3)).round(3)
    lines = ["upper,lower,pump,upper',lower'", *(f"{a},{b},{a / 10},{c},{b}" for a, b, c in noise)]
    data.write_text("\n".join(lines) + "\n")
    done = command("train", data, "--problem", problem, *QUICK)
    assert done.code == 0
    assert re.search(r"warning +the network explains \d+% of the change of 'upper'", done.out)
