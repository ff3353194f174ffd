"""The plan as one MILP: copies of the network chained over the horizon, constraints, goal and reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.encoding.hinges import HingeColumns
from reluplan.encoding.relu import StepColumns, encode_network
from reluplan.errors import OutOfTimeError
from reluplan.optimisation.model import ENTRY_OPERATIONS, Index, Model, ModelBuilder
from reluplan.optimisation.piecewise_rows import LinearForm, PiecewiseEncoder, Side, TermColumns
from reluplan.problem.problem import Problem, Variable
from reluplan.problem.rollout import Trajectory, state_vectors, step_vectors

Array = NDArray[np.float64]


class Extension(Protocol):
    """Further columns and rows for a plan model, appended before it is built."""

    def extend(
        self, builder: ModelBuilder, steps: Sequence[StepColumns], bounds: HorizonBounds, reward: LinearForm
    ) -> None:
        """Append columns and rows; steps and reward say where the network and R_t stand."""
        ...

    def fill(self, x: Array, units: Array) -> None:
        """Write the values of the appended columns for pre-activations (H, relu_count) into a solution vector."""
        ...


@dataclass(frozen=True, eq=False)
class PlanModel:
    """The MILP and where everything stands in it; -1 marks units without a column.

    states (H+1, n), actions (H, m), auxiliaries (H+1, k), unit_outputs and unit_binaries (H, relu_count);
    reward: R_t of each step as a linear form, not discounted; final_reward: F, if there is one. inner_rows: those of I,
    C and G; rounding_rows: of rounding; repairs move both inward. link_rows (H, n): the rows F(s_t, a_t, x_t) − s_{t+1}
    = 0 of continuous states. steps: the affine forms of each step's network. hinges: of cuts that were added.
    """

    problem: Problem
    model: Model
    states: Index
    actions: Index
    auxiliaries: Index
    unit_outputs: Index
    unit_binaries: Index
    reward: LinearForm
    final_reward: LinearForm | None
    inner_rows: Index
    rounding_rows: Index
    link_rows: Index
    steps: tuple[StepColumns, ...]
    step_terms: tuple[TermColumns, ...]
    final_terms: tuple[TermColumns, ...]
    extension: Extension | None = None
    hinges: tuple[HingeColumns, ...] = ()

    @property
    def horizon(self) -> int:
        return len(self.actions)

    def assignment(self, trajectory: Trajectory) -> Array:
        """The complete solution vector of a simulated plan: binaries from the simulation, exact auxiliaries."""
        x = np.zeros(self.model.column_count)
        x[self.states], x[self.actions] = trajectory.states, trajectory.actions
        x[self.auxiliaries] = trajectory.auxiliaries
        inputs = np.hstack([trajectory.states[:-1], trajectory.actions, trajectory.auxiliaries[:-1]])
        units = self.problem.dynamics.preactivations(inputs)
        _scatter(x, self.unit_outputs, np.maximum(units, 0.0))
        _scatter(x, self.unit_binaries, units > 0.0)
        w = step_vectors(trajectory.states, trajectory.actions, trajectory.auxiliaries)
        for maximum in self.step_terms:
            maximum.fill(x, w[: len(maximum.value)])
        last = state_vectors(self.problem, trajectory.states[-1:], trajectory.auxiliaries[-1:])
        for maximum in self.final_terms:
            maximum.fill(x, last)
        if self.extension is not None:
            self.extension.fill(x, units)
        for hinges in self.hinges:
            hinges.fill(x, trajectory.states)
        return x


def unroll(
    problem: Problem,
    bounds: HorizonBounds,
    big_m: float | None = None,
    named: bool = False,
    extension: Extension | None = None,
    deadline: float = np.inf,
) -> PlanModel:
    """max Σ_t γ^(t−1) R_t + γ^H F subject to I, C (t = 1..H), G and the network of every step.

    big_m: one constant in place of every unit's own bounds, as in the published baseline; stable units then keep
    their binaries. Only for comparison: it is slow, and the solver's tolerances leak through it.
    extension: rows beyond the base model, such as reward potentials. deadline: of clock.now; OutOfTimeError
    is raised as soon as the model cannot be ready by then.
    """
    builder = ModelBuilder(named)
    columns = _variable_columns(builder, problem, bounds, declared_only=big_m is not None)
    states, actions, auxiliaries = columns
    lower, upper = bounds.unit_lower, bounds.unit_upper
    if big_m is not None:
        lower, upper = np.full_like(lower, -big_m), np.full_like(upper, big_m)
    inputs = np.hstack([states[:-1], actions, auxiliaries[:-1]])
    steps, rounding_rows, link_rows = [], [], []
    began = clock.now()
    for t in range(problem.horizon):
        if _ready_at(builder, began, t, problem.horizon) > deadline:
            raise OutOfTimeError(f"the model of {problem.horizon} steps could not be built within the time limit")
        step = encode_network(builder, problem.dynamics, inputs[t], lower[t], upper[t], t)
        output = bounds.output_lower[t], bounds.output_upper[t]
        links, rounding = _link_states(builder, problem, step, states[t + 1], *output, t)
        link_rows.append(links)
        rounding_rows.append(rounding)
        steps.append(step)
    first_row = builder.row_count
    encoder = _step_encoder(builder, bounds, columns)
    for number, constraint in enumerate(problem.constraints):
        encoder.require(constraint, f"constraint{number + 1}")
    initial = _state_encoder(builder, problem, bounds, columns, 0)
    for number, constraint in enumerate(problem.initial_constraints):
        initial.require(constraint, f"initial{number + 1}")
    final = _state_encoder(builder, problem, bounds, columns, problem.horizon)
    for number, constraint in enumerate(problem.goal):
        final.require(constraint, f"goal{number + 1}")
    inner_rows = np.arange(first_row, builder.row_count)
    reward, final_reward = _maximise(builder, problem, encoder, final)
    if extension is not None:
        extension.extend(builder, steps, bounds, reward)
    return PlanModel(
        problem, builder.build(), states, actions, auxiliaries,
        np.array([step.outputs for step in steps]), np.array([step.binaries for step in steps]),
        reward, final_reward, inner_rows, np.concatenate(rounding_rows), np.array(link_rows), tuple(steps),
        (*encoder.terms, *initial.terms), tuple(final.terms), extension,
    )  # fmt: skip


def _maximise(
    builder: ModelBuilder, problem: Problem, steps: PiecewiseEncoder, final: PiecewiseEncoder
) -> tuple[LinearForm, LinearForm | None]:
    """The objective Σ_t γ^(t−1) R_t + γ^H F; returns R_t of each step, and F."""
    reward = steps.encode(problem.reward, Side.BELOW, "reward")
    factors = problem.discount_factors
    builder.add_cost(reward.columns, factors[:-1, None] * reward.coefficients)
    builder.offset = reward.constant * float(factors[:-1].sum())
    if problem.final_reward is None:
        return reward, None
    last = final.encode(problem.final_reward, Side.BELOW, "final_reward")
    builder.add_cost(last.columns, factors[-1] * last.coefficients)
    builder.offset += factors[-1] * last.constant
    return reward, last


def _ready_at(builder: ModelBuilder, began: float, done: int, steps: int) -> float:
    """When the model will be finished, if the steps that are left are like those that are done."""
    now = clock.now()
    if done == 0:
        return now
    rest, build = (steps - done) * (now - began) / done, steps * builder.entry_count / done
    return now + rest + clock.expected(ENTRY_OPERATIONS * build)


def _variable_columns(
    builder: ModelBuilder, problem: Problem, bounds: HorizonBounds, declared_only: bool
) -> tuple[Index, Index, Index]:
    """Columns of states, actions and auxiliaries inside their proven boxes (or only their declared ones)."""

    def add(variables: Sequence[Variable], lower: Array, upper: Array) -> Index:
        if declared_only:
            low, high = problem.box(variables)
            lower, upper = np.broadcast_to(low, lower.shape).copy(), np.broadcast_to(high, upper.shape).copy()
            if variables is problem.states:
                lower[0], upper[0] = problem.initial_lower, problem.initial_upper
        discrete = np.broadcast_to([v.is_discrete for v in variables], lower.shape)
        return builder.add_columns(lower, upper, discrete, name=lambda t, i: f"{variables[i].name}_{t + 1}")

    return (
        add(problem.states, bounds.state_lower, bounds.state_upper),
        add(problem.actions, bounds.action_lower, bounds.action_upper),
        add(problem.auxiliaries, bounds.auxiliary_lower, bounds.auxiliary_upper),
    )


def _link_states(
    builder: ModelBuilder, problem: Problem, step: StepColumns, columns: Index, low: Array, high: Array, t: int
) -> tuple[Index, Index]:
    """s' from the predictions p, of which low <= p <= high is proven; returns the rows of the continuous states (n,),
    -1 elsewhere, and the rows that round.

    continuous: s' = p.   integer: −1/2 <= p − s' <= 1/2 − τ.
    boolean: p <= 1/2 − τ + U s'  and  p >= 1/2 − D (1 − s')  with U >= (high − 1/2 + τ)⁺ and D >= (1/2 − low)⁺, each a
    hundredth of the range of p at least: solvers divide by them, and their tolerance is relative to that range.
    Halves are rounded up: what is rounded down keeps a distance τ (`Problem.tie_distances`) from the tie. With τ = 0
    both roundings of a tie are allowed, which can only make the bound larger; the simulation decides.
    """

    def rows_for(which: NDArray[np.bool_], lower: Array, upper: Array, factor: Array, kind: str) -> Index:
        index = np.flatnonzero(which)
        names = [f"{kind}_{problem.states[i].name}_{t + 2}" for i in index]
        rows = builder.add_rows((lower - step.offset)[index], (upper - step.offset)[index], name=lambda i: names[i])
        builder.add_entries(rows, columns[index], factor[index])
        builder.add_entries(rows[:, None], step.base, step.matrix[index])
        return rows

    count = len(columns)
    boolean, discrete = problem.boolean_states, problem.discrete_states
    ones, half, endless = np.ones(count), np.full(count, 0.5), np.full(count, np.inf)
    links = np.full(count, -1, dtype=np.int64)
    links[~discrete] = rows_for(~discrete, 0.0 * ones, 0.0 * ones, -ones, "next")
    ties = problem.tie_distances
    with np.errstate(invalid="ignore"):
        least = 0.01 * np.where(boolean, high - low, 0.0)
        up = np.where(high - 0.5 + ties > 0.0, np.maximum(high - 0.5 + ties, least), 0.0)
        down = np.where(low < 0.5, np.maximum(0.5 - low, least), 0.0)
    rounding = np.concatenate(
        [
            rows_for(discrete & ~boolean, -half, half - ties, -ones, "round"),
            rows_for(boolean, -endless, half - ties, -up, "true_if"),
            rows_for(boolean, 0.5 - down, endless, -down, "false_if"),
        ]
    )
    return links, rounding


def _step_encoder(
    builder: ModelBuilder, bounds: HorizonBounds, columns: tuple[Index, Index, Index]
) -> PiecewiseEncoder:
    """Functions of w = (s, a, x, s', x') for t = 1..H."""
    lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
    upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
    return PiecewiseEncoder(builder, step_vectors(*columns), lower, upper)


def _state_encoder(
    builder: ModelBuilder, problem: Problem, bounds: HorizonBounds, columns: tuple[Index, Index, Index], t: int
) -> PiecewiseEncoder:
    """Functions of one state and its auxiliaries alone, at the positions of s and x."""
    states, _, auxiliaries = columns
    index = np.full((1, problem.layout.width), -1, dtype=np.int64)
    index[0, problem.layout.states], index[0, problem.layout.auxiliaries] = states[t], auxiliaries[t]
    lower = state_vectors(problem, bounds.state_lower[t : t + 1], bounds.auxiliary_lower[t : t + 1])
    upper = state_vectors(problem, bounds.state_upper[t : t + 1], bounds.auxiliary_upper[t : t + 1])
    return PiecewiseEncoder(builder, index, lower, upper)


def _scatter(x: Array, columns: Index, values: NDArray[np.generic]) -> None:
    present = columns >= 0
    x[columns[present]] = values[present]
