"""The command as users run it: files, exit codes, what is printed where, and an answer to every wrong input."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from rich.console import Console

from command_line import BUFFERED, Command, Outcome, assert_honest, launch, result_of, write
from patience import AMPLE
from reluplan.clock import Clock
from reluplan.planning.log import Event
from reluplan.problem.problem import Problem
from reluplan.report.progress import ProgressView
from systems import PLANT, PLANT_NETWORK, TANK, TANK_OPTIMUM

# Plans


def test_a_plan_from_start_to_finish_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / "mein Ordner – ☃"
    folder.mkdir()
    problem, out = write(folder, TANK.replace("level", "Füllstand")), folder / "run 1" / "a b"
    planned = launch("plan", problem, "--out", out)
    assert planned.code == 0
    result = assert_honest(problem, out, planned.code)
    assert result["status"] == "optimal"
    assert result["reward"] == pytest.approx(TANK_OPTIMUM, abs=1e-6)
    assert (result["horizon"], result["solver"], result["problem"], result["interrupted"]) == (
        4,
        "highs",
        "tank",
        False,
    )
    assert sorted(path.name for path in out.iterdir()) == ["log.txt", "plan.csv", "result.json"]
    assert planned.out.startswith("status   optimal")
    # No terminal: plain lines that tell the story, the same as in the log.
    assert "\x1b" not in planned.err
    assert planned.err == (out / "log.txt").read_text(encoding="utf-8")
    assert all(re.match(r" *\d+\.\d s  \w+ +\S", line) for line in planned.err.splitlines())

    checked = launch("check", problem, out)
    assert checked.code == 0
    assert checked.out.startswith("plan     valid over 4 steps\nreward   -1.700000   (the file says -1.700000)\n")
    assert checked.err == ""


def test_json_prints_nothing_but_json(tank: Path, tmp_path: Path) -> None:
    planned = launch("plan", tank, "--out", tmp_path / "run", "--json")
    assert json.loads(planned.out) == result_of(tmp_path / "run")


def test_quiet_prints_nothing(command: Command, tank: Path, tmp_path: Path) -> None:
    assert command("plan", tank, "--out", tmp_path / "run", "--quiet") == Outcome(0, "", "")
    assert_honest(tank, tmp_path / "run", 0)
    assert command("check", tank, tmp_path / "run", "-q") == Outcome(0, "", "")
    assert command("export", tank, "--out", tmp_path / "m.lp", "-q") == Outcome(0, "", "")


def test_options_reach_the_planner(command: Command, tank: Path, tmp_path: Path) -> None:
    done = command(
        "plan", tank, "--out", tmp_path / "run", "--horizon", 2, "--method", "base", "--gap", "0.5", "--seed", 7,
        "--threads", 1, "--time-limit", 100, "--solver", "scip", "--json",
    )  # fmt: skip
    result = json.loads(done.out)
    assert (result["horizon"], result["method"], result["seed"], result["solver"]) == (2, "base", 7, "scip")
    assert "scip" in result["versions"]


def test_a_learned_network_and_an_open_initial_state(command: Command, plant: Path, tmp_path: Path) -> None:
    done = command("plan", plant, "--out", tmp_path / "run", "--quiet")
    assert assert_honest(plant, tmp_path / "run", done.code)["status"] == "optimal"


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ('constraints = ["pump <= level + 1"]', 'goal = ["level >= 100"]', "goal (level >= 100)"),
        ('constraints = ["pump <= level + 1"]', 'goal = ["level >= 6", "level <= 5"]', "level >= 6; level <= 5"),
        ("pump <= level + 1", "pump >= level + 100", "at step 1 no state and action"),
        ("pump <= level + 1", "level' >= level + 2.5", "no plan exists: no point satisfies the constraints"),
        ("max(level - 1, 0) + pump", "level + 20", "outside its bounds [0, 10]"),
    ],
)
def test_what_no_plan_satisfies_is_proven_infeasible(
    command: Command, tmp_path: Path, old: str, new: str, note: str
) -> None:
    assert old in TANK
    problem, out = write(tmp_path, TANK.replace(old, new)), tmp_path / "run"
    out.mkdir()
    (out / "plan.csv").write_text("of an earlier run", encoding="utf-8")
    done = command("plan", problem, "--out", out)
    result = assert_honest(problem, out, done.code)
    assert done.code == 2
    assert result["status"] == "infeasible"
    assert note in " ".join(result["notes"])
    assert note in done.out


# Early ends


ANY_SIGNAL = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from reluplan.cli import main; main()"
)
"""A test run in the background of a script ignores SIGINT, and so would every program that it starts."""


@contextmanager
def killed_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("number", "times"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 1)], ids=["once", "twice", "term"]
)
def test_a_signal_ends_with_what_is_known(hard: Path, tmp_path: Path, number: signal.Signals, times: int) -> None:
    line = [sys.executable, "-c", ANY_SIGNAL, "plan", str(hard), "--stages", "milp", "--out", str(tmp_path / "run")]
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, stdout=pipe, stderr=pipe, encoding="utf-8", stdin=subprocess.DEVNULL)
    with killed_after(AMPLE, process):
        assert process.stderr is not None
        assert any("bound" in text and "milp" in text for text in process.stderr), "the solver has begun"
        for _ in range(times):
            process.send_signal(number)
        out, err = process.communicate(timeout=AMPLE)
    assert "Traceback" not in err
    result = assert_honest(hard, tmp_path / "run", process.returncode)
    assert result["interrupted"] is True
    assert result["bound"] is not None
    assert result["status"] in ("feasible", "no_plan")
    assert "interrupted" in out


def test_a_time_limit_ends_with_what_is_known(hard: Path, tmp_path: Path) -> None:
    done = launch("plan", hard, "--method", "base", "--out", tmp_path / "run", "--time-limit", 3)
    result = assert_honest(hard, tmp_path / "run", done.code)
    assert result["interrupted"] is False
    assert result["status"] in ("feasible", "no_plan")
    assert result["seconds"] < 60.0


def test_no_time_at_all_is_no_plan(command: Command, tank: Path, tmp_path: Path) -> None:
    done = command("plan", tank, "--out", tmp_path / "run", "--time-limit", 1e-6)
    assert done.code == 3
    assert assert_honest(tank, tmp_path / "run", done.code)["status"] == "no_plan"
    assert "not proven" in done.out


def test_an_interrupt_before_the_planning_keeps_nothing(
    command: Command, tank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Problem, "load", stop)
    done = command("plan", tank, "--out", tmp_path / "run")
    assert (done.code, done.out) == (3, "")
    assert "interrupted" in done.err
    assert not (tmp_path / "run").exists()


def test_a_reader_that_leaves_early_is_no_error(tank: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "reluplan", "check", str(tank), str(write(tmp_path, "pump\n1\n", "plan.csv"))]
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, stdout=pipe, stderr=pipe, encoding="utf-8", env=BUFFERED)
    with killed_after(AMPLE, process):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


# Check, export, convert


def test_a_broken_plan_is_named(command: Command, tank: Path, tmp_path: Path) -> None:
    plan = write(tmp_path, "pump\n0\n0\n1\n4\n", "plan.csv")
    done = command("check", tank, plan)
    assert done.code == 3
    assert "NOT valid over 4 steps" in done.out
    assert "step 4: 0 <= pump <= 3 by 1" in done.out
    record = json.loads(command("check", tank, plan, "--json").out)
    assert record["ok"] is False
    assert record["violations"] == [
        {"constraint": "pump <= level + 1", "step": 4, "amount": 2.0},
        {"constraint": "0 <= pump <= 3", "step": 4, "amount": 1.0},
    ]
    assert record["max_violation"] == 2.0


def test_a_plan_from_another_first_state_and_from_a_plan_of_before(
    command: Command, tank: Path, tmp_path: Path
) -> None:
    """--initial takes the place of the file's value, for plan and check; --start gives a plan to begin from."""
    out = tmp_path / "run"
    assert (
        command(
            "plan", tank, "--out", out, "--initial", "level=5", "--start", write(tmp_path, "pump\n1\n", "p.csv")
        ).code
        == 0
    )
    assert result_of(out)["reward"] == pytest.approx(-0.4, abs=1e-6)  # what flows out comes back in
    assert command("check", tank, out, "--initial", "level=5").code == 0
    assert command("check", tank, out).code == 3
    again = command(
        "plan", tank, "--out", tmp_path / "2", "--start", out, "--initial", "level = 5", "--stages", "interval"
    )
    assert again.code == 0
    assert result_of(tmp_path / "2")["reward"] == result_of(out)["reward"]
    for given, said in {
        "level": "expected a state and its first value",
        "level=x": "expected a state and its first value",
        "lvel=1": "did you mean 'level'?",
        "level=99": "outside the bounds [0, 10]",
    }.items():
        done = command("plan", tank, "--out", out, "--initial", given)
        assert (done.code, said in done.err) == (4, True), done.err


