"""Which units the bounds leave undecided: over the declared box, and step by step from the first state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.lp import StepBounds, bound_step
from reluplan.bounds.reachability import forward_bounds, input_constraints, meet_goal
from reluplan.inspection.settings import InspectionSettings
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.expression import Constraint
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class UndecidedUnits:
    """How many units are proven on, proven off, or neither; without_bounds: those of the latter that have no finite
    bounds. seen: units that were on at some of the sampled points and off at others, so no bounds can decide them;
    None without samples."""

    units: int
    on: int
    off: int
    undecided: int
    without_bounds: int
    seen: int | None

    @property
    def share(self) -> float:
        """Of all units."""
        return self.undecided / max(1, self.units)


@dataclass(frozen=True, eq=False)
class BoxBounds:
    """Bounds of every unit over a box, the box as the constraints leave it, and points of it that satisfy them, (N,
    inputs), if it is finite and such points were found."""

    lower: Array
    upper: Array
    unit_lower: Array
    unit_upper: Array
    points: Array | None

    @property
    def on(self) -> Mask:
        on: Mask = self.unit_lower >= 0.0
        return on

    @property
    def off(self) -> Mask:
        off: Mask = self.unit_upper <= 0.0
        return off


def bound_problem_box(problem: Problem, deadline: float, settings: InspectionSettings) -> BoxBounds:
    """Over the declared bounds of all variables and the constraints that read no next state, as `plan` bounds a step.

    LPs until the deadline; back-substitution unless it would take longer. Sides may be infinite. Raises InfeasibleError
    if no state and action satisfies the constraints.
    """
    rows = input_constraints(problem)
    lower, upper = _without_idle_sides(problem, rows)
    discrete = np.array([variable.is_discrete for variable in problem.input_variables], dtype=bool)
    last = last_moment(problem.dynamics, deadline, settings)
    with np.errstate(invalid="ignore"):
        found = bound_step(problem.dynamics, lower, upper, rows, problem.layout.width, discrete, deadline, last)
    return _box_bounds(problem.dynamics, found, rows, settings)


def _without_idle_sides(problem: Problem, rows: Sequence[Constraint]) -> tuple[Array, Array]:
    """The declared box, with a point in place of infinite sides of variables that no unit and no row reads: they change
    no unit and no derivative, but would keep back-substitution and samples from a finite box."""
    lower, upper = problem.box(problem.input_variables)
    count = len(lower)
    read = np.zeros(count, dtype=bool)
    for layer in problem.dynamics.hidden:
        read |= (layer.weights[:, :count] != 0.0).any(axis=0)
    for row in rows:
        read |= row.function.support()[:count]
    idle = ~read & ~(np.isfinite(lower) & np.isfinite(upper))
    inside = np.clip(0.0, lower, upper)
    return np.where(idle, inside, lower), np.where(idle, inside, upper)


def bound_network_box(network: ReluNetwork, lower: Array, upper: Array, settings: InspectionSettings) -> BoxBounds:
    """Over a box alone; sides may be infinite."""
    deadline = clock.now() + settings.box_share * settings.seconds
    continuous = np.zeros(network.input_count, dtype=bool)
    last = last_moment(network, deadline, settings)
    with np.errstate(invalid="ignore"):
        found = bound_step(network, lower, upper, [], network.input_count, continuous, deadline, last)
    return _box_bounds(network, found, [], settings)


def _box_bounds(
    network: ReluNetwork, found: StepBounds, rows: Sequence[Constraint], settings: InspectionSettings
) -> BoxBounds:
    """With samples of the box that satisfy the rows, where there are any."""
    low = found.input_lower
    high = found.input_upper
    points = None
    if np.isfinite(low).all() and np.isfinite(high).all():
        affordable = settings.sample_operations / max(1.0, network.operations)
        count = max(1, int(min(settings.samples, affordable)))
        points = np.random.default_rng(settings.seed).uniform(low, high, (count, len(low)))
        points = points[_satisfied(points, rows)]
    return BoxBounds(
        low, high, found.unit_lower, found.unit_upper, points if points is not None and len(points) else None
    )


def _satisfied(points: Array, rows: Sequence[Constraint]) -> Mask:
    """Which points (N, inputs) satisfy rows that read no next state."""
    kept = np.ones(len(points), dtype=bool)
    for row in rows:
        w = np.zeros((len(points), row.function.width))
        w[:, : points.shape[1]] = points
        value = row.function.evaluate(w)
        kept &= (np.abs(value) if row.equality else value) <= 0.0
    return kept


def last_moment(network: ReluNetwork, deadline: float, settings: InspectionSettings) -> float:
    """When to do without back-substitution, which looks at the clock only between layers: the deadline, or now if it
    could not keep it. For layers of u units that read w values it takes Σ_l 4 u_l Σ_{k<l} u_k w_k operations."""
    operations = 0.0
    behind = 0.0
    for layer in network.hidden:
        operations += 4.0 * layer.unit_count * behind
        behind += float(layer.weights.size)
    is_affordable = clock.now() + operations / settings.operations_per_second <= deadline
    return deadline if is_affordable else clock.now()


def count_undecided(network: ReluNetwork, box: BoxBounds) -> UndecidedUnits:
    """The units of a box."""
    undecided = ~box.on & ~box.off
    endless = undecided & ~(np.isfinite(box.unit_lower) & np.isfinite(box.unit_upper))
    return UndecidedUnits(
        network.relu_count,
        int(box.on.sum()),
        int((box.off & ~box.on).sum()),
        int(undecided.sum()),
        int(endless.sum()),
        None if box.points is None else int(seen_to_switch(network, box.points).sum()),
    )


def seen_to_switch(network: ReluNetwork, points: Array) -> Mask:
    """Which units are on at some of the points and off at others, (relu_count,)."""
    pre = network.preactivations(points)
    return np.asarray((pre > 0.0).any(axis=0) & (pre < 0.0).any(axis=0), dtype=bool)


@dataclass(frozen=True)
class UndecidedSteps:
    """Undecided units of each of the first steps, from the first state on. steps: how many steps have bounds.

    total: over the whole horizon, steps without bounds taken to be like the last. are_final: with all LPs that `plan`
    begins with; else it will find fewer.
    """

    each: tuple[int, ...]
    steps: int
    total: int
    different_boxes: int
    are_final: bool


def bound_steps(problem: Problem, deadline: float, settings: InspectionSettings) -> HorizonBounds:
    """Bounds of the first steps, as many as can be held, with what the goal leaves of the last if these are all steps.

    Raises NoPlanExistsError if that is nothing, InputError if a unit has no finite bounds, OutOfTimeError if states
    without declared bounds leave no quick way.
    """
    held = settings.step_numbers // max(1, problem.dynamics.relu_count)
    count = max(1, min(problem.horizon, settings.most_steps, held))
    last = last_moment(problem.dynamics, deadline, settings)
    bounds = forward_bounds(problem.with_horizon(count), deadline, last)
    return meet_goal(problem, bounds, deadline) if count == problem.horizon else bounds


def undecided_steps(
    problem: Problem, bounds: HorizonBounds, is_late: bool, settings: InspectionSettings
) -> UndecidedSteps:
    """Count step by step; is_late: whether the deadline of the bounds has passed."""
    each = bounds.unstable.sum(axis=1)
    boxes = np.hstack([bounds.state_lower[:-1], bounds.state_upper[:-1]])
    total = int(each.sum()) + int(each[-1]) * (problem.horizon - len(each))
    first = tuple(each[: settings.first_steps].tolist())
    return UndecidedSteps(first, len(each), total, len(np.unique(boxes, axis=0)), not is_late)
