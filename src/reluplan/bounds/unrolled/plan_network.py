"""The whole plan as one relaxed network: its steps, and the functions of each step, over proven boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.crown import interval_of_boxes
from reluplan.bounds.interval import intersect
from reluplan.bounds.unrolled.blocks import BlockNetwork
from reluplan.bounds.unrolled.functions import functions_network
from reluplan.bounds.unrolled.rounding import RoundingLines, rounding_lines
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import state_vectors, step_vectors

Array = NDArray[np.float64]


class PlanNetworks:
    """The networks of a problem: the dynamics F; the step's functions (R, C) of w; those of the final state (F, G) and
    of the first (I), of w with zeros elsewhere. Outputs: the reward first, then one per row."""

    def __init__(self, problem: Problem) -> None:
        width = problem.layout.width
        nothing = PiecewiseLinear.constant_of(0.0, width)
        step = [problem.reward, *(row.function for row in problem.constraints)]
        final = [problem.final_reward or nothing, *(row.function for row in problem.goal)]
        first = [nothing, *(row.function for row in problem.initial_constraints)]
        self.dynamics = BlockNetwork(problem.dynamics)
        self.functions = tuple(functions_network(part, width) for part in (step, final, first))
        self.step, self.final, self.first = (BlockNetwork(network) for network in self.functions)


@dataclass(frozen=True, eq=False)
class FunctionBoxes:
    """Boxes of w (B, width) that functions are read over, and of the units of their network (B, units)."""

    lower: Array
    upper: Array
    unit_lower: Array
    unit_upper: Array

    def reach(self, network: BlockNetwork) -> tuple[Array, Array]:
        return network.reach(self.lower, self.upper, self.unit_lower, self.unit_upper)

    def within(self, unit_lower: Array, unit_upper: Array) -> FunctionBoxes:
        """With smaller boxes of the units."""
        low, high = intersect((self.unit_lower, self.unit_upper), (unit_lower, unit_upper))
        return FunctionBoxes(self.lower, self.upper, low, high)


class PlanBoxes:
    """The boxes of a plan as back-substitution needs them: those of `HorizonBounds`, and of the functions' units."""

    def __init__(self, problem: Problem, networks: PlanNetworks, bounds: HorizonBounds) -> None:
        self.bounds = bounds
        lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
        upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
        ends = [
            tuple(
                state_vectors(problem, states[[t]], auxiliaries[[t]])
                for states, auxiliaries in (
                    (bounds.state_lower, bounds.auxiliary_lower),
                    (bounds.state_upper, bounds.auxiliary_upper),
                )
            )
            for t in (bounds.horizon, 0)
        ]
        pairs = [(lower, upper), *ends]
        self.step, self.final, self.first = (
            FunctionBoxes(low, high, *unit_intervals(network, low, high))
            for network, (low, high) in zip(networks.functions, pairs, strict=True)
        )
        self.rounding: RoundingLines = rounding_lines(problem, bounds.output_lower, bounds.output_upper)

    @staticmethod
    def input_boxes(bounds: HorizonBounds) -> tuple[Array, Array]:
        """The boxes of (s, a, x), shape (H, inputs)."""
        lower = np.hstack([bounds.state_lower[:-1], bounds.action_lower, bounds.auxiliary_lower[:-1]])
        return lower, np.hstack([bounds.state_upper[:-1], bounds.action_upper, bounds.auxiliary_upper[:-1]])


def have_lines(bounds: HorizonBounds) -> bool:
    """Whether every side of every box is finite, as back-substitution needs it."""
    return all(bool(np.isfinite(array).all()) for array in bounds.arrays().values())


def unit_intervals(network: ReluNetwork, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Interval bounds of every unit's pre-activation over finite boxes (B, inputs), two arrays (B, units)."""
    lows, highs = [np.zeros((len(lower), 0))], [np.zeros((len(lower), 0))]
    for layer in network.hidden:
        low, high = interval_of_boxes(layer, lower, upper)
        lows.append(low)
        highs.append(high)
        lower = np.hstack([lower, np.maximum(low, 0.0)])
        upper = np.hstack([upper, np.maximum(high, 0.0)])
    return np.hstack(lows), np.hstack(highs)