def test_a_plan_of_another_length_is_said_to_be_one(command: Command, tank: Path, tmp_path: Path) -> None:
    path = write(tmp_path, "pump\n1\n", "plan.csv")
    done = command("check", tank, path)
    assert done.code == 3
    assert "valid over 1 steps (the problem file says 4)" in done.out
    assert "plan.csv: the plan has 1 steps, the problem has 4" in done.out
    assert "--horizon" in done.out
    assert command("check", tank, path, "--horizon", 1).code == 0


def highs_optimum(path: Path) -> float:
    create: Any = highspy.Highs  # its constructor has no types
    highs = create()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(highs.getInfo().objective_function_value)


def scip_optimum(path: Path) -> float:
    scip = pytest.importorskip("pyscipopt").Model()
    scip.hideOutput()
    scip.readProblem(str(path))
    scip.optimize()
    assert scip.getStatus() == "optimal"
    return float(scip.getObjVal())


def test_exported_models_have_the_optimum_of_the_plan(command: Command, plant: Path, tmp_path: Path) -> None:
    """Read back by two solvers; the files minimise the negated reward."""
    assert command("plan", plant, "--out", tmp_path / "run", "--quiet", "--gap", "1e-6").code == 0
    reward = result_of(tmp_path / "run")["reward"]
    for name in ("model.mps", "model.lp"):
        path = tmp_path / "new folder" / name
        done = command("export", plant, "--out", path, "--json")
        assert done.code == 0
        assert set(json.loads(done.out)) == {"file", "rows", "columns"}
        assert "push_1" in path.read_text(encoding="utf-8")
        for optimum in (highs_optimum(path), scip_optimum(path)):
            assert -optimum == pytest.approx(reward, abs=1e-4)


