"""`infeasible` is claimed only where all plans were looked at: an empty part of a problem is no empty problem."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from scipy import sparse

from brute_force import optimum
from own_stages import own_stage
from patience import AMPLE
from random_problems import random_problem
from reluplan.bounds.boxes import tightened_for_better_plans
from reluplan.bounds.reachability import forward_bounds, reachable_bounds, reachable_within
from reluplan.clock import Clock
from reluplan.errors import InfeasibleError, NoBetterPlanError, NoPlanExistsError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.model import Model
from reluplan.optimisation.solvers.base import SolveOptions, SolveStatus
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.planning.options import PlanOptions
from reluplan.planning.planner import plan
from reluplan.planning.run import Run
from reluplan.planning.schedule import Step, run_schedule
from reluplan.planning.settings import PlanSettings
from reluplan.planning.work import Work
from reluplan.potentials.compute import compute_potentials, reward_potentials
from reluplan.potentials.domain import step_domain
from reluplan.potentials.reward_cutoff import tighten_by_reward_cutoff
from reluplan.potentials.settings import PotentialSettings
from reluplan.potentials.subproblem import Subproblem
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.tightening.propagation import nothing_left
from shared_data import bugs_folder


def rounded_problem() -> Problem:
    """s' = 5 relu(a) and r' = 5 relu(c), rounded, a and c in [−1, 1], reward −|s' − r' − 1/2|: no step earns more than
    −1/2, but the LP relaxation 0, also in boxes of integers that it tightened."""
    states = tuple(Variable(name, "integer", -9.0, 9.0) for name in "sr")
    actions = tuple(Variable(name, "continuous", -1.0, 1.0) for name in "ac")
    network = ReluNetwork.sequential([np.eye(4)[2:], 5.0 * np.eye(2)], [np.zeros(2), np.zeros(2)])
    distance = PiecewiseLinear(np.array([0.0, 0.0, 0.0, 0.0, 1.0, -1.0]), -0.5)
    reward = -PiecewiseLinear.maximum([distance, -distance])
    return Problem("rounded", 1, states, actions, (), np.zeros(2), np.zeros(2), network, reward)


@pytest.mark.parametrize("interval_count", [1, 2])
def test_potentials_hold_where_no_step_passes_the_reward_cutoff(interval_count: int) -> None:
    """λ = 20 restricts the search to steps with R >= −1/20, of which the LP sees some and the MILP none."""
    settings = PotentialSettings(interval_count, regulariser=20.0)
    domain = step_domain(rounded_problem(), forward_bounds(rounded_problem()), 0, 0)
    assert tighten_by_reward_cutoff(domain, -0.05) is not None
    (item,) = reward_potentials(rounded_problem(), settings=settings).items
    assert item.value(np.array([[-0.5, 0.7], [0.7, 0.1]])).min() >= -0.5
    assert item.proof_bound >= -1.0


def test_steps_that_are_left_out_count_with_what_they_may_violate() -> None:
    """Whatever the values are: far too small ones are violated by the steps that the reward cutoff leaves out."""
    domain = step_domain(rounded_problem(), forward_bounds(rounded_problem()), 0, 0)
    features = domain.features(1)
    tightened = tighten_by_reward_cutoff(domain, -0.05)
    assert tightened is not None
    assert domain.is_whole
    assert not tightened.is_whole
    values = np.array([[-7.0, -3.0], [-6.0, -6.0]])
    whole = Subproblem(domain, features).violated(values, 10.0, 1e-6, np.inf, 1)
    part = Subproblem(tightened, features).violated(values, 10.0, 1e-6, np.inf, 1)
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

    def outcome(self, error: Exception) -> tuple[str, str]:
        def fail(work: Work) -> None:
            raise error

        result = plan(PROBLEM, stages=[own_stage("failing", fail)])
        return result.status, " ".join(result.notes)

    def test_an_empty_part_proves_nothing(self) -> None:
        status, notes = self.outcome(InfeasibleError("nothing is left of a window"))
        assert status == "no_plan"
        assert "proves nothing about the whole problem: nothing is left of a window" in notes

    def test_another_problem_proves_nothing(self) -> None:
        error = NoPlanExistsError("no plan exists", dataclasses.replace(PROBLEM, horizon=9))
        assert self.outcome(error)[0] == "no_plan"
        assert self.outcome(NoPlanExistsError("no plan exists"))[0] == "no_plan"

    def test_all_plans_of_this_problem_prove_it(self) -> None:
        """Plans on rounding ties included: a claim about those that keep a distance from them is asked for again."""
        distances: list[float] = []

        def fail(work: Work) -> None:
            distances.append(work.problem.tie_distance)
            raise NoPlanExistsError("no plan exists", work.problem)

        assert plan(PROBLEM, stages=[own_stage("failing", fail)]).status == "infeasible"
        assert distances == [1e-6, 0.0]

    def test_a_claim_survives_pickling_without_its_problem_becoming_another(self) -> None:
        again = pickle.loads(pickle.dumps(NoPlanExistsError("no plan exists", "p")))
        assert str(again) == "no plan exists"
        assert again.problem == "p"


PROBLEM = rounded_problem()


def test_boxes_of_some_plans_make_no_claim() -> None:
    """The same empty boxes: of all plans they prove that there is none, of some plans only that none of these is."""
    bounds = reachable_bounds(PROBLEM)
    moved = {"state_lower": bounds.state_lower + 8.0, "state_upper": bounds.state_upper + 8.0}
    elsewhere = tightened_for_better_plans(bounds, moved)
    with pytest.raises(InfeasibleError) as raised:
        reachable_within(PROBLEM, elsewhere)
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
    """What empty boxes mean is decided by what they claim to contain."""
    bounds = reachable_bounds(PROBLEM)
    claim = nothing_left(PROBLEM, bounds, InfeasibleError("no value is left for a variable"))
    assert isinstance(claim, NoPlanExistsError)
    assert claim.problem is PROBLEM
    assert claim.exit_code == 2
    weaker = nothing_left(PROBLEM, tightened_for_better_plans(bounds, {}), InfeasibleError("none"))
    assert isinstance(weaker, NoBetterPlanError)
    assert not isinstance(weaker, NoPlanExistsError)
    assert InfeasibleError.exit_code == 3


@pytest.mark.parametrize("method", ["auto", "base", "potentials"])
@pytest.mark.parametrize("seed", [0, 6, 10, 13, 16, 18, 19])
def test_infeasible_means_infeasible_and_is_still_said(seed: int, method: str) -> None:
    """By brute force, over problems of which several have no plan."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)), seed % 5 == 0)
    result = plan(problem, method=method, threads=1, time_limit=AMPLE)
    assert (result.status == "infeasible") == (optimum(problem) is None)


