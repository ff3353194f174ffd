"""No stage does more than a stated amount of work after its deadline, and what it returns then still holds.

Time is the account of work of `reluplan.clock`, not seconds: the same on every machine, and under any load.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from random_problems import random_network
from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.crown import crown_boxes
from reluplan.bounds.reachability import forward_bounds, reachable_bounds
from reluplan.bounds.span import Span
from reluplan.clock import WorkClock
from reluplan.encoding.unroll import unroll
from reluplan.encoding.window import cut_window
from reluplan.errors import OutOfTimeError
from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.optimisation.workers.pool import WorkerPool
from reluplan.planning.planner import plan
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.domain import step_domain
from reluplan.potentials.reward_cutoff import tighten_by_reward_cutoff
from reluplan.potentials.settings import PotentialSettings
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.proofs.grid.settings import GridSettings
from reluplan.proofs.grid.value_function import GridRefinement, grid_bound
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.multipliers import plan_multipliers
from reluplan.proofs.lagrangian.subproblem import window_subproblems
from reluplan.search import search_plans
from reluplan.tightening.obbt_lp import tighten_by_lp
from reluplan.tightening.propagation import propagate

Array = NDArray[np.float64]


@pytest.fixture
def work() -> Iterator[WorkClock]:
    """The clock of this test: it moves when work is done, and only then."""
    account = WorkClock()
    with clock.using(account):
        yield account


def steering(hidden: list[int], horizon: int, state_count: int = 3, seed: int = 0) -> Problem:
    """Keep states that a random network moves near a point; a row ties the first action to the first state."""
    rng = np.random.default_rng(seed)
    states = tuple(Variable(f"s{i}", "continuous", -3.0, 3.0) for i in range(state_count))
    actions = tuple(Variable(f"a{i}", "continuous", -1.0, 1.0) for i in range(2))
    width = 2 * state_count + 2
    network = random_network(rng, state_count + 2, hidden, state_count, dense=False)
    after = [PiecewiseLinear.variable(state_count + 2 + i, width) for i in range(state_count)]
    reward = PiecewiseLinear.constant_of(0.0, width)
    for x in after:
        away = x - PiecewiseLinear.constant_of(0.3, width)
        reward = reward - PiecewiseLinear.maximum([away, -away])
    row = PiecewiseLinear.variable(state_count, width) + PiecewiseLinear.variable(0, width) * 0.1
    rows = (Constraint(row - PiecewiseLinear.constant_of(0.9, width), False, "a0 + 0.1 s0 <= 0.9"),)
    zeros = np.zeros(state_count)
    return Problem("steering", horizon, states, actions, (), zeros, zeros, network, reward, rows)


def feasible_plans(problem: Problem, count: int = 60) -> list[Trajectory]:
    """Random plans that keep all constraints."""
    rng = np.random.default_rng(1)
    lower, upper = problem.box(problem.states)
    found = []
    for _ in range(count):
        actions = rng.uniform(-1.0, 1.0, (problem.horizon, 2)) * rng.random()
        actions[:, 0] = np.minimum(actions[:, 0], 0.5)
        trajectory = rollout(problem, problem.initial_lower, actions)
        if ((trajectory.states >= lower) & (trajectory.states <= upper)).all():
            found.append(trajectory)
    assert found
    return found


def assert_contains_plans(problem: Problem, bounds: HorizonBounds) -> None:
    for found in feasible_plans(problem):
        units = problem.dynamics.preactivations(np.hstack([found.states[:-1], found.actions]))
        for values, name in ((found.states, "state"), (found.actions, "action"), (units, "unit")):
            assert (values >= getattr(bounds, f"{name}_lower") - 1e-9).all()
            assert (values <= getattr(bounds, f"{name}_upper") + 1e-9).all()


def late(work: WorkClock, deadline: float) -> float:
    """Operations after a deadline."""
    return max(0.0, (work.now() - deadline) * clock.OPERATIONS_PER_SECOND)


def test_a_command_begins_with_its_process(work: WorkClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The imports before it count too; a command that is called by another program begins when it is called."""
    work.spend(5e9)
    assert clock.command_started() == work.now()
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec("reluplan.__main__", None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert clock.command_started() == clock.IMPORTED
    main.__spec__, main.__file__ = None, "bin/reluplan"
    assert clock.command_started() == clock.IMPORTED


SHARES = (0.0, 0.003, 0.1, 0.6)
"""Deadlines, as shares of the work that a stage does without one."""


def full_work(stage: Callable[[], object]) -> float:
    """What a stage costs without a deadline."""
    account = WorkClock()
    with clock.using(account):
        stage()
    return account.now()


@pytest.mark.parametrize("share", SHARES)
def test_forward_bounds_end_at_the_deadline_and_hold(work: WorkClock, share: float) -> None:
    """Afterwards: an LP's last iteration and the intervals of two steps, 40 evaluations of the network in all."""
    problem = steering([24, 24], 6)
    deadline = share * full_work(lambda: reachable_bounds(problem))
    bounds = reachable_bounds(problem, deadline, deadline)
    assert late(work, deadline) <= 40 * problem.dynamics.operations
    assert_contains_plans(problem, bounds)


@pytest.mark.parametrize("share", SHARES)
def test_forward_bounds_without_lps_hold(work: WorkClock, share: float) -> None:
    """Back-substitution goes on after the LPs have ended; each step costs a few dozen evaluations."""
    problem = steering([24, 24], 6)
    deadline = share * full_work(lambda: reachable_bounds(problem))
    bounds = reachable_bounds(problem, deadline)
    assert late(work, deadline) <= 6 * 100 * problem.dynamics.operations
    assert_contains_plans(problem, bounds)


def test_back_substitution_that_is_cut_short_holds(work: WorkClock) -> None:
    network = random_network(np.random.default_rng(5), 4, [12, 12, 12, 12], 2)
    lower, upper = -np.ones(4), np.ones(4)
    units, outputs = network.evaluate(np.random.default_rng(6).uniform(-1.0, 1.0, (2000, 4)))
    whole = full_work(lambda: crown_boxes(network, lower, upper))
    for share in np.linspace(0.0, 1.0, 9):
        deadline = work.now() + share * whole
        found = crown_boxes(network, lower, upper, deadline)
        assert late(work, deadline) <= 100 * network.operations
        assert ((units >= found.unit_lower) & (units <= found.unit_upper)).all()
        assert ((outputs >= found.output_lower) & (outputs <= found.output_upper)).all()


def test_an_lp_that_is_cut_short_proves_what_the_columns_do(work: WorkClock) -> None:
    rng = np.random.default_rng(0)
    builder = ModelBuilder()
    columns = builder.add_columns(np.zeros(30), 1.0)
    rows = builder.add_rows(np.full(20, -np.inf), 2.0)
    builder.add_entries(rows[:, None], columns, rng.random((20, 30)))
    model, values = builder.build(), rng.random(30)
    exact = PersistentLp(model).maximum(columns, values)
    began = work.now()
    found = PersistentLp(model).maximum(columns, values, began)
    assert late(work, began) <= 2.1 * model.matrix.nnz  # one iteration at most
    assert exact < found == pytest.approx(values.sum())


@pytest.mark.parametrize("share", SHARES)
def test_lps_of_a_window_end_at_the_deadline_and_hold(work: WorkClock, share: float) -> None:
    """Afterwards: one iteration, and the affine forms of one step; 100 evaluations of the network."""
    problem = steering([24, 24], 6)
    bounds = reachable_bounds(problem)
    window = cut_window(problem, bounds, Span(2, 1))
    model = window.plan_model
    whole = full_work(lambda: tighten_by_lp(model, bounds.hull(Span(2, 1))))
    deadline = work.now() + share * whole
    found = tighten_by_lp(model, bounds.hull(Span(2, 1)), deadline)
    assert late(work, deadline) <= 100 * problem.dynamics.operations
    exact = tighten_by_lp(model, bounds.hull(Span(2, 1)))
    for name in ("state", "action", "unit"):
        assert (getattr(found, f"{name}_lower") <= getattr(exact, f"{name}_lower") + 1e-6).all()
        assert (getattr(found, f"{name}_upper") >= getattr(exact, f"{name}_upper") - 1e-6).all()


@pytest.mark.parametrize("share", SHARES)
def test_propagation_ends_at_the_deadline_and_holds(work: WorkClock, share: float) -> None:
    """Afterwards: one iteration, and the model of one step if it had begun; 1,000 evaluations of the network."""
    problem = steering([12, 12], 4)
    bounds = reachable_bounds(problem)
    whole = full_work(lambda: propagate(problem, bounds, moved=range(4)))
    deadline = work.now() + share * whole
    found = propagate(problem, bounds, deadline, range(4))
    assert late(work, deadline) <= 1000 * problem.dynamics.operations
    assert_contains_plans(problem, found)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9])