def test_the_horizon_of_an_export_can_be_chosen(command: Command, tank: Path, tmp_path: Path) -> None:
    for horizon, reward in ((1, -1.3), (3, -1.6)):
        assert command("export", tank, "--horizon", horizon, "--out", tmp_path / "m.mps").code == 0
        assert highs_optimum(tmp_path / "m.mps") == pytest.approx(-reward, abs=1e-6)


def test_published_files_are_converted(command: Command, published_instances: Path, tmp_path: Path) -> None:
    done = command("convert", published_instances, "hvac_3", "--out", tmp_path / "hvac", "--horizon", 12, "--json")
    assert done.code == 0
    path = Path(json.loads(done.out)["problem"])
    assert (path.parent, done.err) == (tmp_path / "hvac", "")
    assert Problem.load(path).horizon == 12
    missing = command("convert", published_instances, "hvac_9", "--out", tmp_path / "hvac9")
    assert missing.code == 4
    assert "hvac_9" in missing.err
    assert not (tmp_path / "hvac9").exists()


# Wrong input: exit code 4, one paragraph, nothing touched


def nan_network(path: Path) -> None:
    PLANT_NETWORK.save(path)
    model = onnx.load(path)
    weights = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 2)
    values = np.array(numpy_helper.to_array(weights))
    values[0, 0] = np.nan
    weights.CopyFrom(numpy_helper.from_array(values, weights.name))
    onnx.save(model, path)


