"""What every proof must keep on a small problem whose optimum is known: bounds above it, for any windows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

from patience import AMPLE
from reluplan.bounds.boxes import AllPlanBounds
from reluplan.bounds.reachability import reachable_bounds
from reluplan.bounds.span import Span
from reluplan.clock import Clock
from reluplan.encoding.unroll import unroll
from reluplan.errors import InfeasibleError
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.planner import plan
from reluplan.planning.run import Run
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.subproblem import window_subproblems
from reluplan.proofs.proof_state import Proof, ProofState

GAP = 1e-5

PARTITIONS = (
    [Span(0, 4)],
    [Span(0, 1), Span(1, 1, 2), Span(3, 1)],
    [Span(0, 1, 3), Span(3, 1)],
    [Span(0, 2), Span(2, 1), Span(3, 1)],
)
"""Of four steps, with windows that are repeated among them."""


class Case(NamedTuple):
    """A problem with its bounds, a poor plan and its optimum by the whole MILP."""

    problem: Problem
    bounds: AllPlanBounds
    rough: Trajectory
    best: float


def solved(problem: Problem) -> Case | None:
    """The case of a problem; None if no plan exists."""
    try:
        bounds = reachable_bounds(problem)
    except InfeasibleError:
        return None
    rough = plan(problem, method="base", gap=0.5, threads=1).trajectory
    exact = plan(problem, method="base", gap=1e-7, threads=1).trajectory
    if rough is None or exact is None:
        return None
    return Case(problem, bounds, rough, max(rough.total_reward, exact.total_reward))


def assert_above(case: Case, proofs: Sequence[tuple[Proof, float]], pool: WorkerPool) -> None:
    """Each proof, in so many seconds, stays above the optimum and drops no plan."""
    for proof, seconds in proofs:
        run = Run(case.problem, Clock(AMPLE), GAP)
        run.incumbent.offer_plan(case.rough, "test")
        state = ProofState(run.problem, run.incumbent, case.bounds, pool, run.clock)
        proof.improve(state, time.monotonic() + seconds)
        assert run.incumbent.bound >= case.best - 1e-9, proof.stage
        assert not any("dropped" in note for note in run.log.notes)


def assert_windows_above(case: Case, partition: Sequence[Span], seed: int, size: float, pool: WorkerPool) -> None:
    """Any multipliers prove a bound, and with one window nothing but the MILP is left."""
    problem, bounds, rough, best = case
    subproblems = window_subproblems(problem, bounds, partition, rough)
    decomposition = Decomposition(subproblems, rough, pool, np.random.default_rng(seed))
    multipliers = np.random.default_rng(seed).normal(size=(len(subproblems) + 1, 2 * len(problem.states))) * size
    evaluation = decomposition.evaluate(decomposition.tied(multipliers), time.monotonic() + AMPLE, 1e-3)
    assert evaluation.total >= best - 1e-9
    if len(subproblems) == 1:
        whole = HighsSolver().solve(unroll(problem, bounds).model, SolveOptions(gap=1e-7))
        assert evaluation.total == pytest.approx(whole.objective, abs=1e-2)
