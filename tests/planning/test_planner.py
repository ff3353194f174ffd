"""Plans and bounds against brute force, across solvers, and at every kind of early end."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brute_force import optimum
from own_stages import own_stage
from random_problems import random_network, random_problem
from reluplan.clock import Clock
from reluplan.encoding.extract import extract, repairs
from reluplan.encoding.unroll import PlanModel
from reluplan.errors import InputError, SolverError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.solvers import SOLVER_NAMES
from reluplan.planning.log import Event
from reluplan.planning.planner import plan
from reluplan.planning.run import Run
from reluplan.planning.work import Work
from reluplan.problem.check import check
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import simulate
from reluplan.problem.tolerance import TOLERANCE

GAP = 1e-5


def tiny_problem(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    return random_problem(rng, relus=int(rng.integers(1, 4)), horizon=int(rng.integers(1, 3)), auxiliary=seed % 5 == 0)


def assert_matches(problem: Problem, best: float | None, solver: str = "highs", method: str = "base") -> None:
    """The plan is as good as brute force says, the bound is not below it, and the plan re-simulates."""
    result = plan(problem, method=method, solver=solver, gap=GAP, threads=1)
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.trajectory is not None
    assert result.bound is not None
    assert result.reward == pytest.approx(best, abs=2 * GAP * max(1.0, abs(best)))
    assert result.bound >= best - 1e-9
    again = simulate(problem, result.trajectory.states[0], result.trajectory.actions, result.trajectory.auxiliaries)
    assert again.total_reward == result.reward
    assert check(problem, again).max_violation <= TOLERANCE


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14])
def test_plans_equal_brute_force(seed: int) -> None:
    problem = tiny_problem(seed)
    assert_matches(problem, optimum(problem))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14])
def test_the_default_method_equals_brute_force(seed: int) -> None:
    problem = tiny_problem(seed)
    assert_matches(problem, optimum(problem), method="auto")


@pytest.mark.parametrize("solver", SOLVER_NAMES)
@pytest.mark.parametrize("seed", [2, 9, 14])
def test_the_four_solvers_agree(solver: str, seed: int) -> None:
    problem = tiny_problem(seed)
    assert_matches(problem, optimum(problem), solver)


@settings(max_examples=15, deadline=None)
@given(st.integers(100, 10**6))
def test_the_bound_is_never_below_any_feasible_plan(seed: int) -> None:
    """Also when the run is cut short: a loose gap, random feasible plans against the bound."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, relus=6, horizon=3)
    result = plan(problem, method="base", gap=0.5, threads=1)
    lower, upper = problem.box(problem.actions)
    for _ in range(200):
        actions = rng.uniform(lower, upper, (3, len(lower)))
        actions = np.where([v.is_discrete for v in problem.actions], np.round(actions), actions)
        initial = np.clip(np.round(rng.normal(size=len(problem.states))), problem.initial_lower, problem.initial_upper)
        trajectory = simulate(problem, initial, actions)
        if check(problem, trajectory).max_violation == 0.0:
            assert result.status != "infeasible"
            assert result.bound is None or trajectory.total_reward <= result.bound


@pytest.mark.parametrize("seed", [101, 102, 103, 104])
def test_bounds_hold_against_brute_force_under_a_tiny_time_limit(seed: int) -> None:
    problem = tiny_problem(seed)
    best = optimum(problem)
    result = plan(problem, method="base", time_limit=0.02)
    if best is None:
        assert result.trajectory is None
    else:
        assert result.bound is None or result.bound >= best - 1e-9
        assert result.reward is None or result.reward <= best + 1e-6 * max(1.0, abs(best))


def test_a_solver_that_fails_ends_its_stage_and_not_the_run() -> None:
    """What comes after it may still prove everything."""

    def fail(work: Work) -> None:
        raise SolverError("the library refused the model")

    result = plan(tiny_problem(2), stages=[own_stage("failing solver", fail), "milp"], gap=GAP, threads=1)
    assert result.status == "optimal"
    assert any("failing solver was ended" in note for note in result.notes)