def sigmoid_network(path: Path) -> None:
    PLANT_NETWORK.save(path)
    model = onnx.load(path)
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type = "Sigmoid"
    onnx.save(model, path)


def text_network(path: Path) -> None:
    path.write_text("hello", encoding="utf-8")


BAD_PROBLEMS: dict[str, tuple[str, str, str, list[str]]] = {
    "broken TOML": (TANK, "horizon = 4", "horizon = = 4", ["not valid TOML", "line 3"]),
    "empty file": (TANK, TANK, "", ["no state is declared"]),
    "unknown key": (TANK, "constraints =", "constrains =", ["unknown key 'constrains'", "did you mean 'constraints'?"]),
    "unknown variable": (TANK, "0.1*pump", "0.1*pumpp", ["reward", "unknown variable 'pumpp'", "did you mean 'pump'?"]),
    "syntax error": (TANK, "pump <= level + 1", "pump <= level +", ["constraints[0]", "column 16", "\n    pump <= "]),
    "strict sign": (TANK, "pump <= level", "pump < level", ["constraints[0]", "write <=", "column 6"]),
    "empty box": (TANK, "[0, 3]", "[3, 0]", ['action."pump".bounds', "the box is empty"]),
    "initial value": (TANK, "initial = 2", "initial = 11", ['state."level".initial', "11 lies outside", "[0, 10]"]),
    "horizon 0": (TANK, "horizon = 4", "horizon = 0", ["horizon", "at least 1"]),
    "inputs": (PLANT, '"push", "pull", "height"', '"push", "pull"', ["network.inputs", "3 names", "has 4 inputs"]),
    "outputs": (PLANT, '["speed", "height"]', '["speed"]', ["network.outputs", "1 names", "has 2 outputs"]),
    "no network": (PLANT, '"network.onnx"', '"nowhere.onnx"', ["network.file", "no such file", "nowhere.onnx"]),
    "unbounded state": (
        PLANT.replace("bounds = [-5, 5]\n", ""), "initial = 0.5", "", ["'height'", "bounds = [lower, upper]", "step 1"],
    ),
    "unbounded reward": (
        re.sub("bounds = .*", "", TANK).replace("max(level - 1, 0)", "level").replace("pump <= level + 1", "pump >= 0"),
        "-abs(level' - 5)", "level'", ["the reward has no upper bound"],
    ),
}  # fmt: skip
BAD_NETWORKS: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "a weight that is NaN": (nan_network, ["network.onnx", "NaN"]),
    "an operator that is no ReLU": (sigmoid_network, ["network.onnx", "Sigmoid", "smooth", "reluplan distil"]),
    "no ONNX at all": (text_network, ["network.onnx", "not an ONNX"]),
}
BAD_OPTIONS: dict[str, tuple[list[object], list[str]]] = {
    "horizon": (["--horizon", 0], ["horizon", "at least 1"]),
    "horizon text": (["--horizon", "many"], ["--horizon", "integer"]),
    "method": (["--method", "magic"], ["unknown method 'magic'", "auto"]),
    "solver": (["--solver", "abacus"], ["solver 'abacus'", "highs"]),
    "negative time limit": (["--time-limit", -5], ["time limit", "-5"]),
    "time limit NaN": (["--time-limit", "nan"], ["time limit", "nan"]),
    "gap": (["--gap", -1], ["gap", "-1"]),
    "threads": (["--threads", 0], ["threads", "0"]),
    "big M": (["--big-m", 0.1], ["--big-m 0.1", "larger"]),
    "unknown option": (["--horizont", 3], ["--horizont"]),
}
USAGE_ERRORS: dict[str, tuple[list[object], list[str]]] = {
    "nothing": ([], ["Usage: reluplan", "plan", "check"]),
    "unknown command": (["plann"], ["'plann'", "plan"]),
    "no problem": (["plan"], ["problem"]),
    "no out": (["plan", "p.toml"], ["--out"]),
    "out without value": (["plan", "p.toml", "--out"], ["--out"]),
    "no plan": (["check", "p.toml"], ["PLAN"]),
    "too many": (["check", "p.toml", "plan.csv", "more"], ["more"]),
}
BAD_PLANS: dict[str, tuple[str, list[str]]] = {
    "missing column": ("step,level\n1,2\n", ["plan.csv", "column 'pump' is missing"]),
    "text": ("step,pump\n1,2\n2,fast\n", ["plan.csv", "line 3", "column 'pump'", "'fast'"]),
    "row too short": ("step,pump\n1,2\n2\n", ["plan.csv", "line 3 has 1 fields"]),
    "lost step": ("step,pump\n1,2\n3,2\n", ["plan.csv", "line 3", "step 3 follows step 1"]),
    "no step": ("step,pump\n", ["plan.csv", "has no plan"]),
    "empty": ("", ["plan.csv", "has no plan"]),
}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A run directory with files of an earlier run."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("result.json", "plan.csv", "log.txt"):
        write(folder, f"precious {name}", name)
    return folder


