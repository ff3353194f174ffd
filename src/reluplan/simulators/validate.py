"""Running a plan in the true system: what it earns there, how far the model drifts, what it breaks."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.problem.check import CheckReport, check
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory, step_vectors
from reluplan.problem.tolerance import TOLERANCE
from reluplan.simulators.base import Simulator
from reluplan.simulators.ordered import OrderedSimulator

Array = NDArray[np.float64]

SAME_START = 1e-6
"""A simulator that cannot be put into a state must start within this of the plan's first state, relative to 1 + |s|."""


class OtherStartError(InputError):
    """The simulator starts elsewhere than the plan, and cannot be put there."""


@dataclass(frozen=True)
class StateDrift:
    """|true − model| of one state over the steps 2..H+1: its mean, its maximum, and the step of the maximum."""

    state: str
    mean: float
    maximum: float
    step: int


@dataclass(frozen=True, eq=False)
class ValidationReport:
    """A plan in the model and in the true system.

    model: as the network sees it; true: states and actions of the simulator, rewarded by the problem.
    simulator_reward: what the simulator itself paid, None if it has no reward of its own.
    clipped_steps: steps (1..H) at which the simulator refused the action, which was replaced by the nearest one that
    it allows; largest_clip: by how much at most. ended_at: the step after which the simulator called the episode over.
    """

    model: Trajectory
    true: Trajectory
    simulator_reward: float | None
    drift: tuple[StateDrift, ...]
    check: CheckReport
    clipped_steps: tuple[int, ...]
    largest_clip: float
    ended_at: int | None

    @property
    def reward_loss(self) -> float:
        """How much less than promised the plan earns, by the problem's reward."""
        return self.model.total_reward - self.true.total_reward

    def record(self) -> dict[str, Any]:
        """The report as plain data; numbers that are not finite are None."""
        return {
            "ok": self.check.ok,
            "horizon": self.model.horizon,
            "model_reward": _finite(self.model.total_reward),
            "true_reward": _finite(self.true.total_reward),
            "simulator_reward": None if self.simulator_reward is None else _finite(self.simulator_reward),
            "drift": [
                {"state": d.state, "mean": _finite(d.mean), "max": _finite(d.maximum), "step": d.step}
                for d in self.drift
            ],
            "max_violation": _finite(self.check.max_violation),
            "violations": [
                {"constraint": v.constraint, "step": v.step, "amount": _finite(v.amount)} for v in self.check.broken
            ],
            "clipped_steps": list(self.clipped_steps),
            "largest_clip": self.largest_clip,
            "ended_at": self.ended_at,
        }

    def to_json(self) -> str:
        """`record` as JSON."""
        return json.dumps(self.record(), indent=2)


def validate(problem: Problem, trajectory: Trajectory, simulator: Simulator, seed: int = 0) -> ValidationReport:
    """Run the actions of a model trajectory in the true system, from the same first state."""
    run = _Run(problem, simulator)
    run.start(trajectory.states[0], seed)
    for action in trajectory.actions:
        run.step(action)
    states = np.array(run.states)
    actions = np.array(run.actions)
    with np.errstate(over="ignore", invalid="ignore"):
        steps = step_vectors(states, actions, trajectory.auxiliaries)
        true = Trajectory(states, actions, trajectory.auxiliaries, problem.reward.evaluate(steps))
        checked = check(problem, true, is_predicted=False)
    clips = np.abs(actions - trajectory.actions).max(axis=1, initial=0.0)
    paid = float(np.sum(run.rewards))
    return ValidationReport(
        model=trajectory,
        true=true,
        simulator_reward=None if math.isnan(paid) else paid,
        drift=_drift([v.name for v in problem.states], trajectory.states, states),
        check=checked,
        clipped_steps=tuple((np.flatnonzero(clips > TOLERANCE) + 1).tolist()),
        largest_clip=float(clips.max(initial=0.0)),
        ended_at=run.ended_at,
    )


class _Run:
    """The actions of a plan in the true system, step by step."""

    def __init__(self, problem: Problem, simulator: Simulator) -> None:
        self._problem = problem
        self._system = OrderedSimulator(simulator, problem)
        self.states: list[Array] = []
        self.actions: list[Array] = []
        self.rewards: list[float] = []
        self.ended_at: int | None = None

    def start(self, state: Array, seed: int) -> None:
        """Begin in the plan's first state."""
        if self._system.can_set_state:
            self._system.reset(seed, state)
        else:
            self._require_start(self._system.reset(seed), state)
        self.states.append(state)

    def _require_start(self, actual: Array, wanted: Array) -> None:
        for variable, is_, should in zip(self._problem.states, actual, wanted, strict=True):
            if abs(is_ - should) > SAME_START * (1.0 + abs(should)):
                raise OtherStartError(
                    f"the plan starts with {variable.name} = {should:g}, but the simulator starts with {is_:g} and "
                    "cannot be put into another state; set the problem's initial value to the simulator's"
                )

    def step(self, action: Array) -> None:
        """One step; after a state that is not finite there is no going on, and the rest is not a number."""
        if not np.isfinite(self.states[-1]).all():
            self._append(np.full(len(self._problem.states), np.nan), action, math.nan)
            return
        given = self._given(action)
        state, reward, over = self._system.step(given)
        self._append(state, given, reward)
        if over and self.ended_at is None:
            self.ended_at = len(self.actions)

    def _append(self, state: Array, action: Array, reward: float) -> None:
        self.states.append(state)
        self.actions.append(action)
        self.rewards.append(reward)

    def _given(self, action: Array) -> Array:
        """The plan's action, clipped to what the true system allows."""
        given = self._system.allowed(action)
        if given is None:
            raise InputError(
                f"step {len(self.actions) + 1}: the simulator refuses the plan's action "
                f"({self._system.refusal(action)}), and refuses its default action as well, "
                "so there is nothing to put in its place"
            )
        return given


def _drift(names: Sequence[str], model: Array, true: Array) -> tuple[StateDrift, ...]:
    """Per state; a state that is not a number has drifted infinitely far."""
    with np.errstate(invalid="ignore"):
        gaps = np.abs(true[1:] - model[1:])
    gaps = np.where(np.isnan(gaps), np.inf, gaps)
    worst = gaps.argmax(axis=0)
    return tuple(
        StateDrift(name, float(gaps[:, i].mean()), float(gaps[worst[i], i]), int(worst[i]) + 2)
        for i, name in enumerate(names)
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
