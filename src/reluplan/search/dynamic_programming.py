"""Dynamic programming on a grid of states, for problems with few of them: rough, but it sees every way round."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Variable
from reluplan.search import starts
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.local_search import local_search
from reluplan.search.single_steps import final_value, one_step
from reluplan.search.state_grid import Grid
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]


def dynamic_programming(context: Context) -> Paused[None]:
    """Local search from the plan that the grid leads to, where there is one."""
    plan = yield from grid_plan(context)
    if plan is not None:
        yield from local_search(context, context.offer(plan, "dynamic programming"))


def grid_plan(context: Context) -> Paused[Decisions | None]:
    """The plan of a rollout that looks one step ahead and uses the grid's value function from there on.

    V_{H+1} = F − penalty · violation of G;  V_t(s) = max_a [ R(s, a, s') − penalty · violation + γ V_{t+1}(s') ] with
    s' interpolated. None if the problem has too many states, or auxiliaries.
    """
    problem = context.problem
    settings = context.settings.dynamic_programming
    if len(problem.states) > settings.most_states or problem.auxiliaries:
        return None
    grid = _state_grid(context)
    levels = _action_levels(context)
    if grid.count * len(levels) > 2 * settings.pairs:
        return None
    values = yield from _backward(context, grid, levels)
    return (yield from _forward(context, grid, values))


def _state_grid(context: Context) -> Grid:
    """Levels over the states that sampled plans reach, inside the declared bounds."""
    settings = context.settings.dynamic_programming
    sampled = settings.sampled_plans
    batch = Decisions.join([starts.constants(context, sampled), starts.smooth(context, sampled)])
    rollout, score = context.evaluate(batch)
    finite = np.isfinite(score.reward)
    reached = rollout.states[finite] if finite.any() else batch.initial[:, None]
    lower, upper = context.problem.box(context.problem.states)
    low = np.maximum(lower, reached.min(axis=(0, 1)))
    high = np.minimum(upper, reached.max(axis=(0, 1)))
    per_axis = max(3, int(settings.nodes ** (1.0 / len(lower))))
    return Grid(
        tuple(
            _levels(variable, a, max(a, b), per_axis)
            for variable, a, b in zip(context.problem.states, low, high, strict=True)
        )
    )


def _levels(variable: Variable, low: float, high: float, count: int) -> Array:
    """Evenly spaced values of a variable in a range; integers for a discrete one, all if they are not too many."""
    if not variable.is_discrete:
        return np.linspace(low, high, count) if high > low else np.array([low])
    step = max(1.0, np.ceil((np.floor(high) - np.ceil(low) + 1.0) / count))
    return np.arange(np.ceil(low), np.floor(high) + 1.0, step)


def _action_levels(context: Context) -> Array:
    """All combinations of a few levels of each action, shape (count, m)."""
    settings = context.settings.dynamic_programming
    low = context.box.lower.actions[0].min(axis=0)
    high = context.box.upper.actions[0].max(axis=0)
    room = settings.pairs / settings.nodes
    count = max(2, min(settings.most_levels, round(room ** (1.0 / max(1, len(low))))))
    axes = [_levels(v, a, b, count) for v, a, b in zip(context.problem.actions, low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _backward(context: Context, grid: Grid, levels: Array) -> Paused[list[Array]]:
    """V_{H+1}, V_H, ... on the nodes; the list ends early once V changes by a constant only."""
    nodes = grid.nodes
    discount = context.problem.discount
    converged = context.settings.dynamic_programming.converged
    states, actions = np.repeat(nodes, len(levels), axis=0), np.tile(levels, (len(nodes), 1))
    gains, following = yield from one_step(context, states, actions)
    weights = grid.weights(following)
    values = [final_value(context, nodes)]
    for _ in range(context.problem.horizon):
        yield from context.pause()
        values.append((gains + discount * (weights @ values[-1])).reshape(len(nodes), -1).max(axis=1))
        change = values[-1] - values[-2]
        if np.ptp(change) <= converged * max(1.0, float(np.abs(change).max())):
            break
    return values


def _forward(context: Context, grid: Grid, values: list[Array]) -> Paused[Decisions]:
    """Roll out from the initial state of highest value, trying many actions at each step."""
    horizon = context.problem.horizon
    initial = context.box.random(context.rng, context.settings.dynamic_programming.sampled_plans).initial
    first = grid.weights(initial) @ values[min(horizon, len(values) - 1)]
    state = initial[int(np.argmax(first))]
    actions = np.empty((horizon, len(context.problem.actions)))
    for t in range(horizon):
        value = values[min(horizon - t - 1, len(values) - 1)]
        actions[t], state = yield from _best_action(context, state, t, grid, value)
    return context.box.into(Decisions(initial[np.argmax(first)][None], actions[None], np.zeros((1, horizon + 1, 0))))


def _best_action(context: Context, state: Array, t: int, grid: Grid, value: Array) -> Paused[tuple[Array, Array]]:
    """The best of random actions, then of random actions nearer to it, and nearer still."""
    settings = context.settings.dynamic_programming
    count = settings.tried_actions
    low, high = context.box.lower.actions[0, t], context.box.upper.actions[0, t]
    best, best_value, best_state = (low + high) / 2.0, -np.inf, state
    for size in settings.refinements:
        reach = size * (high - low)
        tried = best + reach * np.clip(context.rng.uniform(-1.2, 1.2, (count, len(low))), -1.0, 1.0)
        tried = np.clip(np.where(context.box.discrete_actions, np.round(tried), tried), low, high)
        gains, following = yield from one_step(context, np.tile(state, (count, 1)), tried)
        totals = gains + context.problem.discount * (grid.weights(following) @ value)
        top = int(np.argmax(totals))
        if totals[top] > best_value:
            best, best_value, best_state = tried[top], totals[top], following[top]
    return best, best_state
