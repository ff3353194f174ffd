"""The linear program around a trajectory: affine dynamics, a trust box, what is concave exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reluplan.optimisation.model import Index, Model, ModelBuilder
from reluplan.optimisation.piecewise_rows import Side
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, state_vectors, step_vectors
from reluplan.search.decisions import Decisions
from reluplan.search.linearise import Linearisation
from reluplan.search.step_forms import step_forms

Array = NDArray[np.float64]

SATISFIED = 1e-9
"""A row that the trajectory violates by no more than this stays hard; others may stay violated, at a penalty."""


@dataclass(frozen=True, eq=False)
class LocalModel:
    """max Σ γ^t R + γ^H F − penalty · violation  over  s_{t+1} = J_t v_t + c_t  inside the trust box; and where
    columns stand."""

    problem: Problem
    linearisation: Linearisation
    model: Model
    states: Index
    actions: Index
    auxiliaries: Index

    def decisions(self, x: Array) -> Decisions:
        """The plan that a solution vector decides."""
        return Decisions(x[self.states[:1]], x[self.actions][None], x[self.auxiliaries][None])

    def inputs(self, x: Array) -> Array:
        """v_t = (s_t, a_t, x_t) in a solution vector, shape (H, inputs)."""
        return np.hstack([x[self.states[:-1]], x[self.actions], x[self.auxiliaries[:-1]]])

    def unit_rows(self, steps: Index, units: Index) -> tuple[sparse.csr_array, Array, Array]:
        """Rows that keep units on the side that the pattern has them: ±In(v) >= 0 (or not worse than now)."""
        lin = self.linearisation
        sign = np.where(lin.active[steps, units], 1.0, -1.0)
        inputs = np.hstack([self.states[:-1], self.actions, self.auxiliaries[:-1]])[steps]
        slopes = sign[:, None] * lin.slopes[steps, units]
        rows = np.repeat(np.arange(len(steps)), slopes.shape[1])
        shape = (len(steps), self.model.column_count)
        matrix = sparse.coo_array((slopes.ravel(), (rows, inputs.ravel())), shape=shape).tocsr()
        now = np.minimum(sign * lin.units[steps, units], 0.0)
        return matrix, now - sign * lin.intercepts[steps, units], np.full(len(steps), np.inf)


@dataclass(frozen=True, eq=False)
class LocalOptions:
    """How the linear program is made.

    radius: how far each decision may move. penalty: of a unit of violation. margin: how far rows move inward.
    integers: whether discrete variables may move too (by integer columns); otherwise they keep their values.
    """

    radius: Decisions
    penalty: float
    margin: float
    integers: bool = False


def local_model(
    problem: Problem, trajectory: Trajectory, linearisation: Linearisation, options: LocalOptions
) -> LocalModel:
    """Build the linear program around a trajectory."""
    return _Builder(problem, trajectory, linearisation, options).build()


class _Builder:
    """Collects the parts of one local model."""

    def __init__(
        self, problem: Problem, trajectory: Trajectory, linearisation: Linearisation, options: LocalOptions
    ) -> None:
        self._problem = problem
        self._trajectory = trajectory
        self._lin = linearisation
        self._options = options
        self._builder = ModelBuilder()

    def build(self) -> LocalModel:
        problem = self._problem
        trajectory = self._trajectory
        radius = self._options.radius
        states = self._states()
        actions = self._boxed(problem.actions, trajectory.actions, radius.actions[0], problem.box(problem.actions))
        auxiliaries = self._boxed(
            problem.auxiliaries, trajectory.auxiliaries, radius.auxiliaries[0], problem.auxiliary_boxes
        )
        self._dynamics(states, np.hstack([states[:-1], actions, auxiliaries[:-1]]))
        columns = step_vectors(states, actions, auxiliaries)
        w = step_vectors(trajectory.states, trajectory.actions, trajectory.auxiliaries)
        self._require(problem.constraints, columns, w)
        self._require_at(0, problem.initial_constraints, states, auxiliaries)
        self._require_at(-1, problem.goal, states, auxiliaries)
        factors = problem.discount_factors
        self._maximise(problem.reward, columns, w, factors[:-1])
        if problem.final_reward is not None:
            self._maximise(problem.final_reward, *self._state_at(-1, states, auxiliaries), factors[-1:])
        return LocalModel(problem, self._lin, self._builder.build(), states, actions, auxiliaries)

    def _states(self) -> Index:
        """Initial box at the first step, declared bounds (elastic where violated) later, discrete states fixed."""
        problem = self._problem
        values = self._trajectory.states
        low, high = self._inward(*problem.box(problem.states))
        lower, upper = np.tile(low, (len(values), 1)), np.tile(high, (len(values), 1))
        below, above = values < lower - SATISFIED, values > upper + SATISFIED
        free_lower, free_upper = np.where(below, -np.inf, lower), np.where(above, np.inf, upper)
        reach = self._options.radius.initial[0]
        free_lower[0] = np.maximum(problem.initial_lower, values[0] - reach)
        free_upper[0] = np.minimum(problem.initial_upper, values[0] + reach)
        discrete = np.broadcast_to(problem.discrete_states, values.shape)
        fixed = discrete & (not self._options.integers)
        columns = self._builder.add_columns(
            np.where(fixed, values, free_lower), np.where(fixed, values, free_upper), discrete & ~fixed
        )
        below, above = below & ~fixed, above & ~fixed
        below[0] = above[0] = False
        self._elastic(columns[below][:, None], np.ones((1, 1)), lower[below], np.full(below.sum(), np.inf))
        self._elastic(columns[above][:, None], np.ones((1, 1)), np.full(above.sum(), -np.inf), upper[above])
        return columns

    def _boxed(
        self, variables: Sequence[Variable], values: Array, reach: Array, declared: tuple[Array, Array]
    ) -> Index:
        """Declared bounds and the trust box; discrete variables keep their values, or move by one at least."""
        low, high = declared
        discrete = np.broadcast_to(np.array([v.is_discrete for v in variables], dtype=bool), values.shape)
        integer = discrete & self._options.integers
        reach = np.where(integer, np.maximum(1.0, np.floor(reach)), np.where(discrete, 0.0, reach))
        return self._builder.add_columns(np.maximum(low, values - reach), np.minimum(high, values + reach), integer)

    def _dynamics(self, states: Index, inputs: Index) -> None:
        """s' = J v + c for continuous states; |J v + c − s'| <= 1/2 where s' is rounded."""
        discrete = np.broadcast_to(self._problem.discrete_states, states[1:].shape)
        boolean = np.broadcast_to(self._problem.boolean_states, states[1:].shape)
        now = self._trajectory.states[1:]
        half = np.where(discrete, 0.5 - self._options.margin, 0.0)
        open_side = boolean & (not self._options.integers)  # a boolean that stays 1 may be predicted as 7
        lower = np.where(open_side & (now < 0.5), -np.inf, -half) - self._lin.offset
        upper = np.where(open_side & (now > 0.5), np.inf, half) - self._lin.offset
        rows = self._builder.add_rows(lower, upper)
        self._builder.add_entries(rows, states[1:], -1.0)
        self._builder.add_entries(rows[..., None], inputs[:, None, :], self._lin.jacobian)

    def _require(self, constraints: Sequence[Constraint], columns: Index, w: Array) -> None:
        """Rows g <= −margin, or g == 0; a row that is violated now gets a slack at the penalty."""
        for constraint in constraints:
            now = constraint.function.evaluate(w)
            side = Side.EXACT if constraint.equality else Side.ABOVE
            form = step_forms(self._builder, constraint.function, side, columns, w)
            target = 0.0 if constraint.equality else -self._options.margin
            broken = (np.abs(now) if constraint.equality else now - target) > SATISFIED
            upper = target - form.constants
            lower = upper if constraint.equality else np.full(len(upper), -np.inf)
            hard = self._builder.add_rows(lower[~broken], upper[~broken])
            self._builder.add_entries(hard[:, None], form.columns[~broken], form.coefficients[~broken])
            self._elastic(form.columns[broken], form.coefficients[broken], lower[broken], upper[broken])

    def _require_at(self, t: int, constraints: Sequence[Constraint], states: Index, auxiliaries: Index) -> None:
        """Rows on one state and its auxiliaries: the initial rows and the goal."""
        self._require(constraints, *self._state_at(t, states, auxiliaries))

    def _maximise(self, function: PiecewiseLinear, columns: Index, w: Array, factors: Array) -> None:
        """Add the function of every step to the objective, times the step's factor, (T,)."""
        form = step_forms(self._builder, function, Side.BELOW, columns, w)
        self._builder.add_cost(form.columns, factors[:, None] * form.coefficients)
        self._builder.offset += float((factors * form.constants).sum())

    def _state_at(self, t: int, states: Index, auxiliaries: Index) -> tuple[Index, Array]:
        """Columns and values (1, width) of one state and its auxiliaries, where functions of one state read them."""
        layout = self._problem.layout
        trajectory = self._trajectory
        columns = np.full((1, layout.width), -1, dtype=np.int64)
        columns[0, layout.states] = states[t]
        columns[0, layout.auxiliaries] = auxiliaries[t]
        return columns, state_vectors(self._problem, trajectory.states[t][None], trajectory.auxiliaries[t][None])

    def _elastic(self, columns: Index, coefficients: Array, lower: Array, upper: Array) -> None:
        """Rows lower − σ <= c · x <= upper + σ with σ >= 0 at the penalty."""
        rows = self._builder.add_rows(lower, upper)
        self._builder.add_entries(rows[:, None], columns, coefficients)
        for sides, sign in ((lower, 1.0), (upper, -1.0)):
            needed = np.isfinite(sides)
            slack = self._builder.add_columns(np.zeros(needed.sum()), np.inf)
            self._builder.add_entries(rows[needed], slack, sign)
            self._builder.add_cost(slack, -self._options.penalty)

    def _inward(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds moved by the margin, where there is room."""
        margin = self._options.margin
        roomy = upper - lower > 2.0 * margin
        return np.where(roomy, lower + margin, lower), np.where(roomy, upper - margin, upper)
