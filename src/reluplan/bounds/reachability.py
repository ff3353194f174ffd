"""Forward reachability: bounds of every state, action and unit at every step of the horizon."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import AllPlanBounds, BetterPlanBounds, ForwardBounds, HorizonBounds, tightened
from reluplan.bounds.interval import uncrossed
from reluplan.bounds.lp import StepBounds, bound_step, constraint_lp, tighten_box
from reluplan.bounds.prediction import predicted_box
from reluplan.bounds.unrolled.windows import window_bounds
from reluplan.errors import InfeasibleError, InputError, NoBetterPlanError, NoPlanExistsError, OutOfTimeError
from reluplan.problem.expression import Constraint
from reluplan.problem.problem import Problem, StepLayout

Array = NDArray[np.float64]

LP_PARTS = 4.0
"""How many parts of the time that is left a step may take for its LPs: early steps are worth more, since all others
follow from them."""
LATE_WORK = 3e8
"""Operations after the last moment, where states without bounds leave nothing else to fall back on."""


def reachable_bounds(problem: Problem, deadline: float = np.inf, last_moment: float = np.inf) -> AllPlanBounds:
    """`forward_bounds`, and what the goal leaves of the last box. Raises NoPlanExistsError if nothing is left."""
    return meet_goal(problem, forward_bounds(problem, deadline, last_moment), deadline)


def forward_bounds(problem: Problem, deadline: float = np.inf, last_moment: float = np.inf) -> ForwardBounds:
    """S_1 = I; S_{t+1} = box of F over S_t and C, intersected with the state bounds; and every unit's bounds.

    After the deadline (of clock.now) there are no LPs; after the last moment no back-substitution either, only
    intervals, from the states' own bounds: valid, loose, and the same for all steps that are left. Only if these are
    infinite does it go on step by step, and raise OutOfTimeError if that takes long too. The network is stationary,
    so equal boxes share one computation. Before the deadline, what back-substitution through many steps gains on that
    comes last (`window_bounds`), where it gains something. Raises NoPlanExistsError if nothing is left.
    """
    try:
        bounds = ForwardBounds(**_forward(problem, deadline, last_moment, None), because="forward reachability")
        return window_bounds(problem, bounds, deadline)
    except InfeasibleError as error:
        raise no_plan_exists(problem, error) from None


def meet_goal(problem: Problem, bounds: AllPlanBounds, deadline: float = np.inf) -> AllPlanBounds:
    """The bounds with the last state's box, and its auxiliaries', tightened by G."""
    try:
        return tightened(bounds, _goal_box(problem, bounds, deadline))
    except InfeasibleError as error:
        raise no_plan_exists(problem, error) from None


def reachable_within(
    problem: Problem, within: BetterPlanBounds, deadline: float = np.inf, last_moment: float = np.inf
) -> BetterPlanBounds:
    """The same within boxes of better plans, of which there may be none: raises NoBetterPlanError then."""
    try:
        arrays = _forward(problem, deadline, last_moment, within)
        forward = BetterPlanBounds(**arrays, because="forward reachability within boxes of better plans")
        return tightened(forward, _goal_box(problem, forward, deadline))
    except InfeasibleError as error:
        raise NoBetterPlanError(f"{problem.source}: no plan is left within the given boxes: {error}") from None


def no_plan_exists(problem: Problem, error: InfeasibleError) -> NoPlanExistsError:
    """What an empty box of ALL plans means."""
    return NoPlanExistsError(f"{problem.source}: no plan exists: {error}", problem)


def _forward(
    problem: Problem, deadline: float, last_moment: float, within: BetterPlanBounds | None
) -> dict[str, Array]:
    """The arrays of `HorizonBounds`; raises InfeasibleError if nothing is left."""
    constraints = input_constraints(problem)
    cache: dict[bytes, StepBounds] = {}
    steps: list[StepBounds] = []
    lower, upper = _input_box(problem, 0, problem.initial_lower, problem.initial_upper)
    for t in range(problem.horizon):
        late = clock.now() > last_moment
        is_rest_known = late and t > 0 and bool(np.isfinite(known := _known_box(problem, t, within)).all())
        if is_rest_known:
            lower, upper = _input_box(problem, t, *known)
        elif late and clock.now() > last_moment + clock.expected(LATE_WORK):
            raise OutOfTimeError(f"the time limit ended after the bounds of {t} of {problem.horizon} steps")
        if within is not None:
            lower, upper = _intersection(problem, t, lower, upper, within)
        rows = constraints + (list(problem.initial_constraints) if t == 0 else [])
        key = lower.tobytes() + upper.tobytes() + bytes([t == 0])
        if key not in cache:
            cache[key] = _bound_one(
                problem, t, lower, upper, rows, _lps_until(deadline, problem.horizon - t), last_moment
            )
        step = cache[key]
        _check_finite(problem, t, step)
        if is_rest_known and within is None and not problem.series:  # all steps that are left begin in the same box
            steps += [step] * (problem.horizon - t)
            lower, upper = _input_box(problem, problem.horizon, *_next_box(problem, t, step))
            break
        steps.append(step)
        lower, upper = _input_box(problem, t + 1, *_next_box(problem, t, step))
    if within is not None:
        lower, upper = _intersection(problem, problem.horizon, lower, upper, within)
    return _collect(problem.layout, steps, lower, upper)


def _lps_until(deadline: float, steps: int) -> float:
    """When the LPs of a step end: a few times its part of the time that is left, so that every step gets some."""
    now = clock.now()
    return min(deadline, now + LP_PARTS * (deadline - now) / steps) if np.isfinite(deadline) else deadline


def input_constraints(problem: Problem) -> list[Constraint]:
    """The rows of C that read no next state; leaving the others out keeps the bounds valid."""
    count = problem.layout.input_count
    return [c for c in problem.constraints if not c.function.support()[count:].any()]


def _input_box(problem: Problem, t: int, state_lower: Array, state_upper: Array) -> tuple[Array, Array]:
    (action_lower, action_upper), (lower, upper) = problem.box(problem.actions), problem.auxiliary_boxes
    return np.concatenate([state_lower, action_lower, lower[t]]), np.concatenate([state_upper, action_upper, upper[t]])


def _known_box(problem: Problem, t: int, within: BetterPlanBounds | None) -> tuple[Array, Array]:
    """What is known of the state at step t without any computation."""
    lower, upper = problem.box(problem.states)
    if within is None:
        return lower, upper
    return np.maximum(lower, within.state_lower[t]), np.minimum(upper, within.state_upper[t])


def _intersection(
    problem: Problem, t: int, lower: Array, upper: Array, within: BetterPlanBounds
) -> tuple[Array, Array]:
    """The part of a box of (s, a, x) at step t that lies within known bounds; after the last step without actions."""
    lower, upper, layout = lower.copy(), upper.copy(), problem.layout
    parts = [(layout.states, within.state_lower, within.state_upper)]
    parts.append((layout.auxiliaries, within.auxiliary_lower, within.auxiliary_upper))
    if t < problem.horizon:
        parts.append((layout.actions, within.action_lower, within.action_upper))
    for part, low, high in parts:
        lower[part], upper[part] = np.maximum(lower[part], low[t]), np.minimum(upper[part], high[t])
    return uncrossed(lower, upper)


def _bound_one(
    problem: Problem, t: int, lower: Array, upper: Array, rows: list[Constraint], deadline: float, last_moment: float
) -> StepBounds:
    discrete = np.array([v.is_discrete for v in problem.input_variables], dtype=bool)
    try:
        return bound_step(problem.dynamics, lower, upper, rows, problem.layout.width, discrete, deadline, last_moment)
    except InfeasibleError as error:
        raise InfeasibleError(
            f"at step {t + 1} no state and action within the proven bounds satisfies the constraints ({error})"
        ) from None


def _next_box(problem: Problem, t: int, step: StepBounds) -> tuple[Array, Array]:
    """The box of s', or a proof that there is none."""
    low, high = predicted_box(problem, *_snap_outward(step.output_lower, step.output_upper))
    for variable, a, b in zip(problem.states, low, high, strict=True):
        if a > b + 1e-6 * max(1.0, abs(b)):
            raise InfeasibleError(
                f"after step {t + 1} every reachable value of state '{variable.name}' lies outside its bounds "
                f"[{variable.lower:g}, {variable.upper:g}]"
            )
    return np.minimum(low, high), np.maximum(low, high)


