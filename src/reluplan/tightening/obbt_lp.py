"""Bound tightening by LP: everything in a window of steps, with all its rows; with a reward cutoff if there is one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import BetterPlanBounds, HorizonBounds, Plans, tightened, tightened_for_better_plans
from reluplan.bounds.lp import round_discrete
from reluplan.bounds.lp_tightener import LpTightener
from reluplan.encoding.relu import StepColumns
from reluplan.encoding.unroll import PlanModel
from reluplan.network.relu_network import ReluNetwork
from reluplan.optimisation.model import Model, ModelBuilder
from reluplan.optimisation.persistent_lp import PersistentLp
from reluplan.tightening.settings import LpTighteningSettings

Array = NDArray[np.float64]

DEFAULT = LpTighteningSettings()


def tighten_by_lp(
    plan_model: PlanModel, bounds: Plans, deadline: float = math.inf, settings: LpTighteningSettings = DEFAULT
) -> Plans:
    """The bounds of a window, each side moved inward to what the LP relaxation of its model proves.

    Until the deadline (of clock.now). Raises InfeasibleError if the relaxation is empty.
    """
    return tightened(bounds, lp_boxes(plan_model, plan_model.model, bounds, deadline, settings))


def tighten_by_reward_cutoff(
    plan_model: PlanModel,
    model: Model,
    cutoff: float,
    bounds: BetterPlanBounds,
    deadline: float = math.inf,
    settings: LpTighteningSettings = DEFAULT,
) -> BetterPlanBounds:
    """The same with the row objective >= cutoff, which every window of a plan better than the incumbent satisfies.

    model: plan_model's, with an objective for which that was proven, and further columns behind its own.
    """
    arrays = lp_boxes(plan_model, _with_cutoff(model, cutoff), bounds, deadline, settings)
    return tightened_for_better_plans(bounds, arrays)


def lp_boxes(
    plan_model: PlanModel,
    model: Model,
    bounds: HorizonBounds,
    deadline: float,
    settings: LpTighteningSettings = DEFAULT,
) -> dict[str, Array]:
    """The arrays of the bounds that an LP moves: states and actions first, then every unit that is still unstable."""
    if clock.now() > deadline:
        return {}
    tightener = LpTightener(PersistentLp(model), deadline, settings.worthwhile)
    problem = plan_model.problem
    states = tightener.columns(plan_model.states, bounds.state_lower, bounds.state_upper)
    actions = tightener.columns(plan_model.actions, bounds.action_lower, bounds.action_upper)
    units_until = deadline if settings.units else -math.inf
    units = [
        _units(tightener, problem.dynamics, step, bounds.unit_lower[t], bounds.unit_upper[t], units_until)
        for t, step in enumerate(plan_model.steps)
    ]
    discrete_actions = np.array([v.is_discrete for v in problem.actions], dtype=bool)
    state_lower, state_upper = round_discrete(*states, problem.discrete_states)
    action_lower, action_upper = round_discrete(*actions, discrete_actions)
    return {
        "state_lower": state_lower,
        "state_upper": state_upper,
        "action_lower": action_lower,
        "action_upper": action_upper,
        "unit_lower": np.array([low for low, _ in units]),
        "unit_upper": np.array([high for _, high in units]),
    }


def _units(
    tightener: LpTightener, network: ReluNetwork, step: StepColumns, lower: Array, upper: Array, deadline: float
) -> tuple[Array, Array]:
    """Bounds of the pre-activations that may still switch."""
    low, high = lower.copy(), upper.copy()
    if clock.now() > deadline:
        return low, high
    matrix, offset = step.preactivations(network)
    for unit in np.flatnonzero((low < 0.0) & (high > 0.0)):
        row, constant = matrix[unit], offset[unit]
        used = np.flatnonzero(row)
        known = float(low[unit] - constant), float(high[unit] - constant)
        least, most = tightener.form(step.base[used], row[used], *known)
        low[unit], high[unit] = max(low[unit], least + constant), min(high[unit], most + constant)
    return low, high


def _with_cutoff(model: Model, cutoff: float) -> Model:
    """The model with the row objective >= cutoff."""
    builder = ModelBuilder.continuing(model)
    row = builder.add_rows(cutoff - model.offset, np.inf)
    builder.add_entries(row, np.arange(model.column_count), model.objective)
    return builder.build()
