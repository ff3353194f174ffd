"""Schedules as data: chosen stages, proofs from outside, and a result that says what was run."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reluplan.bounds.boxes import AllPlanBounds, tightened_for_better_plans
from reluplan.bounds.reachability import reachable_bounds
from reluplan.clock import Clock
from reluplan.errors import InputError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers import SOLVERS
from reluplan.optimisation.solvers.base import SolveOptions, SolveResult, StopReason
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.planning.log import Event
from reluplan.planning.options import PlanOptions
from reluplan.planning.planner import METHODS, plan
from reluplan.planning.run import Run
from reluplan.planning.schedule import Condition, Step, schedule_of
from reluplan.planning.settings import PlanSettings
from reluplan.planning.stages import get_stage, stage_names
from reluplan.planning.work import Work
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import rollout
from reluplan.proofs import PROOFS, ProofState


def walk(horizon: int = 6) -> Problem:
    """s' = s + a from 3, |a| <= 1, reward −|s'|: the optimum is −(2 + 1) for any longer horizon."""
    network = ReluNetwork.sequential([[[1.0, 1.0]]], [[0.0]])
    after = PiecewiseLinear.variable(2, 3)
    return Problem(
        "walk", horizon, (Variable("s", "continuous", -9.0, 9.0),), (Variable("a", "continuous", -1.0, 1.0),), (),
        np.full(1, 3.0), np.full(1, 3.0), network, -PiecewiseLinear.maximum([after, -after]),
    )  # fmt: skip


def test_every_stage_of_every_schedule_exists() -> None:
    for schedule in METHODS.values():
        for step in schedule:
            assert get_stage(step.stage, PlanSettings()).name == step.stage
            assert 0.0 < step.share <= 1.0
    for name in stage_names():
        stage = get_stage(name, PlanSettings())
        assert stage.summary
        assert "\n" not in stage.summary


def test_chosen_stages_run_in_their_order_after_the_bounds() -> None:
    stages: list[str] = []
    result = plan(
        walk(), stages=["search", "interval"], gap=0.0, threads=1, on_event=lambda event: stages.append(event.stage)
    )
    assert list(dict.fromkeys(stages)) == ["bounds", "search", "interval"]
    assert result.status == "feasible"
    assert result.reward == pytest.approx(-3.0, abs=1e-6)
    assert result.to_dict()["schedule"][0] == {"stage": "bounds", "share": 0.5, "longest": None, "when": "always"}
    assert [step["stage"] for step in result.to_dict()["schedule"]] == ["bounds", "search", "interval"]


def test_stages_that_need_a_plan_wait_for_one() -> None:
    result = plan(walk(), stages=["lagrangian"], threads=1)
    assert result.status == "no_plan"
    assert result.bound is not None  # of the boxes
    assert plan(walk(), stages=["search", "lagrangian"], threads=1).status == "optimal"


def test_the_search_goes_on_before_bounds_that_take_a_while() -> None:
    """What a search finds in the first seconds is there before the bounds of a wide network are."""
    rng = np.random.default_rng(0)
    wide = ReluNetwork.sequential(
        [0.01 * rng.normal(size=shape) for shape in ((256, 2), (256, 256), (1, 256))],
        [np.zeros(256), np.zeros(256), np.zeros(1)],
    )
    began: dict[str, list[str]] = {"small": [], "wide": []}
    for name, network, horizon in (("small", walk().dynamics, 6), ("wide", wide, 30)):
        events: list[Event] = []
        plan(dataclasses.replace(walk(horizon), dynamics=network), time_limit=2.0, on_event=events.append)
        began[name] = [event.stage for event in events if event.message == "begins"]
    assert began["small"][:2] == ["search", "bounds"]
    assert began["wide"][:3] == ["search", "search", "bounds"]


def test_unknown_and_missing_stages_are_refused() -> None:
    with pytest.raises(InputError, match="unknown stage 'magic'; choose from bounds, "):
        plan(walk(), stages=["bounds", "magic"])
    with pytest.raises(InputError, match="no stages were given"):
        plan(walk(), stages=[])


def test_shares_of_chosen_stages_are_the_usual_ones() -> None:
    (bounds, search, mine) = schedule_of(["search", "milp"])
    assert bounds == Step("bounds", 0.5)
    assert search == Step("search", 0.12, 60.0, Condition.ALWAYS)
    assert mine == Step("milp")


class KnownOptimum:
    """A proof from outside: it happens to know that no step earns more than zero, and none of the first two."""

    stage = "known optimum"
    summary = "knows the answer"
    needs_plan = False

    def improve(self, state: ProofState, deadline: float) -> None:
        state.offer(-3.0, 0.0, "common sense")


def test_a_proof_is_registered_from_outside() -> None:
    PROOFS.register("known optimum", KnownOptimum, replace=True)
    result = plan(walk(), stages=["search", "known optimum"], threads=1)
    assert result.status == "optimal"
    assert result.stages["known optimum"] >= 0.0
    assert "known optimum" in stage_names()


def test_a_proof_of_too_little_is_found_out() -> None:
    """Whatever a proof says: a checked plan above its bound refutes it, and the result says so."""

    class Wrong(KnownOptimum):
        stage = "wrong"

        def improve(self, state: ProofState, deadline: float) -> None:
            state.incumbent.offer_bound(-100.0, "nonsense")

    PROOFS.register("wrong", Wrong, replace=True)
    result = plan(walk(), stages=["search", "wrong"], threads=1)
    assert result.bound is not None
    assert result.bound >= -3.0
    assert any("a bound of -99.9999 was dropped" in note for note in result.notes)


@pytest.mark.parametrize("method", ["auto", "base", "potentials"])
@pytest.mark.parametrize("limit", [1e-6, 60.0])
def test_a_given_plan_counts_whatever_the_time(method: str, limit: float) -> None:
    problem = walk()
    start = rollout(problem, np.full(1, 3.0), np.array([[-1.0]] * 2 + [[0.0]] * 4))
    result = plan(problem, method=method, start=start, time_limit=limit, threads=1)
    assert result.reward is not None
    assert result.reward >= start.total_reward == -9.0 + 2.0


class Silent(HighsSolver):
    """A solver that gives up at once, and says why."""

    def solve(self, model: Model, options: SolveOptions) -> SolveResult:
        return SolveResult.nothing(StopReason.FAILED, "out of ideas")


@pytest.mark.parametrize("limit", [30.0, np.inf])
def test_a_solver_that_stops_is_heard_with_a_time_limit_too(limit: float) -> None:
    SOLVERS.register("silent", f"{__name__}:Silent", replace=True)
    try:
        result = plan(walk(), stages=["milp"], solver="silent", time_limit=limit, threads=1)
    finally:
        SOLVERS.remove("silent")
    assert any("silent stopped" in note for note in result.notes)


def test_what_is_known_of_better_plans_stays_known() -> None:
    """Bounds and propagation after a proof work on boxes of all plans, and throw away nothing of what it found."""
    problem = walk()
    run = Run(problem, Clock(), 1e-4)
    run.incumbent.offer_plan(rollout(problem, np.full(1, 3.0), np.array([[-1.0]] * 3 + [[0.0]] * 3)), "test")
    with Work(run, PlanOptions("auto", "highs", 60.0, 1e-4, 1, 0), PlanSettings()) as work:
        bounds = reachable_bounds(problem)
        work.take_boxes(bounds)
        upper = bounds.state_upper.copy()
        upper[1:] -= 0.5
        work.take_boxes(tightened_for_better_plans(bounds, {"state_upper": upper}))
        work.take_boxes(bounds)
        assert not isinstance(work.boxes, AllPlanBounds)
        assert (work.boxes.state_upper == upper).all()
        assert work.all_plans is bounds


def test_settings_are_recorded() -> None:
    settings = PlanSettings(few_unstable=7)
    recorded = plan(walk(), threads=1, settings=settings).to_dict()["settings"]
    assert recorded["few_unstable"] == 7
    assert recorded["lagrangian"]["bundle"]["samples"] == 2_000


def test_results_print_and_give_tables() -> None:
    result = plan(walk(), threads=1)
    assert str(result).startswith("walk: optimal, reward -3")
    table = result.plan_table()
    assert list(table) == ["step", "s", "a", "reward"]
    assert len({len(column) for column in table.values()}) == 1
    assert table["s"][0] == 3.0
    assert table["a"][-1] is None
    history = result.history_table()
    assert set(history) == {"seconds", "reward", "bound", "nodes"}
    assert history["reward"][-1] == result.reward