def rounding_problem() -> Problem:
    """s' = round(a), reward s' − a: the supremum 0.5 lies at the tie a = 1/2 and is attained there."""
    network = ReluNetwork.sequential([[[0.0, 1.0]]], [[0.0]])
    reward = PiecewiseLinear(np.array([0.0, -1.0, 1.0]))
    state, action = Variable("s", "integer", -3.0, 3.0), Variable("a", "continuous", -1.0, 1.0)
    return Problem("tie", 1, (state,), (action,), (), np.zeros(1), np.zeros(1), network, reward)


@pytest.mark.parametrize("solver", SOLVER_NAMES)
def test_ties_of_rounded_states_are_settled_by_the_simulation(solver: str) -> None:
    result = plan(rounding_problem(), solver=solver, gap=1e-4)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(0.5, abs=1e-4)


def plan_model_of(problem: Problem) -> PlanModel:
    from reluplan.planning.planner import build_model

    return build_model(problem)


def test_a_plan_that_violates_a_constraint_when_simulated_is_repaired() -> None:
    """s' = a must end at most at 1; the solver's a = 1 + 1e-4 is pulled back, at the price of 1e-4 at most."""
    network = ReluNetwork.sequential([[[0.0, 1.0]]], [[0.0]])
    goal = Constraint(PiecewiseLinear(np.array([1.0, 0.0, 0.0]), -1.0), False, "s <= 1")
    problem = Problem(
        "repair", 1, (Variable("s"),), (Variable("a", "continuous", 0.0, 2.0),), (), np.zeros(1), np.zeros(1),
        network, PiecewiseLinear(np.array([0.0, 0.0, 1.0])), goal=(goal,),
    )  # fmt: skip
    model = plan_model_of(problem)
    x = np.zeros(model.model.column_count)
    x[model.actions[0]] = 1.0 + 1e-4
    run = Run(problem, Clock(), GAP)
    assert not run.incumbent.offer_plan(extract(model, x), "the test")
    assert run.incumbent.plan is None
    assert any(run.incumbent.offer_plan(repaired, "repair") for repaired in repairs(model, x, math.inf))
    assert run.incumbent.reward == pytest.approx(1.0, abs=1e-4)


def test_an_open_initial_state_is_part_of_the_plan() -> None:
    problem = dataclasses.replace(rounding_problem(), initial_lower=np.full(1, -2.0), initial_upper=np.full(1, 2.0))
    reward = PiecewiseLinear(np.array([1.0, 0.0, 0.0]))
    result = plan(dataclasses.replace(problem, reward=reward))
    assert result.trajectory is not None
    assert result.trajectory.states[0, 0] == 2.0


def test_an_unbounded_reward_is_explained() -> None:
    network = ReluNetwork.sequential([[[1.0, 1.0]]], [[0.0]])
    problem = Problem(
        "open", 1, (Variable("s"),), (Variable("a"),), (), np.zeros(1), np.zeros(1), network,
        PiecewiseLinear(np.array([0.0, 0.0, 1.0])),
    )  # fmt: skip
    with pytest.raises(InputError, match="no upper bound"):
        plan(problem)


def hard_problem() -> Problem:
    """Too large to solve at once: 10 steps of a dense 40-40 network with a non-concave reward."""
    rng = np.random.default_rng(3)
    network = random_network(rng, 5, [40, 40], 3)
    states = tuple(Variable(f"s{i}", "continuous", -3.0, 3.0) for i in range(3))
    actions = tuple(Variable(f"a{i}", "continuous", -1.0, 1.0) for i in range(2))
    absolute = [PiecewiseLinear.variable(5 + i, 8) for i in range(3)]
    reward = sum((PiecewiseLinear.maximum([x, -x]) for x in absolute[1:]), -absolute[0])
    return Problem("hard", 10, states, actions, (), np.zeros(3), np.zeros(3), network, reward)


@pytest.mark.slow
def test_a_time_limit_ends_with_an_honest_status() -> None:
    result = plan(hard_problem(), method="base", time_limit=6.0)
    assert result.status in ("feasible", "no_plan")
    assert result.seconds < 60.0
    if result.status == "feasible":
        assert result.gap is None or result.gap > 1e-4