def test_a_model_that_cannot_be_ready_in_time_is_given_up_early(work: WorkClock, share: float) -> None:
    """Afterwards: one step. A deadline that cannot be kept is seen after the first step, not at the last."""
    problem = steering([24, 24], 20)
    bounds = reachable_bounds(problem, 0.0)
    whole = full_work(lambda: unroll(problem, bounds))
    began = work.now()
    with pytest.raises(OutOfTimeError):
        unroll(problem, bounds, deadline=began + share * whole)
    assert late(work, began + share * whole) <= 1.1e9 * whole / problem.horizon
    assert work.now() - began <= 0.3 * whole
    unroll(problem, bounds, deadline=work.now() + 1.2 * whole)


@pytest.mark.parametrize("limit", [0.0, 0.01, 0.1])
def test_potentials_end_at_the_deadline_and_hold(work: WorkClock, limit: float) -> None:
    """Afterwards: a batch of samples, or a step's model and the LP of a pattern."""
    problem = steering([16, 16], 4)
    bounds = forward_bounds(problem)
    deadline = work.now() + limit
    found = compute_potentials(problem, bounds, PotentialSettings(2, max_rounds=2), True, deadline)
    assert late(work, deadline) <= 1.5 * clock.SAMPLE_WORK
    for plan_found in feasible_plans(problem):
        units = problem.dynamics.preactivations(np.hstack([plan_found.states[:-1], plan_found.actions]))
        for item in found.items:
            steps = slice(item.first, item.last + 1)
            entries = item.features.entries(units[steps])
            bound = item.constant + item.features.sum_values(item.values, entries)
            assert (bound >= plan_found.rewards[steps] - 1e-6).all()


