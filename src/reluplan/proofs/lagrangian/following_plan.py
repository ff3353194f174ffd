"""A plan that follows the multipliers: each action is the first of the best window from where the plan is.

    a_t  of the largest  Σ_{j<k} γ^j R_{t+j} + γ^k λ_{t+k} · f(s_{t+k})  that is found from s_t  (`window_population`)

Good multipliers are nearly what a state is worth, so that this is a receding horizon with an end worth having. It
proves nothing; it is where a search for plans may begin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.span import Span
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, rollout
from reluplan.proofs.lagrangian.settings import SampledDualSettings
from reluplan.proofs.lagrangian.subproblem import window_subproblem
from reluplan.proofs.lagrangian.window_population import WindowPopulation

Array = NDArray[np.float64]

DEFAULT = SampledDualSettings()


def following_plan(
    problem: Problem,
    bounds: HorizonBounds,
    plan: Trajectory,
    multipliers: Array,
    steps: int,
    deadline: float,
    seed: int = 0,
    settings: SampledDualSettings = DEFAULT,
) -> Trajectory | None:
    """The first steps are chosen, those that follow are the plan's; None if there are none, or no time (of clock.now).

    multipliers: of every step's state (H + 1, 2n), whose hinges are where the plan is.
    """
    rng, actions = np.random.default_rng(seed), plan.actions.copy()
    state = plan.states[0]
    none = np.full(len(state), -np.inf)
    for t in range(steps):
        if clock.now() > deadline:
            return None
        length = min(settings.look_ahead, problem.horizon - t)
        end = t + length
        hinges = plan.states[end] if end < problem.horizon else none
        window = window_subproblem(problem, _beginning_at(bounds, t, state), Span(t, length), (none, hinges))
        population = WindowPopulation([window], plan, rng, settings.population)
        ends = np.array([np.zeros(multipliers.shape[1]), multipliers[end]])
        population.climb(ends, deadline)
        found = population.best_actions(ends)
        if found is None:
            return None
        actions[t] = found[0]
        state = rollout(window.problem, state, found, plan.auxiliaries[t : end + 1]).states[1]
    return rollout(problem, plan.states[0], actions, plan.auxiliaries)


def _beginning_at(bounds: HorizonBounds, t: int, state: Array) -> HorizonBounds:
    """The boxes with a state in place of the box of step t; they claim nothing."""
    arrays = bounds.copied().arrays()
    arrays["state_lower"][t] = arrays["state_upper"][t] = state
    return HorizonBounds(**arrays)
