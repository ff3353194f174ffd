"""Improving a plan by linear programs on its linearised dynamics, inside a trust box."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from reluplan.optimisation.linear_program import LinearProgram
from reluplan.search.iterate import Iterate, switching
from reluplan.search.settings import TrustRegionSettings
from reluplan.search.time_slice import Paused


@dataclass
class TrustRegion:
    """One run from one iterate: big steps that ignore where units switch, smaller ones where that fails."""

    iterate: Iterate
    integers: bool = False
    radius: float = field(init=False)
    basis: Any = None

    def __post_init__(self) -> None:
        self.radius = self.settings.first_radius

    @property
    def settings(self) -> TrustRegionSettings:
        return self.iterate.context.settings.trust_region

    def run(self, steps: int) -> Paused[None]:
        """Steps until the radius is small or nothing is to be gained.

        There is nothing to do from a plan that leads beyond all numbers.
        """
        if not math.isfinite(self.iterate.value):
            return
        for _ in range(steps):
            yield from self.iterate.context.pause()
            if self.radius < self.settings.smallest_radius or not (yield from self._step()):
                return

    def _step(self) -> Paused[bool]:
        """One LP, and more if its step fails; False if no step can gain anything."""
        iterate = self.iterate
        local = iterate.local(self.radius, integers=self.integers)
        program = LinearProgram(local.model, self.basis)
        for attempt in range(self.settings.keep_rounds + 1):
            x = yield from iterate.solve(program)
            if x is None:
                break
            promise = program.objective - iterate.value
            if not iterate.is_gain(promise):
                if attempt == 0:
                    return False
                break
            move = iterate.move(local, x)
            if move is not None:
                self.basis = program.basis if attempt == 0 and not self.integers else None
                self._adapt(move.part, move.gain > self.settings.foretold * promise)
                return True
            steps, units = switching(local, x)
            if not len(steps):
                break
            program.add_rows(*local.unit_rows(steps, units))
        self.radius *= self.settings.shrink_failed
        return True

    def _adapt(self, part: float, foretold: bool) -> None:
        """The radius follows how well the LP foretold what the step gains."""
        if part == 1.0 and foretold:
            self.radius = min(1.0, self.settings.grow * self.radius)
        elif part < self.settings.short_part:
            self.radius *= self.settings.shrink_short
