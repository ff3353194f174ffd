"""The planner under test: the only part of the fuzzer that calls it."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import time
import traceback
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

import reluplan
from fuzz.problem import Array
from fuzz.simulate import Plan

SOLVERS = {
    "highs": ("highspy", 0.5),
    "scip": ("pyscipopt", 0.2),
    "gurobi": ("gurobipy", 0.17),
    "cplex": ("cplex", 0.13),
}
METHODS = {"base": 0.55, "auto": 0.25, "potentials": 0.2}
GAPS = (0.0, 1e-6, 1e-4, 1e-2)
LICENCE_WORDS = ("licen", "size-limited", "promotional", "community edition")


@dataclass(frozen=True)
class Config:
    """How the planner is called."""

    method: str = "base"
    solver: str = "highs"
    interval_count: int = 1
    gap: float = 1e-4
    time_limit: float = 2.0
    seed: int = 0

    def record(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the planner answered: its status, or "refused" (bad input), "licence" or "crash"."""

    status: str
    seconds: float
    reward: float | None = None
    bound: float | None = None
    plan: Plan | None = None
    states: Array | None = None
    message: str = ""

    def record(self) -> dict[str, Any]:
        return {
            "status": self.status,
            "reward": self.reward,
            "bound": self.bound,
            "seconds": round(self.seconds, 3),
            "message": self.message[:300],
        }


@cache
def installed_solvers() -> tuple[str, ...]:
    """The solvers whose packages can be imported."""
    return tuple(name for name, (package, _) in SOLVERS.items() if importlib.util.find_spec(package))


def random_config(rng: Generator) -> Config:
    """Any method, solver, number of intervals, gap, limit and seed; one thread."""
    solvers = installed_solvers()
    weights = np.array([SOLVERS[name][1] for name in solvers])
    method = str(rng.choice(list(METHODS), p=list(METHODS.values())))
    gap = float(rng.choice(GAPS, p=[0.1, 0.2, 0.5, 0.2]))
    return Config(
        method=method,
        solver=str(rng.choice(solvers, p=weights / weights.sum())),
        interval_count=int(rng.integers(1, 4)),
        gap=gap,
        time_limit=float(rng.choice([0.5, 1.0, 2.0, 3.0], p=[0.15, 0.25, 0.35, 0.25])),
        seed=int(rng.integers(0, 1000)),
    )


def run_planner(path: Path, config: Config, potentials: Path | None = None) -> Outcome:
    """Plan for a problem file; whatever the planner raises becomes part of the outcome."""
    began = time.monotonic()
    try:
        problem = reluplan.Problem.load(path)
        known = None if potentials is None else reluplan.PotentialSet.load(potentials)
        result = reluplan.plan(
            problem,
            method=config.method,
            solver=config.solver,
            interval_count=config.interval_count,
            gap=config.gap,
            time_limit=config.time_limit,
            seed=config.seed,
            threads=1,
            potentials=known,
        )
    except reluplan.InputError as error:
        return Outcome("refused", time.monotonic() - began, message=str(error))
    except Exception as error:
        return _failure(error, time.monotonic() - began)
    seconds = time.monotonic() - began
    trajectory = result.trajectory
    if trajectory is None:
        return Outcome(result.status, seconds, None, result.bound, message="; ".join(result.notes))
    states = trajectory.states[:, : len(problem.own_states)]
    own_auxiliaries = trajectory.auxiliaries[:, : len(problem.auxiliaries) - len(problem.series)]
    plan = Plan(states[0], trajectory.actions, own_auxiliaries)
    notes = "; ".join(result.notes)
    return Outcome(result.status, seconds, result.reward, result.bound, plan, states, notes)


def compute_potentials(path: Path, config: Config, out: Path, seconds: float = 1.0) -> bool:
    """Write the potentials of a problem into a file; False if there are none to be had."""
    with contextlib.suppress(reluplan.ReluplanError):
        problem = reluplan.Problem.load(path)
        deadline = time.monotonic() + seconds
        per_step = config.seed % 2 == 0
        reluplan.reward_potentials(problem, config.interval_count, per_step=per_step, deadline=deadline).save(out)
        return True
    return False


def simplest(config: Config) -> list[Config]:
    """Simpler ways to call, for the shrinker."""
    plain = Config()
    changes: list[dict[str, Any]] = [
        {"solver": plain.solver},
        {"method": plain.method},
        {"interval_count": plain.interval_count},
        {"gap": plain.gap},
        {"time_limit": plain.time_limit},
        {"seed": plain.seed},
    ]
    return [replace(config, **change) for change in changes if replace(config, **change) != config]


def _failure(error: Exception, seconds: float) -> Outcome:
    text = str(error)
    if isinstance(error, reluplan.SolverError) and any(word in text.lower() for word in LICENCE_WORDS):
        return Outcome("licence", seconds, message=text)
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(where.filename).name}:{where.lineno}"
    return Outcome("crash", seconds, message=f"{type(error).__name__} at {place}: {text}")


def is_finite(value: float | None) -> bool:
    """A number that is there."""
    return value is not None and math.isfinite(value)