def assert_refused(done: Outcome, said: list[str]) -> None:
    assert done.code == 4
    assert done.out == ""
    assert "Traceback" not in done.err
    assert done.err.startswith("reluplan: ")
    assert "\n\n" not in done.err
    for part in said:
        assert part in done.err


def assert_untouched(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "plan.csv", "result.json"]
    for path in folder.iterdir():
        assert path.read_text(encoding="utf-8") == f"precious {path.name}"


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_a_wrong_problem_is_refused(command: Command, plant: Path, earlier: Path, case: str) -> None:
    text, old, new, said = BAD_PROBLEMS[case]
    assert old in text
    problem = write(plant.parent, text.replace(old, new, 1), "wrong.toml")
    assert_refused(command("plan", problem, "--out", earlier, "--quiet"), ["wrong.toml", *said])
    assert_untouched(earlier)


@pytest.mark.parametrize("case", BAD_NETWORKS)
def test_a_wrong_network_is_refused(command: Command, plant: Path, earlier: Path, case: str) -> None:
    spoil, said = BAD_NETWORKS[case]
    spoil(plant.parent / "network.onnx")
    assert_refused(command("plan", plant, "--out", earlier, "--quiet"), said)
    assert_untouched(earlier)


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_a_wrong_option_is_refused(command: Command, plant: Path, earlier: Path, case: str) -> None:
    options, said = BAD_OPTIONS[case]
    assert_refused(command("plan", plant, "--out", earlier, "--quiet", *options), said)
    assert_untouched(earlier)


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_a_wrong_call_is_refused(command: Command, case: str) -> None:
    arguments, said = USAGE_ERRORS[case]
    done = command(*arguments)
    assert (done.code, done.out) == (4, "")
    for part in said:
        assert part in done.err


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_wrong_plan_is_refused(command: Command, tank: Path, tmp_path: Path, case: str) -> None:
    text, said = BAD_PLANS[case]
    assert_refused(command("check", tank, write(tmp_path, text, "plan.csv")), said)


