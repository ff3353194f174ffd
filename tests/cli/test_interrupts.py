"""Ctrl-C and SIGTERM at every moment, and files that cannot be written: what was found is kept and shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from patience import AMPLE
from reluplan import Problem, plan
from reluplan.errors import OutputError
from reluplan.interrupts import Hold, handling_signals, held, interruptible
from reluplan.problem.plan_file import read_plan

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "reluplan", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, **{"stdout": pipe, "stderr": pipe, "text": True, **options})


def finish(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "reluplan", *map(str, arguments)]
    return subprocess.run(line, text=True, timeout=AMPLE, check=False, **{"capture_output": True, **options})


# When signals are raised


def test_a_signal_waits_until_it_can_be_caught() -> None:
    caught = 0
    with handling_signals():
        signal.raise_signal(signal.SIGINT)
        for _ in range(2):
            try:
                with interruptible():
                    caught += 10
            except KeyboardInterrupt:
                caught += 1
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt), interruptible():
            pass
    assert caught == 2


def test_a_second_signal_is_not_raised_while_the_first_is_answered() -> None:
    with handling_signals() as handler, interruptible():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        for _ in range(10):
            signal.raise_signal(signal.SIGINT)
        assert handler.raised_at is not None
        handler.raised_at -= 60.0  # a minute later it seems that the first was swallowed
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_signals_that_are_held_back_are_noted() -> None:
    with handling_signals(), interruptible():
        with held() as hold:
            assert hold == Hold(False)
            signal.raise_signal(signal.SIGINT)
            assert hold.interrupted
        with held() as again:
            signal.raise_signal(signal.SIGINT)  # one more of the same burst
        assert not again.interrupted


def test_showing_can_be_interrupted_a_while_after_the_files_are_written() -> None:
    with handling_signals() as handler:
        handler.files_written()
        signal.raise_signal(signal.SIGINT)
        assert handler.written_at is not None
        handler.written_at -= 60.0
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_without_a_handler_nothing_changes() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible(), held():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_that_we_were_told_to_ignore_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with handling_signals(), interruptible():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


# Bursts of signals in a real run


@pytest.mark.parametrize("pause", [0.0, 0.03, 0.1, 0.25])
def test_a_burst_of_signals_keeps_the_plan(hard: Path, tmp_path: Path, pause: float) -> None:
    process = start("plan", hard, "--out", tmp_path / "run")
    timer = threading.Timer(AMPLE, process.kill)
    timer.start()
    assert process.stderr is not None
    assert any("plan with reward" in line for line in process.stderr)
    for number in 5 * [signal.SIGINT, signal.SIGINT, signal.SIGTERM]:
        process.send_signal(number)
        time.sleep(pause)
        if process.poll() is not None:
            break
    out, err = process.communicate(timeout=AMPLE)
    timer.cancel()
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert "interrupted: this is what was known" in out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["interrupted"] is True
    assert result["reward"] is not None
    rewards = read_plan(Problem.load(hard), tmp_path / "run").rewards
    assert rewards is not None
    assert rewards.sum() == pytest.approx(result["reward"])
    assert not list((tmp_path / "run").glob(".*"))


def test_a_reader_that_does_not_read_can_be_left(tank: Path, tmp_path: Path) -> None:
    """The result does not fit into the pipe, nobody reads it, and Ctrl-C ends the waiting, with the files in place."""
    read, write = os.pipe()
    with os.fdopen(read), os.fdopen(write, "wb", buffering=0) as full:
        os.set_blocking(write, False)
        while full.write(b"x" * 4096):
            pass
        os.set_blocking(write, True)
        process = start("plan", tank, "--json", "--out", tmp_path / "run", stdout=write)
        timer = threading.Timer(AMPLE, process.kill)
        timer.start()
        while not (tmp_path / "run" / "log.txt").exists():
            time.sleep(0.05)
        while process.poll() is None:
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
        timer.cancel()
    assert process.returncode == 0
    assert process.stderr is not None
    assert "interrupted while the result was shown; the files are in" in process.stderr.read()
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "optimal"


# Signals during imports

INTERRUPTING_SITE = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), getattr(signal, os.environ["INTERRUPT_BY"]))

sys.meta_path.insert(0, Interrupter())
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("module", ["numpy", "reluplan.problem.check", "numpy.linalg", "typer", "reluplan.cli.plan"])
def test_a_signal_during_imports_is_one_line(tank: Path, tmp_path: Path, module: str, number: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING_SITE)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "INTERRUPT_AT": module, "INTERRUPT_BY": number}
    done = finish("plan", tank, "--out", tmp_path / "run", env=environment)
    assert done.stderr == "reluplan: interrupted before there was anything to keep\n"
    assert (done.returncode, done.stdout) == (3, "")


def test_a_signal_while_a_command_imports_is_one_line(tank: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING_SITE)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for module, number in (("reluplan.planning.planner", "SIGINT"), ("highspy", "SIGTERM"), ("rich.live", "SIGINT")):
        environment = {**os.environ, "PYTHONPATH": path, "INTERRUPT_AT": module, "INTERRUPT_BY": number}
        done = finish("plan", tank, "--out", tmp_path / "run", env=environment)
        assert done.stderr == "reluplan: interrupted before there was anything to keep\n"
        assert done.returncode == 3


def test_an_import_that_turns_the_signal_into_an_error_does_not_hide_it(tank: Path, tmp_path: Path) -> None:
    """As extension modules do: Ctrl-C was an internal error in highspy, and lost in onnxruntime."""
    swallowing = """
    import os, signal

    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise ImportError("initialization failed")
    """
    (tmp_path / "highspy.py").write_text(textwrap.dedent(swallowing))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = finish("plan", tank, "--out", tmp_path / "run", env={**os.environ, "PYTHONPATH": path})
    assert done.stderr == "reluplan: interrupted before there was anything to keep\n"
    assert done.returncode == 3


# collect

STUCK = """
import os, signal, time

