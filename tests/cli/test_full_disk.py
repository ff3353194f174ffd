"""Disks that are really full, folders that really cannot be written: whole files or none, and nothing older lost."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from patience import AMPLE
from reluplan import Problem
from reluplan.problem.plan_file import read_plan
from systems import HARD, HARD_NETWORK

TANK = """
name = "tank"
horizon = 4
reward = "-abs(level' - 5) - 0.1*pump"
[state."level"]
bounds = [0, 10]
initial = 2
[action."pump"]
bounds = [0, 3]
[transition]
"level" = "max(level - 1, 0) + pump"
"""
LONG = """
name = "long"
horizon = 1000
reward = "-pump - 0.001*level'"
state."level" = {bounds = [0, 10], initial = 2}
action."pump" = {bounds = [0.123456789, 3]}
[transition]
"level" = "0.8*level + pump"
"""
LEAKY = """
STATES = {"level": (0, 10)}
ACTIONS = {"pump": (0, 3)}
INITIAL = {"level": 2}


def step(state, action):
    return [min(10, 0.9 * state[0] + action[0])]
"""
RELUPLAN = [sys.executable, "-m", "reluplan"]
PATIENCE = ["timeout", "--kill-after=5", "100"]
NOBODY = 65534
PAGE = 4096
"""Bytes: a small filesystem in memory gives its files whole pages."""
DISK = 16
"""Pages of the whole disk."""
IN_NAMESPACE = """
mount -t tmpfs -o size={size} none {disk} || exit 99
{before}
cp -a {disk}/. {older}
{fill}
{command} > {folder}/stdout 2> {folder}/stderr
echo $? > {folder}/code
cp -a {disk}/. {kept}
"""


def _namespace() -> list[str]:
    """A shell that may mount what nobody else sees, and that is gone with it."""
    return ["unshare", *(["--mount"] if os.geteuid() == 0 else ["--map-root-user", "--mount"]), "bash", "-c"]


@pytest.fixture(scope="module")
def may_mount(tmp_path_factory: pytest.TempPathFactory) -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip("mount namespaces are of Linux")
    place = tmp_path_factory.mktemp("disk")
    line = [*_namespace(), f"mount -t tmpfs -o size=64k none {shlex.quote(str(place))}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no filesystem may be mounted here: {done.stderr.strip()}")


@pytest.fixture
def tank(tmp_path: Path) -> Path:
    (tmp_path / "tank.toml").write_text(TANK)
    return tmp_path / "tank.toml"


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A linear program over a thousand steps, whose plan takes several pages."""
    (tmp_path / "long.toml").write_text(LONG)
    return tmp_path / "long.toml"


@dataclass(frozen=True)
class Ended:
    """How a command on the small disk ended; folders with what was on it before and after."""

    code: int
    stdout: str
    stderr: str
    older: Path
    kept: Path

    @property
    def names(self) -> list[str]:
        """Files that are there now, hidden ones too."""
        return sorted(str(path.relative_to(self.kept)) for path in self.kept.rglob("*") if path.is_file())

    def is_as_it_was(self, name: str) -> bool:
        return (self.older / name).read_bytes() == (self.kept / name).read_bytes()


