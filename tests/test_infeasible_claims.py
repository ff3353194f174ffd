"""`infeasible` is claimed only where all plans were looked at: an empty part of a problem is no empty problem."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from brute_force import optimum
from patience import AMPLE
from random_problems import random_problem
from reluplan.bounds.reach import reachable_bounds
from reluplan.errors import InfeasibleError, NoPlanExistsError
from reluplan.methods import auto
from reluplan.methods.bounding import looking_at_all_plans
from reluplan.methods.options import PlanOptions
from reluplan.milp.model import Model
from reluplan.network import ReluNetwork
from reluplan.piecewise import PiecewiseLinear
from reluplan.planner import METHODS, plan
from reluplan.potentials.compute import compute_potentials, reward_potentials
from reluplan.potentials.domain import step_domain
from reluplan.potentials.generate import PotentialSettings
from reluplan.potentials.restrict import restrict_to_rewards
from reluplan.potentials.subproblem import Subproblem
from reluplan.problem import Problem, Variable
from reluplan.proofs.knowledge import Knowledge
from reluplan.run import Clock, Run
from reluplan.solvers.base import SolveOptions, SolveStatus
from reluplan.solvers.highs import HighsSolver
from reluplan.solvers.pool import WorkerPool


def rounded_problem() -> Problem:
    """s' = 5 relu(a) and r' = 5 relu(c), rounded, a and c in [−1, 1], reward −|s' − r' − 1/2|: no step earns more than
    −1/2, but the LP relaxation 0, also in boxes of integers that it tightened."""
    states = tuple(Variable(name, "integer", -9.0, 9.0) for name in "sr")
    actions = tuple(Variable(name, "continuous", -1.0, 1.0) for name in "ac")
    network = ReluNetwork.sequential([np.eye(4)[2:], 5.0 * np.eye(2)], [np.zeros(2), np.zeros(2)])
    distance = PiecewiseLinear(np.array([0.0, 0.0, 0.0, 0.0, 1.0, -1.0]), -0.5)
    reward = -PiecewiseLinear.maximum([distance, -distance])
    return Problem("rounded", 1, states, actions, (), np.zeros(2), np.zeros(2), network, reward)


def bugs_folder(name: str) -> Path:
    folder = Path(__file__).parents[2] / "shared" / "bugs" / name
    if not folder.is_dir():
        pytest.skip(f"the collection of problems with wrong answers is not at {folder}")
    return folder


@pytest.mark.parametrize("interval_count", [1, 2])
def test_potentials_of_an_empty_restriction_hold(interval_count: int) -> None:
    """λ = 20 restricts the search to steps with R >= −1/20, of which the LP sees some and the MILP none."""
    settings = PotentialSettings(interval_count, regulariser=20.0)
    domain = step_domain(rounded_problem(), reachable_bounds(rounded_problem()), 0, 0)
    assert restrict_to_rewards(domain, -0.05) is not None
    (item,) = reward_potentials(rounded_problem(), settings=settings).items
    assert item.value(np.array([[-0.5, 0.7], [0.7, 0.1]])).min() >= -0.5
    assert item.proof_bound >= -1.0


def test_steps_that_are_left_out_count_with_what_they_may_violate() -> None:
    """Whatever the values are: far too small ones are violated by the steps that the restriction leaves out."""
    domain = step_domain(rounded_problem(), reachable_bounds(rounded_problem()), 0, 0)
    features = domain.features(1)
    restricted = restrict_to_rewards(domain, -0.05)
    assert restricted is not None
    assert domain.is_whole
    assert not restricted.is_whole
    values = np.array([[-7.0, -3.0], [-6.0, -6.0]])
    whole = Subproblem(domain, features).violated(values, 10.0, 1e-6, np.inf, 1)
    part = Subproblem(restricted, features).violated(values, 10.0, 1e-6, np.inf, 1)
    assert whole.dual_bound == pytest.approx(12.5, abs=1e-4)
    assert part.dual_bound == pytest.approx(-0.05 + 13.0)


@pytest.mark.parametrize("seed", [1011, 1031])
@pytest.mark.parametrize("interval_count", [1, 2])
def test_a_problem_with_a_plan_is_not_called_infeasible(seed: int, interval_count: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, int(rng.integers(1, 5)), 1, seed % 5 == 0)
    best = optimum(problem)
    assert best is not None
    result = plan(problem, method="potentials", interval_count=interval_count, threads=1)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(best, abs=2e-4 * max(1.0, abs(best)))


@pytest.mark.parametrize("interval_count", [1, 2, 3])
def test_the_problem_that_was_called_infeasible(interval_count: int) -> None:
    problem = Problem.load(bugs_folder("potentials-false-infeasible") / "problem.toml")
    result = plan(problem, method="potentials", interval_count=interval_count, threads=1)
    assert result.status == "optimal"
    assert result.reward == pytest.approx(-0.0743685, abs=1e-5)


class TestClaims:
    """What `plan` makes of errors."""

    def outcome(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> tuple[str, str]:
        def fail(run: Run, options: object) -> None:
            raise error

        monkeypatch.setitem(METHODS, "base", fail)
        result = plan(PROBLEM, method="base")
        return result.status, " ".join(result.fields["notes"])

    def test_an_empty_part_proves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        status, notes = self.outcome(monkeypatch, InfeasibleError("nothing is left of a window"))
        assert status == "no_plan"
        assert "proves nothing about the whole problem: nothing is left of a window" in notes

    def test_another_problem_proves_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        error = NoPlanExistsError("no plan exists", dataclasses.replace(PROBLEM, horizon=9))
        assert self.outcome(monkeypatch, error)[0] == "no_plan"
        assert self.outcome(monkeypatch, NoPlanExistsError("no plan exists"))[0] == "no_plan"

    def test_all_plans_of_this_problem_prove_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Plans on rounding ties included: a claim about those that keep a distance from them is asked for again."""
        distances: list[float] = []

        def fail(run: Run, options: object) -> None:
            distances.append(run.problem.tie_distance)
            raise NoPlanExistsError("no plan exists", run.problem)

        monkeypatch.setitem(METHODS, "base", fail)
        assert plan(PROBLEM, method="base").status == "infeasible"
        assert distances == [1e-6, 0.0]

    def test_a_claim_survives_pickling_without_its_problem_becoming_another(self) -> None:
        again = pickle.loads(pickle.dumps(NoPlanExistsError("no plan exists", "p")))
        assert str(again) == "no plan exists"
        assert again.problem == "p"