@pytest.mark.parametrize("line", ["plan", "check", "export"])
def test_a_problem_that_is_not_there_is_refused(command: Command, earlier: Path, line: str) -> None:
    rest = [earlier] if line == "check" else ["--out", earlier if line == "plan" else earlier / "m.lp"]
    absent = earlier.parent / "absent.toml"
    assert_refused(command(line, absent, *rest), [str(absent), "no such problem file"])
    assert_refused(command(line, earlier, *rest), [str(earlier), "Is a directory"])
    assert_untouched(earlier)


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    command: Command, tank: Path, earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_work(*_: object, **__: object) -> None:
        raise AssertionError("planned before looking at --out")

    monkeypatch.setattr("reluplan.planning.planner.plan", no_work)
    monkeypatch.setattr("reluplan.planning.planner.build_model", no_work)
    file = earlier / "log.txt"
    assert_refused(command("plan", tank, "--out", file), [str(file), "is a file", "--out"])
    assert_refused(command("plan", tank, "--out", file / "run"), [str(file), "is a file", "--out"])
    assert_refused(command("export", tank, "--out", file / "m.lp"), [str(file), "is a file", "--out"])
    monkeypatch.setattr("os.access", lambda _, mode: not mode & os.W_OK)
    assert_refused(command("plan", tank, "--out", earlier), [str(earlier), "no permission"])
    assert_untouched(earlier)


def test_an_unknown_model_format_is_refused(command: Command, tank: Path, tmp_path: Path) -> None:
    assert_refused(command("export", tank, "--out", tmp_path / "model.txt"), ["model.txt", ".mps or .lp"])
    assert not (tmp_path / "model.txt").exists()


def test_leaving_at_once_forgets_nothing(tmp_path: Path) -> None:
    """Exit handlers run, all output is there, the exit code is ours; a thread that is at work is waited for."""
    write(tmp_path, "import atexit\natexit.register(lambda: print('handled'))\n" + BUSY_THREAD, "sitecustomize.py")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for busy in ("", "yes"):
        environment = {**BUFFERED, "PYTHONPATH": path, "BUSY": busy}
        for arguments, code in ((["--version"], 0), (["plan", "absent.toml", "--out", str(tmp_path / "run")], 4)):
            line = [sys.executable, "-m", "reluplan", *arguments]
            done = subprocess.run(line, capture_output=True, encoding="utf-8", env=environment, timeout=AMPLE)
            assert done.returncode == code
            assert done.stdout.splitlines()[-1:] == ["handled"]
            assert ("reluplan 0." in done.stdout) == (code == 0)
            assert ("worked" in done.stdout) == bool(busy)