@pytest.mark.parametrize("share", SHARES)
def test_the_reward_cutoff_of_potentials_ends_at_the_deadline_and_holds(work: WorkClock, share: float) -> None:
    """Afterwards: one iteration, and a step's model if it had begun."""
    problem = steering([16, 16], 3)
    domain = step_domain(problem, forward_bounds(problem), 0, 2)
    whole = full_work(lambda: tighten_by_reward_cutoff(domain, -3.0))
    deadline = work.now() + share * whole
    found = tighten_by_reward_cutoff(domain, -3.0, deadline)
    assert late(work, deadline) <= 1500 * problem.dynamics.operations
    assert found is not None
    for plan_found in feasible_plans(problem):
        inputs = np.hstack([plan_found.states[:-1], plan_found.actions])[plan_found.rewards >= -3.0]
        lower, upper = found.input_box()
        assert ((inputs >= lower - 1e-9) & (inputs <= upper + 1e-9)).all()


@pytest.mark.parametrize("limit", [0.0, 0.3, 1.0, 3.0])
def test_the_search_for_plans_ends_at_the_deadline(work: WorkClock, limit: float) -> None:
    """Afterwards: SEARCH_WORK of simulated plans, the gradient of a batch, a plan's linear program."""
    problem = steering([192, 192], 10, state_count=2)
    found: list[Trajectory] = []

    def take(plan_found: Trajectory, _source: str) -> bool:
        found.append(plan_found)
        return True

    search_plans(problem, None, limit, take)
    assert late(work, limit) <= 1.5 * clock.SEARCH_WORK
    assert found or limit == 0.0


