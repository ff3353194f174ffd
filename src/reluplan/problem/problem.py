"""The planning problem: variables, dynamics, constraints, reward, horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.discounting import discount_factors
from reluplan.problem.expression import Constraint
from reluplan.problem.fingerprint import fingerprint
from reluplan.problem.lags import Lag
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.series import Series, table
from reluplan.problem.soft_rows import SoftRow
from reluplan.problem.tolerance import Tolerances, largest_size, tolerance_for
from reluplan.wording import did_you_mean, shortened

Array = NDArray[np.float64]
Kind = Literal["continuous", "integer", "boolean"]

WIDE = 2.0**14
"""Integers of this range and more are continuous to solvers (`scaling.is_wide`), whose relative integrality tolerances
mean nothing there; so states that wide keep no distance from rounding ties."""

LONGEST_HORIZON = 1_000_000
"""Steps; boxes of more would fill the memory."""

NOT_IN_FINGERPRINT = {
    ("Problem", "name"): "what a problem is called changes no plan",
    ("Problem", "source"): "nor does the file that it came from",
    ("Constraint", "text"): "how a row was written; its function and its sign are what counts",
    ("Problem", "horizon"): "compared by who relies on it: what holds up to a horizon holds for shorter ones",
    ("Problem", "initial_lower"): "compared likewise: what holds for a box of initial states holds for smaller ones",
    ("Problem", "initial_upper"): "see initial_lower",
    ("Problem", "final_reward"): "what a step earns and where it leads does not depend on what the final state earns",
    ("Problem", "discount"): "nor on what the step counts in the sum",
    ("Problem", "soft"): "their prices are in the reward",
    ("Problem", "lags"): "how states are called that hold what was some steps ago",
    ("Series", "name"): "what a series is called changes no plan",
    ("Series", "place"): "nor does where it came from",
}
"""What `Problem.fingerprint` leaves out, and why; all else is in it, fields that are added later included."""


@dataclass(frozen=True)
class Variable:
    """A state, action or auxiliary variable with its domain; absent bounds are infinite."""

    name: str
    kind: Kind = "continuous"
    lower: float = -np.inf
    upper: float = np.inf

    @property
    def is_discrete(self) -> bool:
        return self.kind != "continuous"


@dataclass(frozen=True)
class StepLayout:
    """Where the parts of one step stand in the vector w = (s, a, x, s', x') that functions read.

    s: states, a: actions, x: auxiliaries; a prime marks the next step.
    """

    state_count: int
    action_count: int
    auxiliary_count: int

    @property
    def states(self) -> slice:
        return slice(0, self.state_count)

    @property
    def actions(self) -> slice:
        return slice(self.state_count, self.state_count + self.action_count)

    @property
    def auxiliaries(self) -> slice:
        return slice(self.actions.stop, self.input_count)

    @property
    def input_count(self) -> int:
        """Length of (s, a, x), the inputs of the dynamics."""
        return self.state_count + self.action_count + self.auxiliary_count

    @property
    def next_states(self) -> slice:
        return slice(self.input_count, self.input_count + self.state_count)

    @property
    def next_auxiliaries(self) -> slice:
        return slice(self.next_states.stop, self.width)

    @property
    def width(self) -> int:
        return self.input_count + self.state_count + self.auxiliary_count


@dataclass(frozen=True, eq=False)
class Problem:
    """⟨S, A, C, T, I, G, R⟩ with a horizon; T is a ReLU network. A plan is worth

        Σ_{t=1..H} γ^(t−1) R(s_t, a_t, x_t, s_{t+1}, x_{t+1})  +  γ^H F(s_{H+1}, x_{H+1}).

    dynamics: maps (s, a, x) to the real-valued prediction of s'; see `next_states` for discrete states.
    constraints: C, over w = (s, a, x, s', x') of every step t = 1..H.
    goal: G, over the final state and its auxiliaries, at the positions of s and x.
    final_reward: F, over the same; None is zero. discount: γ, 0 < γ <= 1.
    initial_constraints: rows of I beside the box [initial_lower, initial_upper], at the positions of s and x.
    State and auxiliary bounds hold at every t = 1..H+1, action bounds at every t = 1..H.
    tie_distance: plans, and so bounds, leave out predictions of discrete states that are rounded down although they are
    this close to a tie: there the last bit would decide.
    series: values of the last auxiliaries, which are known at every step; first_step: of series at the first step here.
    soft: rows that may be broken, whose price is in the reward. lags: the last states, which hold what was before.

    >>> problem = Problem.load("examples/tanks/problem.toml")
    >>> [action.name for action in problem.actions]
    ['flow[upper]', 'flow[lower]']
    """

    name: str
    horizon: int
    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    initial_lower: Array
    initial_upper: Array
    dynamics: ReluNetwork
    reward: PiecewiseLinear
    constraints: tuple[Constraint, ...] = ()
    initial_constraints: tuple[Constraint, ...] = ()
    goal: tuple[Constraint, ...] = ()
    final_reward: PiecewiseLinear | None = None
    discount: float = 1.0
    source: str = "problem"
    tie_distance: float = 1e-6
    series: tuple[Series, ...] = ()
    first_step: int = 0
    soft: tuple[SoftRow, ...] = ()
    lags: tuple[Lag, ...] = ()

    def __post_init__(self) -> None:
        self.require_series()

    @classmethod
    def load(cls, path: str | Path) -> Problem:
        """Read a problem file (TOML) and the network it names."""
        from reluplan.problem.file import load_problem

        return load_problem(Path(path))

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], *, network: ReluNetwork | None = None, folder: str | Path = "."
    ) -> Problem:
        """A problem from the tables of a problem file as a dict; lists may be arrays, or columns of data frames.

        network: in place of the file that the table `network` names. folder: where files that it names are.

        >>> problem = Problem.from_dict({
        ...     "horizon": 3, "reward": "-price*pump - abs(level' - 5)",
        ...     "series": {"price": {"values": np.array([0.1, 2.0, 0.1])}},
        ...     "state": {"level": {"bounds": (0, 10), "initial": 4}}, "action": {"pump": {"bounds": (0, 2)}},
        ...     "transition": {"level": "level + pump - 1"},
        ... })
        >>> problem.series_table[:3, 0].tolist()
        [0.1, 2.0, 0.1]
        """
        from reluplan.problem.file import problem_from

        return problem_from(data, network, folder, str(data.get("name", "problem")))

    def with_horizon(self, horizon: int) -> Problem:
        """The same problem over another number of steps."""
        if horizon < 1:
            raise InputError(f"the horizon must be at least 1, got {horizon}")
        if horizon > LONGEST_HORIZON:
            raise InputError(f"the horizon must be at most {LONGEST_HORIZON:,}, got {horizon:,}")
        return replace(self, horizon=horizon)

    def with_initial(self, values: Mapping[str, float]) -> Problem:
        """The same problem from other first values of some states."""
        lower, upper = self.initial_lower.copy(), self.initial_upper.copy()
        places = {variable.name: at for at, variable in enumerate(self.states)}
        for name, value in values.items():
            if name not in places:
                raise InputError(
                    f"{self.source}: no state '{shortened(name)}' ({did_you_mean(name, places, 'states')})"
                )
            variable = self.states[places[name]]
            if not variable.lower <= value <= variable.upper:
                bounds = f"[{variable.lower:g}, {variable.upper:g}]"
                raise InputError(f"{self.source}: {name} = {value:g} lies outside the bounds {bounds} of the state")
            if variable.is_discrete and value != round(value):
                raise InputError(f"{self.source}: {name} = {value:g} is no {variable.kind} value")
            lower[places[name]] = upper[places[name]] = value
        return replace(self, initial_lower=lower, initial_upper=upper)

    def part(
        self,
        first: int,
        length: int,
        initial_lower: Array,
        initial_upper: Array,
        *,
        keeps_initial_rows: bool,
        goal: tuple[Constraint, ...],
        final_reward: PiecewiseLinear | None,
    ) -> Problem:
        """Some of the steps as a problem of their own, from step `first` (0, 1, ...) and a box of states to a goal.

        It is worth what its steps are worth at its own first step; if that is step t of a plan, the plan earns γ^t
        times that in them.

        keeps_initial_rows: whether the rows of I hold at its first step, as they do if that is the plan's first one.
        goal: rows on its final state; the problem's own only if that is the plan's final one. final_reward: likewise.
        """
        return replace(
            self,
            horizon=length,
            first_step=self.first_step + first if self.series else 0,
            initial_lower=initial_lower,
            initial_upper=initial_upper,
            initial_constraints=self.initial_constraints if keeps_initial_rows else (),
            goal=goal,
            final_reward=final_reward,
        )

    @cached_property
    def discount_factors(self) -> Array:
        """γ^0, γ^1, ..., γ^H: what a reward of each step counts, and at the end what the final reward counts."""
        return discount_factors(self.discount, self.horizon + 1)

    @cached_property
    def layout(self) -> StepLayout:
        return StepLayout(len(self.states), len(self.actions), len(self.auxiliaries))

    @cached_property
    def input_variables(self) -> tuple[Variable, ...]:
        """The variables of (s, a, x), in that order."""
        return self.states + self.actions + self.auxiliaries

    def box(self, variables: Sequence[Variable]) -> tuple[Array, Array]:
        """The declared bounds of some variables as two arrays."""
        return np.array([v.lower for v in variables]), np.array([v.upper for v in variables])

    @property
    def own_states(self) -> tuple[Variable, ...]:
        """The states that the system has; the others hold what was before."""
        return self.states[: len(self.states) - len(self.lags)]

    @cached_property
    def series_columns(self) -> slice:
        """Which auxiliaries are series."""
        return slice(len(self.auxiliaries) - len(self.series), len(self.auxiliaries))

    @cached_property
    def has_free_auxiliaries(self) -> bool:
        """Whether a plan chooses auxiliaries; otherwise all of them are series."""
        return len(self.auxiliaries) > len(self.series)

    @cached_property
    def has_products(self) -> bool:
        """Whether something is multiplied by a series, and is so piecewise linear only step by step."""
        return any(function.has_products for function in self.functions)

    @cached_property
    def functions(self) -> tuple[PiecewiseLinear, ...]:
        """Of steps and of states: rewards and rows."""
        rows = (*self.constraints, *self.initial_constraints, *self.goal)
        final = () if self.final_reward is None else (self.final_reward,)
        return (self.reward, *final, *(row.function for row in rows))

    @cached_property
    def series_table(self) -> Array:
        """The values of series at t = 1..H+1, shape (H+1, series)."""
        return table(self.series, self.first_step, self.horizon + 1)

    @cached_property
    def auxiliary_boxes(self) -> tuple[Array, Array]:
        """The bounds of auxiliaries at t = 1..H+1, shape (H+1, k): declared ones, and the values of series."""
        lower, upper = (np.tile(side, (self.horizon + 1, 1)) for side in self.box(self.auxiliaries))
        lower[:, self.series_columns] = upper[:, self.series_columns] = self.series_table
        return lower, upper

    def with_series(self, auxiliaries: Array) -> Array:
        """Auxiliaries (..., H+1, k) with the values of series in their places."""
        if not self.series:
            return auxiliaries
        auxiliaries = auxiliaries.copy()
        auxiliaries[..., self.series_columns] = self.series_table
        return auxiliaries

    def require_series(self) -> None:
        """InputError if a series is too short, or a factor made of series is not a finite number at some step."""
        if not self.series:
            return
        for series, reads_last in zip(self.series, self._last_is_read, strict=True):
            series.require(self.first_step + self.horizon, bool(reads_last))
        w = np.zeros((self.horizon + 1, self.layout.width))
        for part, count in ((self.layout.auxiliaries, self.horizon + 1), (self.layout.next_auxiliaries, self.horizon)):
            offset = self.horizon + 1 - count
            w[:count, part][:, self.series_columns] = self.series_table[offset:]
        for function in self.functions:
            for product in (product for piece in function.pieces() for product in piece.products):
                reads_next = product.factor.function.support()[self.layout.input_count :].any()
                with np.errstate(all="ignore"):
                    values = product.factor.evaluate(w[: self.horizon] if reads_next else w)
                if len(wrong := np.flatnonzero(~np.isfinite(values))):
                    raise InputError(
                        f"{self.source}: a factor made of series is no number at step {wrong[0] + 1}: "
                        f"{'a divisor is zero there' if product.factor.divides else 'it is too large'}"
                    )

    @cached_property
    def _last_is_read(self) -> NDArray[np.bool_]:
        """Of each series: whether something reads its value at t = H+1."""
        positions = np.arange(len(self.auxiliaries))[self.series_columns]
        of_steps = [self.reward, *(row.function for row in self.constraints)]
        of_last = [*([] if self.final_reward is None else [self.final_reward]), *(row.function for row in self.goal)]
        read = np.zeros(len(positions), dtype=bool)
        for functions, offset in ((of_steps, self.layout.next_auxiliaries), (of_last, self.layout.auxiliaries)):
            for function in functions:
                read |= function.support()[offset.start + positions]
        return read

    @cached_property
    def step_box(self) -> tuple[Array, Array]:
        """The declared bounds of w = (s, a, x, s', x')."""
        return self.box(self.input_variables + self.states + self.auxiliaries)

    @cached_property
    def discrete_states(self) -> NDArray[np.bool_]:
        return np.array([v.is_discrete for v in self.states], dtype=bool)

    @cached_property
    def boolean_states(self) -> NDArray[np.bool_]:
        return np.array([v.kind == "boolean" for v in self.states], dtype=bool)

    @cached_property
    def tolerances(self) -> Tolerances:
        """How much each constraint may be violated: relative to the size that its data have by the declared bounds, and
        by the initial values of states that have none."""
        initial = largest_size(self.initial_lower, self.initial_upper)
        states = largest_size(*self.box(self.states))
        states = np.where(np.isfinite(states), np.maximum(states, initial), initial)
        actions, auxiliaries = (largest_size(*self.box(part)) for part in (self.actions, self.auxiliaries))
        known = np.concatenate([states, actions, auxiliaries, states, auxiliaries])
        lower, upper = self.step_box
        lower, upper = (np.where(np.isfinite(side), side, sign * known) for side, sign in ((lower, -1.0), (upper, 1.0)))

        def of_rows(rows: Sequence[Constraint]) -> Array:
            ends = [np.abs(row.function.bounds(lower[None], upper[None])) for row in rows]
            return tolerance_for(np.array([max(low[0], high[0]) for low, high in ends], dtype=np.float64))

        return Tolerances(
            tolerance_for(states),
            tolerance_for(actions),
            tolerance_for(auxiliaries),
            of_rows(self.constraints),
            of_rows(self.initial_constraints),
            of_rows(self.goal),
        )

    @cached_property
    def tie_distances(self) -> Array:
        """τ of every state: a prediction p is rounded down to k only if p <= k + 1/2 − τ; zero for continuous ones."""
        lower, upper = self.box(self.states)
        return np.where(self.discrete_states & (upper - lower < WIDE), self.tie_distance, 0.0)

    def next_states(self, inputs: Array) -> Array:
        """s' for inputs (s, a, x) of shape (..., input_count).

        Continuous states take the prediction itself, integer states its nearest integer (halves go up), boolean
        states 1 if it is at least 1/2 and 0 otherwise.
        """
        return self.round_states(self.dynamics.forward(inputs))

    def round_states(self, predictions: Array) -> Array:
        """The rounding of `next_states`, alone."""
        if not self.discrete_states.any():
            return predictions
        floor = np.floor(predictions)
        nearest = floor + (predictions - floor >= 0.5)  # exact, unlike floor(p + 1/2) just below a half
        rounded = np.where(self.discrete_states, nearest, predictions)
        return np.where(self.boolean_states, np.clip(rounded, 0.0, 1.0), rounded)

    def fingerprint(self) -> str:
        """A hash of everything that a proof about steps may rest on: every field that is not in NOT_IN_FINGERPRINT."""
        return fingerprint(self, NOT_IN_FINGERPRINT)