def test_where_no_better_plan_is_left_the_plan_is_optimal() -> None:
    """Nothing is infeasible then: only boxes of better plans are empty."""
    problem = random_problem(np.random.default_rng(7), 3, 2)
    best = plan(problem, method="base", threads=1).trajectory
    assert best is not None
    run = Run(problem, Clock(), 1e-4)
    run.incumbent.offer_plan(best, "test")
    options = PlanOptions("auto", "highs", 60.0, 1e-4, 1, 0)
    with Work(run, options, PlanSettings()) as work:
        bounds = reachable_bounds(problem)
        work.take_boxes(bounds)
        moved = {"state_lower": bounds.state_lower + 1e3, "state_upper": bounds.state_upper + 1e3}
        work.take_boxes(tightened_for_better_plans(bounds, moved))
        cut_off = own_stage("cut off", _bound_units)
        run_schedule(work, (Step(cut_off), Step("milp")))
    assert run.incumbent.is_proven
    assert not run.proven_infeasible


def _bound_units(work: Work) -> None:
    """Of the boxes of better plans; there may be nothing in them."""
    reachable_within(work.problem, work.boxes)


def test_no_step_at_all_is_a_claim() -> None:
    """Over the whole domain, an empty subproblem says that no plan exists."""
    from potential_cases import jumping_problem

    row = dataclasses.replace(jumping_problem().constraints[0], function=PiecewiseLinear(np.array([0.0, 0, -1]), 5.0))
    problem = dataclasses.replace(jumping_problem(), constraints=(row,))
    with pytest.raises(NoPlanExistsError, match="no step satisfies") as claimed:
        compute_potentials(problem, forward_bounds(problem), PotentialSettings(1))
    assert claimed.value.problem is problem