STATES = {"level": (0, 10)}
ACTIONS = {"pump": (0, 3)}
INITIAL = {"level": 2}
made = 0


def step(state, action):
    global made
    made += 1
    if made == 2003:
        os.kill(os.getppid(), signal.SIGNAL)
        time.sleep(3600)
    return [min(10, 0.9 * state[0] + action[0])]
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_collect_does_not_wait_for_simulators(tmp_path: Path, name: str) -> None:
    """A simulator that takes an hour for a step is left; the whole episodes so far are kept."""
    (tmp_path / "stuck.py").write_text(STUCK.replace("SIGNAL", name))
    done = finish(
        "collect", f"{tmp_path / 'stuck.py'}:step", "--episodes", 4000, "--steps", 5, "--processes", 2,
        "--out", tmp_path / "data.csv",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "data.csv").read_text().splitlines()[1:]
    assert rows
    assert f"holds the first {len(rows) // 5} of 4000 episodes" in done.stderr


# Files that cannot be written


def test_a_log_that_cannot_be_written_loses_nothing_else(tank: Path, tmp_path: Path) -> None:
    (tmp_path / "run" / "log.txt").mkdir(parents=True)
    done = finish("plan", tank, "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 5
    assert "log.txt: cannot be written" in done.stderr
    assert "is now: result.json, plan.csv." in done.stderr
    assert "optimal" in done.stdout
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "optimal"
    assert (tmp_path / "run" / "plan.csv").is_file()


@pytest.mark.parametrize(
    ("blocks", "left", "horizon"),
    [(4, "is now: plan.csv, log.txt", 3), (0, "is still what an earlier run left: result.json, plan.csv, log.txt", 4)],
)
def test_what_fits_on_a_full_disk_is_written(tank: Path, tmp_path: Path, blocks: int, left: str, horizon: int) -> None:
    """The system refuses files beyond so many blocks of 1024 bytes; result.json is longer than four."""
    run = tmp_path / "run"
    assert finish("plan", tank, "--out", run).returncode == 0
    command = [sys.executable, "-m", "reluplan", "plan", str(tank), "--horizon", "3", "--out", str(run)]
    line = ["bash", "-c", f'ulimit -f {blocks}; exec "$@"', "bash", *command]
    done = subprocess.run(line, capture_output=True, text=True, timeout=AMPLE, check=False)
    assert done.returncode == 5
    assert f"{'result.json' if blocks else 'plan.csv'}: cannot be written (File too large)" in done.stderr
    assert f"{left}." in done.stderr
    assert "status   optimal" in done.stdout
    assert sorted(path.name for path in run.iterdir()) == sorted(left.split(": ")[1].split(", "))
    assert len(read_plan(Problem.load(tank), run).actions) == horizon


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("streams", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_screens_that_take_nothing_lose_no_file(tank: Path, tmp_path: Path, streams: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **dict.fromkeys(streams, full)}
        done = finish("plan", tank, "--out", tmp_path / "run", capture_output=False, **pipes)
    assert done.returncode == (5 if "stdout" in streams else 0)
    assert "Traceback" not in (done.stderr or "")
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["log.txt", "plan.csv", "result.json"]


def test_a_folder_that_is_none_is_told(tank: Path, tmp_path: Path) -> None:
    result = plan(Problem.load(tank), method="base")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"result.json: cannot be written .* is now: nothing"):
        result.write(tmp_path / "file" / "run")


def test_a_plan_that_cannot_be_replaced_leaves_no_claim_about_another(tank: Path, tmp_path: Path) -> None:
    result = plan(Problem.load(tank), method="base")
    result.write(tmp_path / "run")
    (tmp_path / "run" / "plan.csv").unlink()
    (tmp_path / "run" / "plan.csv" / "in the way").mkdir(parents=True)
    with pytest.raises(OutputError, match=r"plan.csv: cannot be written .* is now: log.txt"):
        result.write(tmp_path / "run")


KILLED_WRITER = textwrap.dedent(
    """
    import os, shutil, signal, sys
    from pathlib import Path
    from reluplan import Problem, plan

    folder = Path(sys.argv[2])
    problem = Problem.load(sys.argv[1])
    results = [plan(problem.with_horizon(h), method="base") for h in (3, 4)]
    results.append(plan(problem.with_horizon(3), method="base", time_limit=1e-9))
    left = [0]

    def count(event, arguments):
        if left[0] and event in ("open", "os.rename", "os.remove"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def state():
        claim, shown = folder / "result.json", folder / "plan.csv"
        horizon = __import__("json").loads(claim.read_text()) if claim.exists() else None
        return horizon, len(shown.read_text().splitlines()) - 2 if shown.exists() else None

    sys.addaudithook(count)
    kills = 0
    for before in results:
        for after in results:
            for moment in range(1, 40):
                shutil.rmtree(folder, ignore_errors=True)
                before.write(folder)
                pid = os.fork()
                if pid == 0:
                    left[0] = moment
                    after.write(folder)
                    os._exit(0)
                killed = os.waitpid(pid, 0)[1] != 0
                claim, steps = state()
                assert claim is None or steps == (claim["horizon"] if claim["reward"] is not None else None), moment
                kills += killed
                if not killed:
                    break
    print(kills)
    """
)


def test_killed_at_any_file_operation_no_result_stands_beside_the_plan_of_another(tank: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-c", KILLED_WRITER, str(tank), str(tmp_path / "run")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=AMPLE, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 9 * 5
