"""Potentials of one problem given to another that differs in one field, or edited: refused, or still sound."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.random import Generator

from fuzz.expression import Number, write
from fuzz.problem import Problem, Variable

Change = Callable[[Problem, Generator], Problem | None]


def drop_initial_rows(problem: Problem, rng: Generator) -> Problem | None:
    """Without its rows on the first state."""
    return replace(problem, initial=()) if problem.initial else None


def narrow_initial_rows(problem: Problem, rng: Generator) -> Problem | None:
    """With one more row on the first state, which cuts its interval in two."""
    for state in problem.states:
        low, high = state.start
        if high > low and not state.is_discrete:
            sign = str(rng.choice(["<=", ">="]))
            return replace(
                problem, initial=(*problem.initial, f"{state.name} {sign} {write(Number((low + high) / 2))}")
            )
    return None


def widen_initial(problem: Problem, rng: Generator) -> Problem | None:
    """With a wider interval of the first value of a state."""
    at = int(rng.integers(len(problem.states)))
    state = problem.states[at]
    low, high = state.start
    room = 1.0 if state.is_discrete else 0.5 * max(abs(low), abs(high), 1e-6)
    return replace(problem, states=_with(problem.states, at, replace(state, initial=(low - room, high + room))))


def other_state_bounds(problem: Problem, rng: Generator) -> Problem | None:
    """With wider bounds of a state."""
    at = int(rng.integers(len(problem.states)))
    state = problem.states[at]
    if state.kind == "boolean" or not math.isfinite(state.upper - state.lower):
        return None
    room = math.ceil(0.5 * (state.upper - state.lower)) if state.is_discrete else 0.5 * (state.upper - state.lower)
    wider = replace(state, lower=state.lower - room, upper=state.upper + room)
    return replace(problem, states=_with(problem.states, at, wider))


def other_action_bounds(problem: Problem, rng: Generator) -> Problem | None:
    """With wider bounds of an action."""
    at = int(rng.integers(len(problem.actions)))
    action = problem.actions[at]
    if action.kind == "boolean":
        return None
    return replace(problem, actions=_with(problem.actions, at, replace(action, upper=2.0 * action.upper + 1.0)))


def other_kind(problem: Problem, rng: Generator) -> Problem | None:
    """With a discrete action made continuous."""
    for at, action in enumerate(problem.actions):
        if action.is_discrete:
            return replace(problem, actions=_with(problem.actions, at, replace(action, kind="continuous")))
    return None


def other_reward(problem: Problem, rng: Generator) -> Problem | None:
    """With a constant added to the reward."""
    return replace(problem, reward=f"{problem.reward} + {write(Number(float(rng.uniform(0.5, 3.0))))}")


def other_final_reward(problem: Problem, rng: Generator) -> Problem | None:
    """With a reward of the final state that it did not have, or none."""
    return replace(problem, final_reward=problem.states[0].name if problem.final_reward is None else None)


def other_discount(problem: Problem, rng: Generator) -> Problem | None:
    """With another discount."""
    return replace(problem, discount=0.5 * problem.discount)


def drop_goal(problem: Problem, rng: Generator) -> Problem | None:
    """Without a goal row."""
    return replace(problem, goal=problem.goal[:-1]) if problem.goal else None


def drop_constraint(problem: Problem, rng: Generator) -> Problem | None:
    """Without its last constraint."""
    return replace(problem, constraints=problem.constraints[:-1]) if problem.constraints else None


def other_weight(problem: Problem, rng: Generator) -> Problem | None:
    """With one bias of the network's last layer changed."""
    if problem.network is None:
        return None
    matrix, bias = problem.network.layers[-1]
    moved = bias.copy()
    moved[int(rng.integers(len(bias)))] += float(np.abs(bias).max() or 1.0)
    return replace(problem, network=replace(problem.network, layers=(*problem.network.layers[:-1], (matrix, moved))))


def other_transition(problem: Problem, rng: Generator) -> Problem | None:
    """With a constant added to a known transition."""
    for name, text in problem.transitions.items():
        return replace(problem, transitions={**problem.transitions, name: f"{text} + 1.0"})
    return None


def other_prediction(problem: Problem, rng: Generator) -> Problem | None:
    """With the network's output read as a difference, or no longer so."""
    if problem.network is None:
        return None
    return replace(problem, network=replace(problem.network, delta=not problem.network.delta))


def longer(problem: Problem, rng: Generator) -> Problem | None:
    """With one more step."""
    return replace(problem, horizon=problem.horizon + 1)


def other_series(problem: Problem, rng: Generator) -> Problem | None:
    """With one value of a series larger; bounds that are series stay as wide as its values."""
    if not problem.series:
        return None
    at = int(rng.integers(len(problem.series)))
    series = problem.series[at]
    step = int(rng.integers(min(len(series.values), problem.horizon)))
    values = (*series.values[:step], series.values[step] + 1.0, *series.values[step + 1 :])
    changed = replace(series, values=values)
    return problem.with_series((*problem.series[:at], changed, *problem.series[at + 1 :]))


def other_history(problem: Problem, rng: Generator) -> Problem | None:
    """With another past of a state."""
    for at, state in enumerate(problem.states):
        if state.history:
            history = (state.history[0] + 1.0, *state.history[1:])
            return replace(problem, states=_with(problem.states, at, replace(state, history=history)))
    return None


def other_soft_row(problem: Problem, rng: Generator) -> Problem | None:
    """With soft rows that cost half."""
    return replace(problem, soft=tuple((row, 0.5 * weight) for row, weight in problem.soft)) if problem.soft else None


CHANGES: tuple[Change, ...] = (
    drop_initial_rows, narrow_initial_rows, drop_initial_rows, narrow_initial_rows, widen_initial, other_state_bounds,
    other_action_bounds, other_kind, other_reward, drop_goal, drop_constraint, other_weight, other_transition,
    other_prediction, longer, other_final_reward, other_discount,
)  # fmt: skip


ADDED_CHANGES: tuple[Change, ...] = (other_series, other_history, other_soft_row)


def random_change(problem: Problem, rng: Generator) -> tuple[str, Problem, Problem] | None:
    """What differs, the problem whose potentials are computed, and the problem that is given them."""
    added = problem.series or problem.soft or any(v.history for v in problem.states)
    changes = CHANGES + ADDED_CHANGES * 3 if added else CHANGES
    for at in rng.permutation(len(changes)):
        changed = changes[at](problem, rng)
        if changed is not None:
            pair = (problem, changed) if rng.random() < 0.5 else (changed, problem)
            return changes[at].__name__, *pair
    return None


def edit_file(path: Path, rng: Generator) -> None:
    """Lower the potentials in a file, as somebody might who wants a better bound."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for item in content["potentials"]:
        amount = float(rng.uniform(0.1, 2.0)) * (1.0 + abs(float(item["constant"])))
        if item["units"] and rng.random() < 0.7:
            item["off"] = [value - amount for value in item["off"]]
            item["on"] = [[value - amount for value in values] for values in item["on"]]
        else:
            item["constant"] -= amount
    path.write_text(json.dumps(content), encoding="utf-8")


def _with(variables: tuple[Variable, ...], at: int, variable: Variable) -> tuple[Variable, ...]:
    return (*variables[:at], variable, *variables[at + 1 :])
