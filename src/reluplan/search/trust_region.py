"""Improving a plan by linear programs on its linearised dynamics, inside a trust box."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from reluplan.optimisation.linear_program import LinearProgram
from reluplan.search.iterate import Iterate, switching

FIRST_RADIUS = 0.5
SMALLEST_RADIUS = 0.01
"""Radii are shares of the boxes of the decisions. Below the smallest one `pattern_walk` does better."""
KEEP_ROUNDS = 3
"""How often units that switched on a failed step are forbidden to, before the radius shrinks."""
STEPS = 100


@dataclass
class TrustRegion:
    """One run from one iterate: big steps that ignore where units switch, smaller ones where that fails."""

    iterate: Iterate
    radius: float = FIRST_RADIUS
    integers: bool = False
    basis: Any = None

    def run(self, steps: int = STEPS) -> None:
        """Steps until the radius is small, nothing is to be gained, or the time is up.

        There is nothing to do from a plan that leads beyond all numbers.
        """
        if not math.isfinite(self.iterate.value):
            return
        for _ in range(steps):
            if self.iterate.context.expired or self.radius < SMALLEST_RADIUS or not self._step():
                return

    def _step(self) -> bool:
        """One LP, and more if its step fails; False if no step can gain anything."""
        iterate = self.iterate
        local = iterate.local(self.radius, integers=self.integers)
        program = LinearProgram(local.model, self.basis)
        for attempt in range(KEEP_ROUNDS + 1):
            x = iterate.solve(program)
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
                self._adapt(move.factor, move.gain > 0.5 * promise)
                return True
            steps, units = switching(local, x)
            if not len(steps):
                break
            program.add_rows(*local.unit_rows(steps, units))
        self.radius *= 0.25
        return True

    def _adapt(self, factor: float, foretold: bool) -> None:
        """The radius follows how well the LP foretold what the step gains."""
        if factor == 1.0 and foretold:
            self.radius = min(1.0, 2.0 * self.radius)
        elif factor < 0.5:
            self.radius *= 0.5
