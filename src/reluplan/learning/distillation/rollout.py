"""Student against teacher over many steps, each fed its own predictions."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan.learning.distillation.names import Names
from reluplan.learning.distillation.region import Region
from reluplan.learning.distillation.report import TrajectoryDistance
from reluplan.learning.distillation.settings import DistilSettings
from reluplan.learning.distillation.teacher import Teacher
from reluplan.learning.settings import Predicts
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


def compare_rollouts(
    problem: Problem,
    teacher: Teacher,
    names: Names,
    predicts: Predicts,
    region: Region,
    rng: Generator,
    settings: DistilSettings,
) -> tuple[TrajectoryDistance, ...]:
    """How far the student, whose problem this is, is from the teacher after some numbers of steps, the problem's
    horizon at most.

    Both begin at the same points of the region, with the same actions, drawn anew at every step. States are kept within
    their declared bounds, as those of plans are. Known transitions are the problem's own; where they read learned next
    states, the student's, for both.
    """
    horizons = sorted({min(steps, problem.horizon) for steps in settings.horizons})
    variables = [variable.name for variable in problem.input_variables]
    read = [variables.index(name) for name in names.inputs]
    predicted = [variables.index(name) for name in names.outputs]
    ours = _draw(problem, region, read, settings.rollouts, rng)
    theirs = ours.copy()
    states = problem.layout.states
    found = []
    for step in range(1, max(horizons) + 1):
        taught = teacher(theirs[:, read]) + (theirs[:, predicted] if predicts == "delta" else 0.0)
        following = problem.dynamics.forward(theirs)
        following[:, predicted] = taught
        drawn = _draw(problem, region, read, settings.rollouts, rng)
        ours = _after(problem, problem.dynamics.forward(ours), drawn)
        theirs = _after(problem, following, drawn)
        if step in horizons:
            distance = np.abs(ours[:, states] - theirs[:, states])[:, predicted]
            rmse = np.sqrt(np.mean(distance**2, axis=0))
            worst = distance.max(axis=0)
            found.append(TrajectoryDistance(step, len(ours), tuple(rmse.tolist()), tuple(worst.tolist())))
    return tuple(found)


def _draw(problem: Problem, region: Region, read: list[int], count: int, rng: Generator) -> Array:
    """(s, a, x): inputs of the network from the region; others from their bounds, or zero where there are none."""
    lower, upper = problem.box(problem.input_variables)
    is_finite = np.isfinite(lower) & np.isfinite(upper)
    low = np.where(is_finite, lower, np.clip(0.0, lower, upper))
    high = np.where(is_finite, upper, low)
    values = rng.uniform(low, high, (count, len(lower)))
    discrete = np.array([variable.is_discrete for variable in problem.input_variables], dtype=bool)
    values = np.where(discrete, np.round(values), values)
    values[:, read] = region.draw(count, rng).values
    return values


def _after(problem: Problem, predictions: Array, drawn: Array) -> Array:
    """The next (s, a, x): predictions rounded and kept within bounds, actions and auxiliaries as drawn."""
    lower, upper = problem.box(problem.states)
    following = drawn.copy()
    following[:, problem.layout.states] = np.clip(problem.round_states(predictions), lower, upper)
    return following
