"""Projected Adam over the parameters of a bound; goes on where it stopped."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.problem import Problem
from reluplan.proofs.crown.parameters import Parameters
from reluplan.proofs.crown.relaxation import PlanRelaxation, Valuation
from reluplan.proofs.crown.settings import CrownSettings

Array = NDArray[np.float64]


class Descent:
    """Minimises the bound, and goes on where it stopped. `best` is the valuation of the smallest bound over the boxes
    so far.

    only: the kinds of parameters that move, all if empty.
    """

    def __init__(
        self, problem: Problem, first: Valuation, scales: Parameters, settings: CrownSettings, only: str = ""
    ) -> None:
        self._settings = settings
        self._scales = dict(scales.arrays())
        self._limits = _limits(problem)
        self._names = [name for name, _ in first.parameters.arrays() if name.startswith(only)]
        self._mean = {name: np.zeros_like(array) for name, array in first.parameters.arrays()}
        self._square = {name: np.zeros_like(array) for name, array in first.parameters.arrays()}
        self._count = self._place = 0
        self._rate = settings.rate
        self._current = first.parameters
        self._before = first.value
        self.best = first

    @property
    def is_stuck(self) -> bool:
        return self._rate < self._settings.smallest_rate

    def begin_again(self, relaxation: PlanRelaxation) -> None:
        """Over other boxes: from the best parameters, with the first rate."""
        self._current = self.best.parameters
        self.best = relaxation.value(self._current)
        self._before = self.best.value
        self._rate, self._place = self._settings.rate, 0

    def advance(self, relaxation: PlanRelaxation, worthwhile: float, steps: bool = True) -> None:
        """One step, and one evaluation there. worthwhile: what a cycle should gain; steps: as in `derivatives`."""
        found = relaxation.value(self._current)
        if found.value < self.best.value:
            self.best = found
        self._step(relaxation.derivatives(found, steps))
        self._place += 1
        if self._place == self._settings.cycle:
            self._end_cycle(worthwhile)

    def _end_cycle(self, worthwhile: float) -> None:
        self._place = 0
        if self.best.value > self._before - worthwhile:
            self._rate /= 3.0
        self._before = self.best.value
        self._current = self.best.parameters

    def _step(self, derivatives: Parameters) -> None:
        settings = self._settings
        self._count += 1
        rate = self._rate * settings.fall ** (self._place / settings.cycle)
        moved = dict(self._current.arrays())
        for name in self._names:
            slope, mean, square = getattr(derivatives, name), self._mean[name], self._square[name]
            mean += (1.0 - settings.decay) * (slope - mean)
            square += (1.0 - settings.memory) * (slope * slope - square)
            size = np.sqrt(square / (1.0 - settings.memory**self._count))
            direction = mean / (1.0 - settings.decay**self._count) / np.where(size > 0.0, size, 1.0)
            low, high = self._limits[name]
            moved[name] = np.clip(moved[name] - rate * self._scales[name] * direction, low, high)
        self._current = Parameters(**moved)


def _limits(problem: Problem) -> dict[str, tuple[Array | float, Array | float]]:
    """Slopes and shares lie in [0, 1], multipliers of inequalities are not negative."""
    rows = {
        "row_multipliers": problem.constraints,
        "goal_multipliers": problem.goal,
        "first_multipliers": problem.initial_constraints,
    }
    limits: dict[str, tuple[Array | float, Array | float]] = {
        name: (np.array([-np.inf if row.equality else 0.0 for row in part], dtype=np.float64), np.inf)
        for name, part in rows.items()
    }
    limits["state_pushes"] = (-np.inf, np.inf)
    others = (field.name for field in fields(Parameters))
    return limits | {name: (0.0, 1.0) for name in others if name not in limits}
