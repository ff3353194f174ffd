"""Parts of a plan as problems of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions

Array = NDArray[np.float64]


def subproblem(
    context: Context, first: int, length: int, start: Array | None = None, end: Array | None = None
) -> Context:
    """The search of `length` steps from step `first` on, from a given state (or the initial ones), to a given one.

    With no end given, the goal counts in the window that reaches it, and nothing does in others. So does the final
    reward.
    """
    problem = context.problem
    box = context.box.window(first, first + length)
    is_last = first + length == problem.horizon
    goal = problem.goal if is_last else ()
    if end is not None:
        goal = _reach(problem, end)
    if start is not None:
        box = box.starting_at(start)
    lower = problem.initial_lower if start is None else start
    upper = problem.initial_upper if start is None else start
    final_reward = problem.final_reward if is_last else None
    window = problem.part(
        first, length, lower, upper, keeps_initial_rows=first == 0, goal=goal, final_reward=final_reward
    )
    return context.part(window, box)


def _reach(problem: Problem, state: Array) -> tuple[Constraint, ...]:
    """Rows that say: the last state is this one."""
    width = problem.layout.width
    return tuple(
        Constraint(
            PiecewiseLinear.variable(i, width) - PiecewiseLinear.constant_of(float(value), width),
            equality=True,
            text=f"{variable.name} == {value:g}",
        )
        for i, (variable, value) in enumerate(zip(problem.states, state, strict=True))
    )


def splice(problem: Problem, plan: Trajectory, part: Trajectory, first: int) -> Trajectory:
    """The plan with a part of it exchanged, rolled out from there on."""
    last = first + part.horizon
    actions, auxiliaries = plan.actions.copy(), plan.auxiliaries.copy()
    actions[first:last], auxiliaries[first:last] = part.actions, part.auxiliaries[:-1]
    if last == plan.horizon:
        auxiliaries[last] = part.auxiliaries[-1]
    initial = part.states[0] if first == 0 else plan.states[0]
    return rollout(problem, initial, actions, auxiliaries)


def continued(plan: Trajectory, skipped: int, length: int) -> tuple[Array, Array]:
    """Actions and auxiliaries after the first steps of a plan, its last ones repeated up to a length."""
    actions = np.concatenate([plan.actions[skipped:], np.repeat(plan.actions[-1:], length, axis=0)])
    auxiliaries = np.concatenate([plan.auxiliaries[skipped:], np.repeat(plan.auxiliaries[-1:], length, axis=0)])
    return actions[:length], auxiliaries[: length + 1]


def joined(parts: list[Trajectory], horizon: int) -> Decisions:
    """The parts one after the other, the last action repeated up to the horizon."""
    actions = np.concatenate([part.actions for part in parts])
    auxiliaries = np.concatenate([*(part.auxiliaries[:-1] for part in parts), parts[-1].auxiliaries[-1:]])
    missing = horizon - len(actions)
    actions = np.concatenate([actions, np.repeat(actions[-1:], missing, axis=0)])
    auxiliaries = np.concatenate([auxiliaries, np.repeat(auxiliaries[-1:], missing, axis=0)])
    return Decisions(parts[0].states[None, 0], actions[None], auxiliaries[None])