PROBLEM = rounded_problem()


def test_boxes_of_some_plans_make_no_claim() -> None:
    """The same empty boxes: of all plans they prove that there is none, of some plans only that none of these is."""
    bounds = reachable_bounds(PROBLEM)
    elsewhere = dataclasses.replace(bounds, state_lower=bounds.state_lower + 8.0, state_upper=bounds.state_upper + 8.0)
    with pytest.raises(InfeasibleError) as raised:
        reachable_bounds(PROBLEM, within=elsewhere)
    assert not isinstance(raised.value, NoPlanExistsError)
    outside = dataclasses.replace(PROBLEM, states=tuple(Variable(name, "integer", 7.0, 9.0) for name in "sr"))
    with pytest.raises(NoPlanExistsError, match="no plan exists") as claimed:
        reachable_bounds(outside)
    assert claimed.value.problem is outside


@pytest.mark.parametrize("upper", [0.52, 0.9, 1.0, 1.3])
def test_integer_columns_have_integer_bounds(upper: float) -> None:
    """The presolve of HiGHS 1.15 calls this model infeasible for some of the bounds; x = 0 satisfies it for all."""
    matrix = [[-1.6, 1.0, 0.0], [-1.6, 1.0, 0.33], [0.0, 1.0, -0.51], [0.7, 0.04, 0.0]]
    model = Model(
        objective=np.array([-0.2, -0.04, 0.0]),
        offset=0.0,
        matrix=sparse.csr_array(matrix),
        row_lower=np.array([-0.33, -np.inf, -np.inf, -np.inf]),
        row_upper=np.array([np.inf, 1e-9, 0.0, 0.37]),
        column_lower=np.zeros(3),
        column_upper=np.array([upper, 0.51, 1.0]),
        integer=np.array([True, False, True]),
    )
    assert model.column_upper[0] == np.floor(upper)
    assert HighsSolver().solve(model, SolveOptions()).status is SolveStatus.OPTIMAL
    none_inside = dataclasses.replace(model, column_lower=np.array([0.2, 0.0, 0.0]), column_upper=np.full(3, 0.7))
    assert none_inside.column_lower[0] == 0.2
    assert HighsSolver().solve(none_inside, SolveOptions()).status is SolveStatus.INFEASIBLE


def test_work_on_all_plans_makes_the_claim() -> None:
    run = Run(PROBLEM, Clock(), 1e-4)
    with pytest.raises(NoPlanExistsError) as claimed, looking_at_all_plans(run):
        raise InfeasibleError("no value is left for a variable")
    assert claimed.value.problem is PROBLEM
    assert claimed.value.exit_code == 2
    assert InfeasibleError.exit_code == 3


@pytest.mark.parametrize("method", ["auto", "base", "potentials"])
@pytest.mark.parametrize("seed", [0, 6, 10, 13, 16, 18, 19])
def test_infeasible_means_infeasible_and_is_still_said(seed: int, method: str) -> None:
    """By brute force, over problems of which several have no plan."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)), seed % 5 == 0)
    result = plan(problem, method=method, threads=1, time_limit=AMPLE)
    assert (result.status == "infeasible") == (optimum(problem) is None)


def test_an_empty_rest_of_better_plans_makes_the_plan_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is left of the boxes of better plans, the plan in hand is the best, and nothing is infeasible."""

    def nothing_left(*_: object) -> None:
        raise InfeasibleError("no value is left for a variable")

    rng = np.random.default_rng(7)
    problem = random_problem(rng, 3, 2)
    run = Run(problem, Clock(), 1e-4)
    start = plan(problem, method="base", threads=1).trajectory
    assert start is not None
    run.offer_plan(start, "test")
    bounds = reachable_bounds(problem)
    monkeypatch.setattr(auto, "sharpen_steps", nothing_left)
    options = PlanOptions("auto", "highs", 60.0, 1e-4, 1, 0, None, 2, None, None)
    with WorkerPool("highs", 1) as pool:
        auto._solve_rest(Knowledge(run, bounds, pool, 0), options, bounds)
    assert run.is_proven
    assert not run.proven_infeasible


def test_no_step_at_all_is_a_claim() -> None:
    """Over the whole domain, an empty subproblem says that no plan exists."""
    from test_potentials import jumping_problem

    row = dataclasses.replace(jumping_problem().constraints[0], function=PiecewiseLinear(np.array([0.0, 0, -1]), 5.0))
    problem = dataclasses.replace(jumping_problem(), constraints=(row,))
    with pytest.raises(NoPlanExistsError, match="no step satisfies") as claimed:
        compute_potentials(problem, reachable_bounds(problem), PotentialSettings(1))
    assert claimed.value.problem is problem