def _snap_outward(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Round a box outward to a grid of about 1e-5 of its width, so that converging boxes become equal."""
    with np.errstate(invalid="ignore", divide="ignore"):
        width = upper - lower
        grid = 2.0 ** np.floor(np.log2(width * 1e-5))
        snapped = np.isfinite(grid) & (grid > 0.0)
        low, high = np.floor(lower / grid) * grid, np.ceil(upper / grid) * grid
    return np.where(snapped, low, lower), np.where(snapped, high, upper)


def _goal_box(problem: Problem, bounds: HorizonBounds, deadline: float) -> dict[str, Array]:
    """The states' and auxiliaries' arrays, with the box of the last ones tightened by the goal."""
    if not problem.goal:
        return {}
    layout = problem.layout
    lower, upper = _input_box(problem, problem.horizon, bounds.state_lower[-1], bounds.state_upper[-1])
    lower[layout.auxiliaries] = bounds.auxiliary_lower[-1]
    upper[layout.auxiliaries] = bounds.auxiliary_upper[-1]
    lower, upper = _tighten_by_goal(problem, lower, upper, deadline)
    last = {
        "state_lower": lower[layout.states],
        "state_upper": upper[layout.states],
        "auxiliary_lower": lower[layout.auxiliaries],
        "auxiliary_upper": upper[layout.auxiliaries],
    }
    return {name: np.vstack([getattr(bounds, name)[:-1], value]) for name, value in last.items()}


def _tighten_by_goal(problem: Problem, lower: Array, upper: Array, deadline: float) -> tuple[Array, Array]:
    discrete = np.array([v.is_discrete for v in problem.input_variables], dtype=bool)
    goal = list(problem.goal)
    try:
        lp = constraint_lp(lower, upper, goal, problem.layout.width)
        return tighten_box(lp, lower, upper, goal, discrete, deadline)
    except InfeasibleError:
        raise InfeasibleError(
            f"no state that is reachable within {problem.horizon} steps satisfies the goal "
            f"({'; '.join(dict.fromkeys(c.text for c in goal))})"
        ) from None


def _check_finite(problem: Problem, t: int, step: StepBounds) -> None:
    """Every unit that may switch, and every prediction that is rounded, needs finite bounds; if not, say why."""
    unstable = (step.unit_lower < 0.0) & (step.unit_upper > 0.0)
    ends = [step.unit_lower[unstable], step.unit_upper[unstable]]
    ends += [step.output_lower[problem.boolean_states], step.output_upper[problem.boolean_states]]
    if np.isfinite(np.concatenate(ends)).all():
        return
    endless = np.isinf(step.input_lower) | np.isinf(step.input_upper)
    names = [repr(v.name) for v, e in zip(problem.input_variables, endless, strict=True) if e]
    reason = f"{', '.join(names)} can take any value there" if names else "the values grow beyond all measure"
    raise InputError(
        f"{problem.source}: the network has units or predictions without finite bounds at step {t + 1}, because "
        f"{reason}; give bounds = [lower, upper] to {', '.join(names) or 'the states'}"
    )


def _collect(layout: StepLayout, steps: list[StepBounds], last_lower: Array, last_upper: Array) -> dict[str, Array]:
    """The arrays of `HorizonBounds` by their names; last: the box of the last state and its auxiliaries."""
    lower = np.array([*(step.input_lower for step in steps), last_lower])
    upper = np.array([*(step.input_upper for step in steps), last_upper])
    return {
        "state_lower": lower[:, layout.states],
        "state_upper": upper[:, layout.states],
        "action_lower": lower[:-1, layout.actions],
        "action_upper": upper[:-1, layout.actions],
        "auxiliary_lower": lower[:, layout.auxiliaries],
        "auxiliary_upper": upper[:, layout.auxiliaries],
        "unit_lower": np.array([step.unit_lower for step in steps]),
        "unit_upper": np.array([step.unit_upper for step in steps]),
        "output_lower": np.array([step.output_lower for step in steps]),
        "output_upper": np.array([step.output_upper for step in steps]),
    }