def test_pieces_without_time_build_no_models_and_prove_nothing(work: WorkClock) -> None:
    problem = steering([24, 24], 6)
    bounds, found = reachable_bounds(problem, 0.0), feasible_plans(problem)[0]
    pieces = window_subproblems(problem, bounds, [Span(t, 1) for t in range(6)], found)
    with WorkerPool("highs", 1) as pool:
        began = work.now()
        parts = Decomposition(pieces, found, pool, np.random.default_rng(0), deadline=began)
        valuation = parts.evaluate(np.zeros((7, 6)), began - 1.0, 1e-3)
    assert late(work, began) <= 10 * problem.dynamics.operations
    assert math.isinf(valuation.total)
    assert not valuation.infeasible


def test_values_of_states_without_time_are_zero(work: WorkClock) -> None:
    problem = steering([24, 24], 6)
    bounds, found = reachable_bounds(problem, 0.0), feasible_plans(problem)[0]
    began = work.now()
    assert not plan_multipliers(problem, bounds, found, 6, 0.0).any()
    step = full_work(lambda: unroll(problem, bounds)) / 6
    assert work.now() - began <= 1.1 * step


@pytest.mark.parametrize("limit", [0.0, 0.5, 1.5])
def test_the_grid_ends_at_the_deadline(work: WorkClock, limit: float) -> None:
    """Afterwards: one chunk of pairs, whose size falls with that of the network."""
    problem = dataclasses.replace(steering([48, 48, 48], 2, state_count=1), constraints=())
    bounds = reachable_bounds(problem, 0.0)
    offers: list[float] = []
    deadline = work.now() + limit
    grid_bound(problem, bounds, None, deadline, lambda value, _: offers.append(value), lambda _: None)
    assert late(work, deadline) <= 2.0 * GridSettings().chunk_operations
    assert all(value >= max(found.total_reward for found in feasible_plans(problem)) for value in offers)


def test_sweeps_of_the_grid_are_counted(work: WorkClock) -> None:
    """With hardly a network the sweeps are all there is to do; they end at the deadline like everything else."""
    problem = dataclasses.replace(steering([1], 12, state_count=1), constraints=(), goal=())
    bounds = reachable_bounds(problem, 0.0)
    deadline = work.now() + 0.3
    refinement = GridRefinement(problem)
    refinement.go_on(bounds, feasible_plans(problem)[0].total_reward, deadline, lambda _, __: None, lambda _: None)
    assert late(work, deadline) <= 2.0 * GridSettings().chunk_operations
    assert work.now() >= deadline or not np.isfinite(refinement.next_seconds)


@pytest.mark.parametrize("method", ["auto", "base", "potentials"])
@pytest.mark.parametrize("limit", [1e-9, 0.05])
def test_every_method_ends_at_its_limit_with_a_bound_that_holds(work: WorkClock, method: str, limit: float) -> None:
    """What comes late in one stage takes nothing from the next: the sum is that of the search, the largest."""
    problem = steering([48, 48], 8)
    result = plan(problem, method=method, time_limit=limit, threads=1)
    assert late(work, limit) <= 1.5 * clock.SEARCH_WORK
    assert result.bound is not None
    assert result.bound >= max(found.total_reward for found in feasible_plans(problem))


def test_a_plan_does_not_wait_for_slow_bounds(work: WorkClock) -> None:
    """The LPs of these bounds would take ten times the limit; the search has its turn before they are done."""
    problem = steering([64, 64], 20)
    limit = 0.1 * full_work(lambda: reachable_bounds(problem))
    told: list[str] = []
    result = plan(problem, time_limit=limit, threads=1, on_event=lambda event: told.append(event.stage))
    assert result.reward is not None
    assert told.index("search") < len(told) - told[::-1].index("bounds") - 1  # bounds come back after the search
