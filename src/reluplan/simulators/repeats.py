"""A plan run several times in the true system, which may be stochastic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reluplan.errors import InputError
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.simulators.base import Simulator
from reluplan.simulators.validate import OtherStartError, ValidationReport, validate


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation (of the sample), smallest and largest of some numbers; None where one is not finite."""

    mean: float | None
    std: float | None
    minimum: float | None
    maximum: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if not all(math.isfinite(value) for value in values):
            return cls(None, None, None, None)
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), deviation, min(values), max(values))

    def record(self) -> dict[str, float | None]:
        return {"mean": self.mean, "std": self.std, "min": self.minimum, "max": self.maximum}


@dataclass(frozen=True, eq=False)
class RepeatedValidation:
    """Runs of one plan from the same first state with seeds seed, seed + 1, ...

    is_stochastic: whether a run with another seed differs; None if it cannot be told, since another seed gives the
    simulator another first state, which it cannot be put out of.
    """

    runs: tuple[ValidationReport, ...]
    is_stochastic: bool | None

    @property
    def first(self) -> ValidationReport:
        return self.runs[0]

    @property
    def true_reward(self) -> Spread:
        """Of the problem's reward on the true states."""
        return Spread.of([run.true.total_reward for run in self.runs])

    @property
    def simulator_reward(self) -> Spread | None:
        """Of the simulator's own reward, None if it has none."""
        paid = [run.simulator_reward for run in self.runs]
        return (
            None if any(value is None for value in paid) else Spread.of([value for value in paid if value is not None])
        )

    @property
    def violation(self) -> Spread:
        """Of the largest violation of a run."""
        return Spread.of([max(0.0, run.check.max_violation) for run in self.runs])

    @property
    def broken_runs(self) -> int:
        """Runs that break a constraint."""
        return sum(not run.check.ok for run in self.runs)

    def record(self) -> dict[str, Any]:
        """The first run, and what is known of all, as plain data."""
        paid = self.simulator_reward
        repeats = {
            "runs": len(self.runs),
            "true_reward": self.true_reward.record(),
            "simulator_reward": None if paid is None else paid.record(),
            "max_violation": self.violation.record(),
            "broken_runs": self.broken_runs,
        }
        return {**self.first.record(), "stochastic": self.is_stochastic, "repeats": repeats}


def validate_repeatedly(
    problem: Problem, trajectory: Trajectory, simulator: Simulator, seed: int = 0, repeat: int = 1
) -> RepeatedValidation:
    """Run the actions of a model trajectory `repeat` times; a single run is followed by another that is only compared.

    So a stochastic simulator is known as one even where its plan is run once.
    """
    if repeat < 1:
        raise InputError(f"--repeat must be at least 1, got {repeat}")
    first = validate(problem, trajectory, simulator, seed)
    try:
        others = [validate(problem, trajectory, simulator, seed + number) for number in range(1, max(2, repeat))]
    except OtherStartError:
        if repeat > 1:
            raise InputError(
                "the simulator cannot be put into a state, and another seed gives it another first state: "
                "its plan can be run with one seed only; leave out --repeat"
            ) from None
        return RepeatedValidation((first,), None)
    return RepeatedValidation((first, *others[: repeat - 1]), any(_differ(first, other) for other in others))


def _differ(one: ValidationReport, other: ValidationReport) -> bool:
    """Whether two runs are different, in states or in what was paid."""
    same_states = np.array_equal(one.true.states, other.true.states, equal_nan=True)
    return not same_states or one.simulator_reward != other.simulator_reward
