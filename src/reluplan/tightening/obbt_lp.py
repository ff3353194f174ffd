"""LP bounds of everything in a window of steps, with all its rows: the reward floor of improving plans among them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.interval import round_outward
from reluplan.bounds.lp import round_discrete
from reluplan.bounds.reachability import HorizonBounds
from reluplan.encoding.relu import StepColumns
from reluplan.encoding.unroll import PlanModel
from reluplan.errors import InfeasibleError
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.model import Index, Model
from reluplan.optimisation.persistent_lp import PersistentLp

Array = NDArray[np.float64]

WORTHWHILE = 1e-3
"""A side of a box that the LP moves by less than this share of its width is left as it was."""


def tighten_window(
    plan_model: PlanModel, model: Model, bounds: HorizonBounds, deadline: float = math.inf
) -> HorizonBounds:
    """The bounds of a window, each side moved inward to what the LP relaxation of the model proves.

    model: plan_model's, or one with further rows or bounds. States and actions first, then every neuron that is still
    unstable; until the deadline (of clock.now). Raises InfeasibleError if the relaxation is empty.
    """
    if clock.now() > deadline:
        return bounds
    narrowing = _Narrowing(PersistentLp(model), deadline)
    problem = plan_model.problem
    states = narrowing.columns(plan_model.states, bounds.state_lower, bounds.state_upper)
    actions = narrowing.columns(plan_model.actions, bounds.action_lower, bounds.action_upper)
    units = [
        narrowing.units(problem.dynamics, step, bounds.unit_lower[t], bounds.unit_upper[t])
        for t, step in enumerate(plan_model.steps)
    ]
    discrete_actions = np.array([v.is_discrete for v in problem.actions], dtype=bool)
    state_lower, state_upper = round_discrete(*states, problem.discrete_states)
    action_lower, action_upper = round_discrete(*actions, discrete_actions)
    return replace(
        bounds,
        state_lower=state_lower,
        state_upper=state_upper,
        action_lower=action_lower,
        action_upper=action_upper,
        unit_lower=np.array([low for low, _ in units]),
        unit_upper=np.array([high for _, high in units]),
    )


@dataclass(eq=False)
class _Narrowing:
    """Maximises and minimises linear forms over one LP, keeping what is tighter than known bounds."""

    lp: PersistentLp
    deadline: float
    solved: int = field(default=0)

    def columns(self, columns: Index, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds of single columns; the LP itself takes over what is found."""
        low, high = lower.ravel().copy(), upper.ravel().copy()
        for place, column in enumerate(columns.ravel().tolist()):
            if high[place] > low[place]:
                found = self._form(np.array([column]), np.ones(1), float(low[place]), float(high[place]))
                low[place], high[place] = found
                self.lp.set_bounds(column, *found)
        return low.reshape(lower.shape), high.reshape(upper.shape)

    def units(self, network: ReluNetwork, step: StepColumns, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Bounds of the pre-activations that may still switch."""
        low, high = lower.copy(), upper.copy()
        if clock.now() > self.deadline:
            return low, high
        matrix, offset = step.preactivations(network)
        for unit in np.flatnonzero((low < 0.0) & (high > 0.0)):
            row, constant = matrix[unit], offset[unit]
            used = np.flatnonzero(row)
            a, b = self._form(step.base[used], row[used], float(low[unit] - constant), float(high[unit] - constant))
            low[unit], high[unit] = max(low[unit], a + constant), min(high[unit], b + constant)
        return low, high

    def _form(self, columns: Index, values: Array, low: float, high: float) -> tuple[float, float]:
        """Bounds of values · x[columns], rounded outward, where they are worth having."""
        if clock.now() > self.deadline:
            return low, high
        self.solved += 2
        least, most = -self.lp.maximum(columns, -values, self.deadline), self.lp.maximum(columns, values, self.deadline)
        found = round_outward(np.array(least), np.array(most))
        if found[0] > found[1]:
            raise InfeasibleError("no point satisfies the constraints")
        enough = WORTHWHILE * (high - low) if math.isfinite(high - low) else 0.0
        return (
            float(found[0]) if found[0] > low + enough else low,
            float(found[1]) if found[1] < high - enough else high,
        )