def on_small_disk(folder: Path, arguments: list[object], free: int, before: list[object] | None = None) -> Ended:
    """The command with a disk of so many free pages as the folder `disk`, after another command on the empty disk."""
    for name in ("disk", "older", "kept"):
        (folder / name).mkdir()
    quoted = {name: shlex.quote(str(folder / name)) for name in ("disk", "older", "kept")}
    fill = f"head -c $(( ($(stat -f -c %a {quoted['disk']}) - {free}) * {PAGE} )) /dev/zero > {quoted['disk']}/filler"
    command, first = (
        shlex.join([*PATIENCE, *RELUPLAN, *map(str, line)]) if line else "" for line in (arguments, before)
    )
    place = shlex.quote(str(folder))
    script = IN_NAMESPACE.format(size=DISK * PAGE, folder=place, fill=fill, command=command, before=first, **quoted)
    done = subprocess.run([*_namespace(), script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "kept" / "filler").unlink()
    texts = {name: (folder / name).read_text() for name in ("stdout", "stderr", "code")}
    return Ended(int(texts["code"]), texts["stdout"], texts["stderr"], folder / "older", folder / "kept")


def pages_of_run(problem: Path, folder: Path) -> int:
    """What the files of a run take where there is room for them."""
    line = [*PATIENCE, *RELUPLAN, "plan", str(problem), "--out", str(folder)]
    subprocess.run(line, capture_output=True, check=True)
    return sum(-(-path.stat().st_size // PAGE) for path in folder.iterdir())


def assert_told(done: Ended) -> None:
    """The exit code of files that could not be written, in one line, after what was found."""
    assert done.code == 5, done.stderr
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("reluplan: ")]
    assert len(said) == 1
    assert said[0] == done.stderr.splitlines()[-1]
    assert "cannot be written (No space left on device)" in said[0]
    assert not [name for name in done.names if "tmp" in name]


def assert_whole(problem: Path, folder: Path, horizon: int) -> None:
    """Whichever of result.json and plan.csv is there is whole, and of the run with this horizon."""
    if (folder / "result.json").exists():
        assert json.loads((folder / "result.json").read_text())["horizon"] == horizon
    if (folder / "plan.csv").exists():
        assert len(read_plan(Problem.load(problem).with_horizon(horizon), folder / "plan.csv").actions) == horizon


@pytest.mark.usefixtures("may_mount")
@pytest.mark.parametrize(
    ("free", "left"), [(-1, ["plan.csv", "result.json"]), (-2, ["log.txt", "plan.csv"]), (1, ["plan.csv"]), (0, [])]
)  # fmt: skip
def test_what_fits_is_written_whole(tank: Path, tmp_path: Path, free: int, left: list[str]) -> None:
    """Of so many pages, or of so many fewer than all files take: plan.csv and log.txt take one, result.json more.

    result.json and plan.csv are written before log.txt, and plan.csv before result.json.
    """
    pages = free if free >= 0 else pages_of_run(tank, tmp_path / "whole") + free
    done = on_small_disk(tmp_path, ["plan", tank, "--out", tmp_path / "disk" / "run"], pages)
    assert_told(done)
    assert "status   optimal" in done.stdout
    assert done.names == [f"run/{name}" for name in left]
    assert_whole(tank, done.kept / "run", 4)
    told = ", ".join(name for name in ("result.json", "plan.csv", "log.txt") if name in left) or "nothing"
    assert f"is now: {told}." in done.stderr


@pytest.mark.usefixtures("may_mount")
def test_a_file_that_fits_in_part_is_not_there_at_all(long: Path, tmp_path: Path) -> None:
    """There are six pages: the plan needs more, the result fewer."""
    done = on_small_disk(tmp_path, ["plan", long, "--method", "base", "--out", tmp_path / "disk" / "run"], 6)
    assert_told(done)
    assert "plan.csv: cannot be written" in done.stderr
    assert "reward" in done.stdout
    assert "run/plan.csv" not in done.names
    assert "run/result.json" in done.names
    assert_whole(long, done.kept / "run", 1000)


@pytest.mark.usefixtures("may_mount")
def test_older_files_make_way_for_new_ones_that_fit_then(tank: Path, tmp_path: Path) -> None:
    run = tmp_path / "disk" / "run"
    done = on_small_disk(tmp_path, ["plan", tank, "--horizon", 3, "--out", run], 0, ["plan", tank, "--out", run])
    assert done.code == 0, done.stderr
    assert done.names == ["run/log.txt", "run/plan.csv", "run/result.json"]
    assert_whole(tank, done.kept / "run", 3)
    assert not done.is_as_it_was("run/plan.csv")


@pytest.mark.usefixtures("may_mount")
def test_older_files_stay_where_the_new_ones_do_not_fit(tank: Path, long: Path, tmp_path: Path) -> None:
    """With the older ones gone there would be a few pages, and the plan needs more."""
    run = tmp_path / "disk" / "run"
    arguments: list[object] = ["plan", long, "--method", "base", "--out", run]
    done = on_small_disk(tmp_path, arguments, 0, ["plan", tank, "--out", run])
    assert_told(done)
    assert "reward" in done.stdout
    assert "is still what an earlier run left: result.json, plan.csv, log.txt." in done.stderr
    assert done.names == ["run/log.txt", "run/plan.csv", "run/result.json"]
    for name in done.names:
        assert done.is_as_it_was(name)


@pytest.mark.usefixtures("may_mount")
@pytest.mark.parametrize("command", ["potentials", "export", "collect"])
def test_other_commands_leave_older_files_alone(tank: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "leaky.py").write_text(LEAKY)
    file = tmp_path / "disk" / {"potentials": "p.json", "export": "model.mps", "collect": "data.csv"}[command]
    arguments: dict[str, list[object]] = {
        "potentials": ["potentials", tank],
        "export": ["export", tank, "--horizon", 40],
        "collect": ["collect", f"{tmp_path / 'leaky.py'}:step", "--episodes", 20, "--steps", 20],
    }
    line = [*arguments[command], "--out", file]
    done = on_small_disk(tmp_path, line, 0, ["export", tank, "--horizon", 2, "--out", file.with_suffix(".mps")])
    assert_told(done)
    assert done.names == [file.with_suffix(".mps").name]
    assert done.is_as_it_was(done.names[0])


# Folders that cannot be written


@dataclass(frozen=True)
class Unprivileged:
    """How to start a command to which permissions mean something: to root they mean nothing."""

    prefix: list[str]
    user: int | None = None

    def start(self, *arguments: object) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        line = [*self.prefix, *RELUPLAN, *map(str, arguments)]
        return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, user=self.user)

    def works(self) -> bool:
        line = [*self.prefix, sys.executable, "-c", "import reluplan.planning.planner"]
        try:
            return subprocess.run(line, capture_output=True, user=self.user, check=False).returncode == 0
        except OSError:
            return False


@pytest.fixture(params=["another user", "root without its privilege"])
def unprivileged(request: pytest.FixtureRequest) -> Unprivileged:
    if sys.platform == "win32":
        pytest.skip("POSIX permissions")
    other = request.param == "another user"
    if os.geteuid() != 0:
        if not other:
            pytest.skip("we are not root")
        return Unprivileged([])
    found = Unprivileged([], NOBODY) if other else Unprivileged(["setpriv", "--bounding-set=-dac_override"])
    if not found.works():
        pytest.skip("nobody may not read this Python" if other else "setpriv does not work here")
    return found


@pytest.fixture
def place(unprivileged: Unprivileged) -> Iterator[Path]:
    """A folder with the problems, which the command may read and write in; pytest's own are closed to other users."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tank.toml").write_text(TANK)
        HARD_NETWORK.save(folder / "hard.onnx")
        (folder / "hard.toml").write_text(HARD)
        (folder / "run").mkdir()
        if unprivileged.user is not None:
            os.chown(folder / "run", unprivileged.user, -1)
        folder.chmod(0o755)
        yield folder


def test_a_read_only_folder_is_told_before_the_work(unprivileged: Unprivileged, place: Path) -> None:
    (place / "run" / "plan.csv").write_text("older")
    (place / "run").chmod(0o555)
    for out in (place / "run", place / "run" / "below"):
        process = unprivileged.start("plan", place / "tank.toml", "--out", out)
        stdout, stderr = process.communicate(timeout=AMPLE)
        assert (process.returncode, stdout) == (4, "")
        assert stderr == f"reluplan: {out}: nothing can be written there (no permission); choose another --out\n"
    assert [path.name for path in (place / "run").iterdir()] == ["plan.csv"]
    assert (place / "run" / "plan.csv").read_text() == "older"


def test_a_folder_that_becomes_read_only_costs_the_files_and_not_the_result(
    unprivileged: Unprivileged, place: Path
) -> None:
    (place / "run" / "result.json").write_text("older")
    process = unprivileged.start("plan", place / "hard.toml", "--out", place / "run")
    timer = threading.Timer(AMPLE, process.kill)
    timer.start()
    assert process.stderr is not None
    assert any("plan with reward" in line for line in process.stderr)
    (place / "run").chmod(0o555)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=AMPLE)
    timer.cancel()
    assert process.returncode == 5
    assert "interrupted: this is what was known" in stdout
    assert "Traceback" not in stderr
    assert "plan.csv: cannot be written (Permission denied)" in stderr.splitlines()[-1]
    assert "is still what an earlier run left: result.json." in stderr.splitlines()[-1]
    assert [path.name for path in (place / "run").iterdir()] == ["result.json"]
    assert (place / "run" / "result.json").read_text() == "older"
