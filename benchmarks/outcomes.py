"""Planning commands as processes of their own, within a time limit: how each ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASELINES = ("cem", "mppi", "gradient")
PLANNERS: Mapping[str, tuple[str, ...]] = {
    "auto": ("--method", "auto"),
    "auto-gurobi": ("--method", "auto", "--solver", "gurobi"),
    "base": ("--method", "base"),
    "base-scip": ("--method", "base", "--solver", "scip"),
    "potentials": ("--method", "potentials"),
}
METHODS = (*PLANNERS, *BASELINES)


@dataclass(frozen=True)
class Outcome:
    """How a command ended. seconds: of the whole process. trouble: why there is nothing, or "".

    history: (seconds, reward, bound) as the run found them, of planners only.
    """

    seconds: float
    reward: float | None = None
    bound: float | None = None
    status: str = "-"
    trouble: str = ""
    history: tuple[tuple[float, float | None, float | None], ...] = field(default=(), repr=False)

    @property
    def is_failure(self) -> bool:
        """Whether the command itself went wrong; to find no plan in time is none."""
        return self.trouble.startswith(("exit code", "killed"))

    @property
    def gap(self) -> float | None:
        """(bound − reward) / max(1, |reward|)."""
        if self.reward is None or self.bound is None:
            return None
        return (self.bound - self.reward) / max(1.0, abs(self.reward))

    def first_plan(self, reward: float, share: float) -> float | None:
        """Seconds until a plan was within the share of a reward."""
        least = reward - share * max(1.0, abs(reward))
        times = (seconds for seconds, found, _ in self.history if found is not None and found >= least)
        return next(times, None)


def allowed(limit: float) -> float:
    """Seconds that a command with this limit may take: 10 % and 2 s more."""
    return 1.1 * limit + 2.0


def run(
    method: str, problem: Path, seconds: float, threads: int = 2, horizon: int | None = None, patience: float = 3.0
) -> Outcome:
    """Plan by one of METHODS; killed after `patience` times the seconds that it may take."""
    shared = [] if horizon is None else ["--horizon", str(horizon)]
    longest = patience * allowed(seconds)
    path = str(problem.resolve())
    if method in BASELINES:
        command = ["-m", "benchmarks.baselines", method, path, "--seconds", str(seconds), *shared]
        return _run(command, longest, threads, _of_baseline)
    with tempfile.TemporaryDirectory() as scratch:
        limits = ["--time-limit", str(seconds), "--threads", str(threads), "--out", scratch, "--quiet"]
        command = ["-m", "reluplan", "plan", path, *PLANNERS[method], *limits, *shared]
        return _run(command, longest, threads, lambda _, spent: _of_planner(Path(scratch), spent))


def _run(arguments: Sequence[str], longest: float, threads: int, read: Callable[[str, float], Outcome]) -> Outcome:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        printed, errors = process.communicate(timeout=longest)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            return Outcome(time.monotonic() - began, trouble="killed, far beyond its limit")
        raise
    spent = time.monotonic() - began
    if process.returncode not in (0, 2, 3):
        last = " ".join(errors.strip().splitlines()[-1:])
        return Outcome(spent, trouble=f"exit code {process.returncode}: {last}")
    return read(printed, spent)


def _of_baseline(printed: str, spent: float) -> Outcome:
    reward = json.loads(printed)["reward"]
    return Outcome(spent, reward, trouble="" if reward is not None else "no plan")


def _of_planner(folder: Path, spent: float) -> Outcome:
    found = json.loads((folder / "result.json").read_text())
    history = tuple((entry["seconds"], entry["reward"], entry["bound"]) for entry in found["history"])
    trouble = "" if found["reward"] is not None else found["status"]
    return Outcome(spent, found["reward"], found["bound"], found["status"], trouble, history)
