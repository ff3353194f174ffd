"""Simulated windows of a subproblem: cheap lower estimates of what its MILP will find, and so cuts of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.span import Span
from reluplan.problem.rollout import Trajectory, final_rewards
from reluplan.problem.steps import evaluate_steps
from reluplan.proofs.lagrangian.settings import BundleSettings
from reluplan.proofs.lagrangian.subproblem import WindowSet, WindowSubproblem, window_rewards

Array = NDArray[np.float64]

DEFAULT = BundleSettings()


def plan_window(span: Span, trajectory: Trajectory) -> Trajectory:
    """A plan's own steps in the first window of a span."""
    return trajectory.part(span.first, span.first + span.length)


def plan_windows(subproblem: WindowSubproblem, trajectory: Trajectory) -> WindowSet:
    """A plan's own windows of a subproblem; of many, the first, the middle and the last."""
    span = subproblem.span
    which = np.unique([0, span.count // 2, span.count - 1])
    starts = span.first + span.length * which
    states = trajectory.states
    return subproblem.windows(window_rewards(trajectory, span)[which], states[starts], states[starts + span.length])


def sample_windows(
    subproblem: WindowSubproblem,
    trajectory: Trajectory,
    count: int,
    rng: np.random.Generator,
    noise: tuple[float, ...] = DEFAULT.noise,
) -> WindowSet:
    """Simulated windows: from anywhere in the first state's box, and near the plan's own.

    Only those that keep the rows of C count; they guide the choice of multipliers, which are proven afterwards.
    """
    span, bounds, problem = subproblem.span, subproblem.bounds, subproblem.problem
    which = span.first + span.length * rng.integers(span.count, size=count)
    scale = rng.choice((np.inf, *noise), size=(count, 1))

    def spread(lower: Array, upper: Array, centre: Array) -> Array:
        with np.errstate(invalid="ignore"):
            near = centre + np.where(np.isinf(scale), 0.0, scale) * (upper - lower) * rng.uniform(
                -0.5, 0.5, centre.shape
            )
        return np.clip(np.where(np.isinf(scale), rng.uniform(lower, upper, centre.shape), near), lower, upper)

    states = spread(bounds.state_lower[0], bounds.state_upper[0], trajectory.states[which])
    starts, rewards, inside = states, np.zeros(count), np.ones(count, dtype=bool)
    for t in range(span.length):
        actions = spread(bounds.action_lower[t], bounds.action_upper[t], trajectory.actions[which + t])
        now, later = trajectory.auxiliaries[which + t], trajectory.auxiliaries[which + t + 1]
        steps = evaluate_steps(problem, np.hstack([states, actions, now]), later)
        rewards = rewards + problem.discount_factors[t] * steps.rewards()
        inside &= steps.end_within(bounds.state_lower[t + 1], bounds.state_upper[t + 1], problem.tolerances.states)
        inside &= steps.satisfy()
        states = steps.next_states
    rewards = rewards + problem.discount_factors[-1] * final_rewards(problem, states, later)
    return subproblem.windows(rewards, starts, states).take(np.flatnonzero(inside))
