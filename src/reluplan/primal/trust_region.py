"""Improving a plan by linear programs on its linearised dynamics, inside a trust box."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.primal.context import Context
from reluplan.primal.decisions import Decisions
from reluplan.primal.linear_program import LinearProgram
from reluplan.primal.linearise import linearise
from reluplan.primal.local_model import LocalModel, local_model
from reluplan.simulate import Trajectory

Array = NDArray[np.float64]

FACTORS = np.array([1.0, 0.7, 0.4, 0.2, 0.1, 0.03])
"""Parts of the step to the LP's optimum that are simulated; the best is taken."""
FIRST_RADIUS = 0.25
SMALLEST_RADIUS = 1e-6
"""Radii are shares of the boxes of the decisions."""
KEEP_ROUNDS = 4
"""How often units that switched on a failed step are forbidden to, before the radius shrinks."""
MARGIN = 1e-8
WORTHWHILE = 1e-9
"""A gain below this (relative) counts as none."""


@dataclass
class TrustRegion:
    """One improvement run from one plan; `run` returns the best plan it reached."""

    context: Context
    current: Trajectory
    source: str
    radius: float = FIRST_RADIUS
    margin: float = MARGIN
    value: float = field(init=False)
    basis: Any = None

    def __post_init__(self) -> None:
        self.value = self._merit(self.current)

    def run(self, steps: int = 200) -> Trajectory:
        """Steps until the radius is tiny, nothing is to be gained, or the time is up."""
        for _ in range(steps):
            if self.context.expired or self.radius < SMALLEST_RADIUS:
                break
            if not self._step():
                break
        return self.current

    def _step(self) -> bool:
        """One LP, and more if its step fails; False if no step can gain anything."""
        context = self.context
        local = self._local_model()
        program = LinearProgram(local.model, self.basis)
        for attempt in range(KEEP_ROUNDS + 1):
            x = self._solve(program)
            if x is None:
                self.radius *= 0.25
                return not context.expired
            promise = program.objective - self.value
            if attempt == 0 and promise <= WORTHWHILE * max(1.0, abs(self.value)):
                return False
            if self._move(local, x, promise):
                self.basis = program.basis if attempt == 0 else None
                return True
            if attempt == KEEP_ROUNDS or not self._keep_units(program, local, x):
                break
        self.radius *= 0.25
        return True

    def _local_model(self) -> LocalModel:
        context = self.context
        width = context.box.width
        radius = Decisions(self.radius * width.initial, self.radius * width.actions, self.radius * width.auxiliaries)
        lin = linearise(context.problem, self.current)
        return local_model(context.problem, self.current, lin, radius, context.merit.price, self.margin)

    def _solve(self, program: LinearProgram) -> Array | None:
        self.context.linear_programs += 1
        return program.solve(self.context.remaining)

    def _move(self, local: LocalModel, x: Array, promise: float) -> bool:
        """Simulate parts of the step and take the best, if it gains; the radius follows how well the LP foretold."""
        context = self.context
        here, there = Decisions.of(self.current), context.box.into(local.decisions(x))
        step = there.plus(here, np.array([-1.0]))
        rollout, score = context.roll_out(context.box.into(here.plus(step, FACTORS)))
        merits = score.merit(context.merit.price)
        best = int(merits.argmax())
        gain = float(merits[best]) - self.value
        if gain <= WORTHWHILE * max(1.0, abs(self.value)):
            return False
        self.current = context.offer(rollout.decisions.take(np.array([best])), self.source)
        self.value = self._merit(self.current)
        if best == 0 and gain > 0.5 * promise:
            self.radius = min(1.0, 2.0 * self.radius)
        elif FACTORS[best] < 0.5:
            self.radius *= 0.5
        return True

    def _keep_units(self, program: LinearProgram, local: LocalModel, x: Array) -> bool:
        """Forbid the units that would switch on the LP's own step to do so; False if none would."""
        lin = local.linearisation
        units = np.einsum("tui,ti->tu", lin.slopes, local.inputs(x)) + lin.intercepts
        size = 1e-9 * np.maximum(1.0, np.abs(lin.intercepts))
        steps, which = np.nonzero(np.where(lin.active, units < -size, units > size))
        if not len(steps):
            return False
        program.add_rows(*local.unit_rows(steps, which))
        return True

    def _merit(self, trajectory: Trajectory) -> float:
        return float(self.context.score(trajectory).merit(self.context.merit.price)[0])