def test_an_interrupt_before_the_first_plan_leaves_an_honest_result() -> None:
    def stop(event: Event) -> None:
        if event.stage == "search":
            raise KeyboardInterrupt

    result = plan(rounding_problem(), on_event=stop)
    assert result.status == "no_plan"
    assert result.bound is None
    assert result.interrupted is True


def test_one_thread_and_one_seed_give_one_plan() -> None:
    problem = tiny_problem(2)
    first, second = (plan(problem, threads=1, seed=7) for _ in range(2))
    assert first.trajectory is not None
    assert second.trajectory is not None
    assert (first.trajectory.actions == second.trajectory.actions).all()


def test_the_published_big_m_gives_the_same_optimum_on_a_small_problem() -> None:
    problem = tiny_problem(9)
    fine, coarse = plan(problem, gap=GAP), plan(problem, gap=GAP, big_m=1e4)
    assert fine.reward == pytest.approx(coarse.reward, abs=1e-3)
    with pytest.raises(InputError, match="would cut off plans"):
        plan(problem, big_m=1e-3)


@pytest.mark.parametrize(
    "change",
    [{"method": "magic"}, {"solver": "abacus"}, {"time_limit": -1.0}, {"gap": -0.1}, {"threads": 0}, {"horizon": 0},
     {"big_m": -1.0}, {"time_limit": math.nan}],
)  # fmt: skip
def test_wrong_options_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        plan(rounding_problem(), **change)  # type: ignore[arg-type]


class TestRun:
    """The anytime state."""

    def test_bounds_only_fall_and_carry_their_margin(self) -> None:
        run = Run(rounding_problem(), Clock(), GAP)
        assert not run.incumbent.offer_bound(math.inf, "nothing")
        assert not run.incumbent.offer_bound(math.nan, "nothing")
        assert run.incumbent.offer_bound(100.0, "first")
        assert not run.incumbent.offer_bound(101.0, "worse")
        assert run.incumbent.bound == pytest.approx(100.0 + 1e-4)
        assert run.incumbent.bound_margin == pytest.approx(1e-4)

    def test_plans_are_checked_before_they_count(self) -> None:
        problem = rounding_problem()
        run = Run(problem, Clock(), GAP)
        assert not run.incumbent.offer_plan(simulate(problem, np.zeros(1), np.full((1, 1), 1.5)), "out of bounds")
        assert run.incumbent.offer_plan(simulate(problem, np.zeros(1), np.full((1, 1), 0.9)), "fine")
        assert not run.incumbent.offer_plan(simulate(problem, np.zeros(1), np.full((1, 1), 1.0)), "worse")
        assert run.incumbent.reward == pytest.approx(0.1)
        assert run.incumbent.gap is None

    def test_a_bound_below_a_checked_plan_is_dropped_and_said(self) -> None:
        problem = rounding_problem()
        plan_in_hand = simulate(problem, np.zeros(1), np.full((1, 1), 0.6))
        for order in ("plan first", "bound first"):
            run = Run(problem, Clock(), GAP)
            if order == "plan first":
                run.incumbent.offer_plan(plan_in_hand, "test")
                assert not run.incumbent.offer_bound(0.3, "a wrong proof")
            else:
                run.incumbent.offer_bound(0.3, "a wrong proof")
                run.incumbent.offer_plan(plan_in_hand, "test")
            assert math.isinf(run.incumbent.bound)
            assert not run.incumbent.is_proven
            assert any("dropped" in note for note in run.log.notes)

    def test_a_bound_within_rounding_is_lifted_and_no_other(self) -> None:
        """An exact plan above a bound, its margin included, refutes it: nothing else may explain the difference."""
        problem = rounding_problem()
        for excess, kept in ((1e-11, True), (1e-6, False)):
            run = Run(problem, Clock(), 1e-4)
            run.incumbent.offer_plan(simulate(problem, np.zeros(1), np.full((1, 1), 0.6)), "test")
            assert run.incumbent.offer_bound(0.4 - excess - 1e-6, "a proof with tolerances", margin=1e-6) == kept
            assert run.incumbent.bound == (run.incumbent.reward if kept else math.inf)
            assert run.incumbent.is_proven == kept

    def test_a_plan_that_uses_its_tolerance_is_said_to_and_keeps_a_gap(self, tmp_path: Path) -> None:
        (tmp_path / "p.toml").write_text(
            'horizon = 1\nreward = "x\'"\nconstraints = ["a <= 0.5"]\n[transition]\nx = "a"\n'
            "[state.x]\nbounds = [0, 1]\ninitial = 0\n[action.a]\nbounds = [0, 1]\n"
        )
        problem = Problem.load(tmp_path / "p.toml")
        run = Run(problem, Clock(), 1e-9)
        assert run.incumbent.offer_plan(simulate(problem, np.zeros(1), np.full((1, 1), 0.5 + 4e-7)), "test")
        run.incumbent.offer_bound(0.5 - 0.5e-6, "a proof", margin=0.5e-6)
        assert run.incumbent.reward is not None
        assert run.incumbent.bound > run.incumbent.reward
        assert not run.incumbent.is_proven
        assert any("tolerance" in note for note in run.log.notes)

    @pytest.mark.parametrize("margin", [math.nan, math.inf])
    def test_a_margin_that_is_no_number_proves_nothing(self, margin: float) -> None:
        run = Run(rounding_problem(), Clock(), GAP)
        assert not run.incumbent.offer_bound(1.0, "a proof", margin)
        assert math.isinf(run.incumbent.bound)

    def test_a_listener_that_fails_costs_nothing(self) -> None:
        def fail(event: Event) -> None:
            raise OSError("the terminal is gone")

        result = plan(rounding_problem(), on_event=fail)
        assert result.status == "optimal"
        assert any("terminal is gone" in note for note in result.notes)


