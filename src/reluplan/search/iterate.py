"""The current plan of a local search: the linear program around it, and the step to that program's optimum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reluplan.optimisation.linear_program import LinearProgram
from reluplan.problem.rollout import Trajectory
from reluplan.search.context import Context
from reluplan.search.decisions import Decisions
from reluplan.search.linearise import linearise
from reluplan.search.local_model import LocalModel, LocalOptions, local_model
from reluplan.search.time_slice import Paused

Array = NDArray[np.float64]
Index = NDArray[np.int64]

RELATIVE_NOISE = 1e-10
ABSOLUTE_NOISE = 1e-8
"""A gain below their sum is within the rounding of merits and the tolerances of the LP."""


class Move(NamedTuple):
    """A step that was taken: what it gained, and which part of the LP's step it was."""

    gain: float
    part: float


@dataclass
class Iterate:
    """A plan and its merit, which only rises. margin: how far the linear programs move constraints inward."""

    context: Context
    plan: Trajectory
    margin: float
    source: str = "linear program"
    value: float = field(init=False)

    def __post_init__(self) -> None:
        self.value = self.context.merit_of(self.plan)

    def is_gain(self, gain: float) -> bool:
        """Whether a gain is more than rounding."""
        return gain > ABSOLUTE_NOISE + RELATIVE_NOISE * abs(self.value)

    def local(self, radius: float, active: NDArray[np.bool_] | None = None, integers: bool = False) -> LocalModel:
        """The linear program around the plan, for its own activation pattern or for another one.

        radius: how far decisions may move, as a share of their boxes. integers: whether discrete ones may.
        """
        context = self.context
        width = context.box.width
        reach = Decisions(radius * width.initial, radius * width.actions, radius * width.auxiliaries)
        lin = linearise(context.problem, self.plan, active)
        options = LocalOptions(reach, context.merit.penalty, self.margin, integers)
        return local_model(context.problem, self.plan, lin, options)

    def solve(self, program: LinearProgram) -> Paused[Array | None]:
        """The optimum of a linear program; one that the end of a slice cut off goes on from its basis in the next."""
        context = self.context
        context.work.linear_programs += 1
        yield from context.pause()
        x = program.solve(context.remaining)
        while x is None and context.expired:
            yield from context.pause()
            x = program.solve(context.remaining)
        return x

    def move(self, local: LocalModel, x: Array) -> Move | None:
        """Roll out parts of the step from the plan to x, and take the best if it gains."""
        context = self.context
        here = Decisions.of(self.plan)
        step = context.box.into(local.decisions(x)).plus(here, np.array([-1.0]))
        parts = np.array(context.settings.local_model.step_parts)
        rollout, score = context.evaluate(context.box.into(here.plus(step, parts)))
        merits = score.merit(context.merit.penalty)
        best = int(merits.argmax())
        gain = float(merits[best]) - self.value
        if not self.is_gain(gain):
            return None
        self.plan = context.offer(rollout.decisions.take(np.array([best])), self.source)
        self.value = context.merit_of(self.plan)
        return Move(gain, float(parts[best]))


def switching(local: LocalModel, x: Array) -> tuple[Index, Index]:
    """The (steps, units) that are on another side at x than the pattern of the linear program has them."""
    lin = local.linearisation
    units = np.einsum("tui,ti->tu", lin.slopes, local.inputs(x)) + lin.intercepts
    size = 1e-9 * np.maximum(1.0, np.abs(lin.intercepts))
    return where(np.where(lin.active, units < -size, units > size))


def where(mask: NDArray[np.bool_]) -> tuple[Index, Index]:
    """The (steps, units) of a mask of that shape."""
    steps, units = np.nonzero(mask)
    return steps.astype(np.int64), units.astype(np.int64)