def test_a_program_that_calls_ours_goes_on(tmp_path: Path) -> None:
    calling = "import sys\nfrom reluplan.cli import main\nsys.argv = ['reluplan', '--version']\n"
    script = write(tmp_path, f"{calling}try:\n    main()\nexcept SystemExit:\n    print('goes on')\n", "script.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, encoding="utf-8", timeout=AMPLE)
    assert done.stdout.splitlines()[-1:] == ["goes on"]


BUSY_THREAD = """
import os, sys, threading
def work():
    while threading.main_thread().is_alive():
        threading.main_thread().join(0.1)
    print("worked")
if os.environ.get("BUSY"):
    threading.Thread(target=work).start()
"""


def test_the_program_itself_refuses_wrong_input(tmp_path: Path) -> None:
    """The same through the real program, once for our own errors and once for those of the argument parser."""
    assert_refused(launch("plan", tmp_path / "absent.toml", "--out", tmp_path / "run"), ["no such problem file"])
    assert_refused(launch("plan", tmp_path / "absent.toml", "--no-such-option"), ["--no-such-option"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_is_not_called_an_error_of_ours(tank: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "reluplan", "check", str(tank), str(write(tmp_path, "pump\n1\n", "plan.csv"))]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, encoding="utf-8", env=BUFFERED, timeout=AMPLE)
    assert done.returncode == 5
    assert re.fullmatch(r"reluplan: .*No space left on device\n", done.stderr)


def test_an_error_of_ours_is_called_one(
    command: Command, tank: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Path) -> None:
        raise ZeroDivisionError("one by zero")

    monkeypatch.setattr(Problem, "load", fail)
    done = command("plan", tank, "--out", tmp_path / "run")
    assert done.code == 5
    assert "internal error: ZeroDivisionError: one by zero" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("RELUPLAN_DEBUG", "1")
    assert "Traceback" in command("plan", tank, "--out", tmp_path / "run").err


# Help and progress


@pytest.mark.parametrize("line", [[], ["plan"], ["check"], ["convert"], ["export"]])
def test_help_names_the_exit_codes(command: Command, line: list[str]) -> None:
    done = command(*line, "--help")
    assert (done.code, done.err) == (0, "")
    assert "Exit codes: 0" in done.out
    assert "..." not in done.out.split("Commands:")[-1].split("Exit codes")[0], "a short help is cut off"


def test_the_version_is_printed(command: Command) -> None:
    assert re.fullmatch(r"reluplan \d+\.\d+\.\d+\n", command("--version").out)


def view_of(events: list[Event], terminal: bool, width: int = 60, quiet: bool = False) -> tuple[str, str]:
    """(what is shown, the log) of a run with these events."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=width)
    with ProgressView(Clock(100.0), quiet, console) as view:
        for event in events:
            view(event)
    return screen.getvalue(), view.log


STORY = [
    Event(0.1, "bounds", "3 of 4 ReLUs are unstable", None, None),
    Event(1.25, "milp", "bound 12.5 from highs", None, 12.5),
    Event(2.0, "milp", "plan with reward 10 from highs", 10.0, 12.5),
]


def test_without_a_terminal_each_event_is_a_line() -> None:
    shown, log = view_of(STORY, terminal=False)
    assert shown == log
    assert log == (
        "     0.1 s  bounds     3 of 4 ReLUs are unstable\n"
        "     1.2 s  milp       bound 12.5 from highs\n"
        "     2.0 s  milp       plan with reward 10 from highs\n"
    )


def test_a_terminal_shows_one_line_that_is_taken_down_again() -> None:
    shown, log = view_of(STORY, terminal=True, width=100)
    assert len(log.splitlines()) == 3
    last = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "\n").strip().splitlines()[-1]
    assert re.fullmatch(r"milp +\d+\.\d s of 100   plan 10\.0000   bound 12\.5000   gap 25\.00%", last.strip())
    assert shown.rstrip().endswith("\x1b[2K"), "the line is erased at the end"


def test_a_narrow_terminal_cuts_the_line() -> None:
    shown, _ = view_of(STORY, terminal=True, width=30)
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r", "\n").splitlines()
    assert max(map(len, lines)) <= 30


def test_the_log_is_text_whatever_a_file_is_called() -> None:
    shown, log = view_of([Event(0.0, "bounds", "caf\udce9.toml: no plan exists", None, None)], terminal=False)
    assert shown == log == "     0.0 s  bounds     caf\\udce9.toml: no plan exists\n"


def test_quiet_keeps_the_log() -> None:
    shown, log = view_of(STORY, terminal=False, quiet=True)
    assert shown == ""
    assert len(log.splitlines()) == 3


def test_a_creeping_bound_is_told_now_and_then() -> None:
    """Its first, a few between and its last value; plans and other news are never left out."""
    creep = [Event(t / 4, "milp", f"bound {100 - t * 1e-4:.4f}", 5.0, 100 - t * 1e-4) for t in range(400)]
    news = Event(100.0, "milp", "plan with reward 6", 6.0, creep[-1].bound)
    _, log = view_of([*STORY, *creep, news], terminal=False)
    lines = log.splitlines()
    assert len(lines) < 30
    assert lines[-2].endswith(creep[-1].message)
    assert lines[-1].endswith("plan with reward 6")
    _, log = view_of([*STORY, *creep], terminal=False)
    assert log.splitlines()[-1].endswith(creep[-1].message)
