"""Beam search: from the first state on, the most promising of all ways so far are followed a step further.

    1  from each state of the beam try several actions: all of them if they are few, else random ones
    2  G' = G + γ^t (R − penalty · violation)  of each way
    3  keep the best half of the beam, and fill the other half with the best way into each cell of the states reached:
       a way that is behind now may be ahead later, and the best ones alone soon lead through the same states
    4  the best way over the whole horizon, F and G counted in, is a plan

Nothing here needs a slope, so that discrete actions are as good as others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.local_search import local_search
from reluplan.search.single_steps import final_value, one_step
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def beam_search(context: Context) -> Paused[None]:
    """One beam of random width, and local search from the plan that it ends with."""
    plan = yield from beam_plan(context)
    if plan is not None:
        yield from local_search(context, context.offer(plan, "beam search"))


@dataclass(frozen=True, eq=False)
class _Beam:
    """States (B, n) and what the ways to them have earned (B,)."""

    states: Array
    earned: Array


@dataclass(frozen=True, eq=False)
class _Move:
    """How a beam was reached: from which entry of the one before (B,), by which action (B, m)."""

    parents: Index
    actions: Array


def beam_plan(context: Context) -> Paused[Decisions | None]:
    """Steps 1 to 4; None where the problem has auxiliaries, or even a narrow beam would take too long."""
    problem = context.problem
    settings = context.settings.beam_search
    width = _width(context)
    if problem.auxiliaries or width < settings.narrow:
        return None
    initial = context.box.random(context.rng, settings.first_states).initial
    initial = np.unique(initial, axis=0)
    beam, moves = _Beam(initial, np.zeros(len(initial))), []
    for t in range(problem.horizon):
        beam, move = yield from _extended(context, beam, t, width)
        moves.append(move)
    at = int(np.argmax(beam.earned + problem.discount_factors[-1] * final_value(context, beam.states)))
    actions = np.empty((problem.horizon, len(problem.actions)))
    for t in range(problem.horizon - 1, -1, -1):
        actions[t], at = moves[t].actions[at], int(moves[t].parents[at])
    return context.box.into(Decisions(initial[at][None], actions[None], np.zeros((1, problem.horizon + 1, 0))))


def _width(context: Context) -> int:
    """Between a narrow and a wide beam, on a logarithmic scale, as far as it can be afforded."""
    settings = context.settings.beam_search
    drawn = settings.narrow * (settings.wide / settings.narrow) ** context.rng.random()
    steps = context.operations(settings.actions) - context.operations(0)
    return int(min(drawn, (settings.operations - context.operations(0)) / steps))


def _extended(context: Context, beam: _Beam, t: int, width: int) -> Paused[tuple[_Beam, _Move]]:
    """Steps 1 to 3."""
    tried = _tried_actions(context, t, len(beam.states))
    parents = np.repeat(np.arange(len(beam.states)), tried.shape[1])
    actions = tried.reshape(len(parents), -1)
    gains, states = yield from one_step(context, beam.states[parents], actions)
    with np.errstate(over="ignore", invalid="ignore"):  # where plans explode
        earned = beam.earned[parents] + context.problem.discount_factors[t] * gains
    kept = _selected(states, earned, width)
    return _Beam(states[kept], earned[kept]), _Move(parents[kept], actions[kept])


def _tried_actions(context: Context, t: int, count: int) -> Array:
    """For each of `count` states, shape (count, tried, m): all actions if they are few and discrete, else random ones,
    at the ends of their boxes, in the middle or between, and that of the best plan."""
    settings, rng, box = context.settings.beam_search, context.rng, context.box
    low, high = box.lower.actions[0, t], box.upper.actions[0, t]
    if len(low) and box.discrete_actions.all() and np.prod(high - low + 1.0) <= settings.most_actions:
        axes = [np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)]
        every = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return np.broadcast_to(every, (count, *every.shape))
    shape = count, settings.actions, len(low)
    shares = np.where(rng.random(shape) < settings.between, rng.random(shape), rng.integers(0, 3, shape) / 2.0)
    between = low + shares * (high - low)
    tried: Array = np.where(box.discrete_actions, np.round(between), between)
    if context.best is not None:
        tried[:, 0] = np.clip(context.best.actions[t], low, high)
    return tried


def _selected(states: Array, earned: Array, width: int) -> Index:
    """Step 3: which entries are kept, best first."""
    order = np.argsort(-earned, kind="stable")
    if len(order) <= width:
        return order
    best, others = order[: width // 2], order[width // 2 :]
    low, high = states[order].min(axis=0), states[order].max(axis=0)
    per_axis = max(2.0, width ** (1.0 / max(1, states.shape[1])))
    with np.errstate(invalid="ignore", over="ignore"):
        cells = np.floor(per_axis * (states - low) / np.maximum(high - low, 1e-9))
    _, first = np.unique(np.nan_to_num(cells[others]), axis=0, return_index=True)
    return np.concatenate([best, others[np.sort(first)][: width - len(best)]])
