"""Several episodes of a controller, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reluplan.clock import Clock
from reluplan.control.controller import Controller
from reluplan.control.episode import run_episode
from reluplan.control.report import ControlReport
from reluplan.errors import InputError
from reluplan.interrupts import interruptible
from reluplan.planning.log import Event
from reluplan.problem.problem import Problem
from reluplan.simulators.ordered import OrderedSimulator

Array = NDArray[np.float64]
StepListener = Callable[[int, int, float], None]


def control_episodes(
    controller: Controller,
    simulator: OrderedSimulator,
    episode_count: int,
    seed: int = 0,
    random_starts: bool = False,
    on_step: StepListener | None = None,
) -> ControlReport:
    """Run episodes with the seeds seed, seed + 1, ...; Ctrl-C ends with those that are finished, if there are any.

    on_step hears the episode, the step and the return of the episode so far.
    """
    if episode_count < 1:
        raise InputError(f"the number of episodes must be at least 1, got {episode_count}")
    problem = controller.problem
    episodes = []
    decisions = []
    starts = draw_starts(problem, episode_count, seed) if random_starts else [None] * episode_count
    try:
        with interruptible():
            for number, start in enumerate(starts):
                controller.reset()
                listen = _listener(on_step, number + 1, problem.discount)
                done = run_episode(simulator, controller.policy, problem.horizon, seed + number, start, listen)
                decisions.append(tuple(controller.decisions))
                episodes.append(done)
    except KeyboardInterrupt:
        if not episodes:
            raise
    return ControlReport(problem, tuple(episodes), tuple(decisions[: len(episodes)]))


def draw_starts(problem: Problem, count: int, seed: int) -> list[Array]:
    """First states, uniform within the state bounds; discrete ones are rounded."""
    lower, upper = problem.box(problem.own_states)
    for variable in problem.own_states:
        if not np.isfinite([variable.lower, variable.upper]).all():
            raise InputError(
                f"{problem.source}: random starts need finite bounds of every state; add {variable.name}'s"
            )
    drawn = np.random.default_rng(seed).uniform(lower, upper, (count, len(lower)))
    return list(np.where(problem.discrete_states[: len(lower)], np.round(drawn), drawn))


def tell_steps(view: Callable[[Event], None], clock: Clock) -> StepListener:
    """Shows episodes as they go on: the return so far, in place of a plan's reward."""

    def tell(episode: int, step: int, total: float) -> None:
        view(Event(clock.elapsed, f"episode {episode}", f"step {step}, return {total:.6g}", total, None))

    return tell


def _listener(on_step: StepListener | None, episode: int, discount: float) -> Callable[[int, float], None] | None:
    """Adds up the rewards of one episode, discounted."""
    if on_step is None:
        return None
    total = 0.0

    def listen(step: int, reward: float) -> None:
        nonlocal total
        total += discount ** (step - 1) * reward
        on_step(episode, step, total)

    return listen