def test_a_plan_survives_an_error_after_it() -> None:
    def fail(work: Work) -> None:
        raise SolverError("the solver broke")

    result = plan(rounding_problem(), stages=["search", own_stage("breaking", fail)])
    assert result.trajectory is not None
    assert any("the solver broke" in note for note in result.notes)


def test_a_state_on_a_kink_is_not_infeasible() -> None:
    """Both arguments of the maximum are equal at s = 8.1, up to one ulp, which must not decide."""
    network = ReluNetwork.sequential([[[1.0, 0.0]]], [[0.0]])
    arguments = [PiecewiseLinear(np.array([1.7, 0, 0]), 0.9), PiecewiseLinear(np.array([0.4, 0, 0]), 11.43)]
    problem = Problem(
        "kink", 1, (Variable("s", "continuous", 0.0, 10.0),), (Variable("a", "continuous", 0.0, 1.0),), (),
        np.full(1, 8.1), np.full(1, 8.1), network, PiecewiseLinear.maximum(arguments),
    )  # fmt: skip
    result = plan(problem)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(14.67)


def test_a_diverging_simulation_is_no_plan() -> None:
    network = ReluNetwork.sequential([[[1e200, 0.0]]], [[0.0]])
    reward = PiecewiseLinear(np.array([0.0, 0.0, 1.0])) - PiecewiseLinear(np.array([1.0, 0.0, 0.0]))
    problem = Problem(
        "diverging", 4, (Variable("s"),), (Variable("a", "continuous", 0.0, 1.0),), (), np.ones(1), np.ones(1),
        network, reward,
    )  # fmt: skip
    with np.errstate(all="ignore"):
        report = check(problem, simulate(problem, np.ones(1), np.zeros((4, 1))))
    assert not report.ok


@pytest.mark.parametrize("method", ["auto", "base", "potentials"])
def test_no_time_ends_without_a_plan_and_with_what_the_boxes_prove(method: str) -> None:
    result = plan(hard_problem(), method=method, time_limit=1e-9)
    assert result.status == "no_plan"
    assert result.bound == pytest.approx(90.0, rel=1e-5)  # no step earns more than 9 in its box
    assert any("time limit" in note for note in result.notes)
