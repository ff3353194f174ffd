"""Cuts of single ReLUs: the exact hull of a unit of the first layer over the box of its inputs.

For P = max(0, w · x + b) with its binary z, x in a box, L_i and U_i the ends where w_i x_i is smallest and largest, and
any set I of inputs (Anderson, Huchette, Ma, Tjandraatmadja, Vielma, 2020):

    P <= Σ_{i in I} w_i (x_i − L_i (1 − z)) + (b + Σ_{i not in I} w_i U_i) z.

It holds for z = 0, where P = 0 <= Σ_I w_i (x_i − L_i), and for z = 1, where P = w · x + b and w_i x_i <= w_i U_i. There
are exponentially many; the most violated one at a point is found at once: i is in I where w_i x_i is below
w_i (L_i (1 − z) + U_i z).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.encoding.settings import CutSettings
from reluplan.encoding.unroll import PlanModel
from reluplan.optimisation.model import Index, Model, ModelBuilder
from reluplan.optimisation.solvers.base import SolveOptions
from reluplan.optimisation.solvers.highs import HighsSolver

Array = NDArray[np.float64]

DEFAULT = CutSettings()
ROUNDING = 1e-9
"""Every cut is this much weaker (relative to its terms), for the rounding of its coefficients."""


class Unit(NamedTuple):
    """P = max(0, w · x[inputs] + bias): the box of its inputs, and the columns of P and z."""

    inputs: Index
    weights: Array
    bias: float
    lower: Array
    upper: Array
    output: int
    binary: int


def first_layer_units(plan_model: PlanModel) -> Iterator[list[Unit]]:
    """The units of the first layer that can switch, step by step."""
    layer, model = plan_model.problem.dynamics.hidden[0], plan_model.model
    for t in range(plan_model.horizon):
        inputs = np.concatenate([plan_model.states[t], plan_model.actions[t], plan_model.auxiliaries[t]])
        box = model.column_lower[inputs], model.column_upper[inputs]
        outputs, binaries = plan_model.unit_outputs[t], plan_model.unit_binaries[t]
        yield [
            Unit(inputs, layer.weights[u], float(layer.bias[u]), *box, int(outputs[u]), int(binaries[u]))
            for u in range(len(layer.bias))
            if binaries[u] >= 0
        ]


def add_ideal_cuts(plan_model: PlanModel, deadline: float = math.inf, settings: CutSettings = DEFAULT) -> Model:
    """The model of a plan with cuts at the solutions of its LP relaxation, a few rounds, until the deadline (of
    clock.now)."""
    model = plan_model.model
    if not plan_model.problem.dynamics.hidden:
        return model
    units = [unit for step in first_layer_units(plan_model) for unit in step]
    units = [unit for unit in units if np.isfinite([unit.lower, unit.upper]).all()]
    for _ in range(settings.rounds):
        remaining = deadline - clock.now()
        if remaining <= 0.0:
            return model
        x = HighsSolver().solve(model.relaxed(), SolveOptions(time_limit=remaining)).solution
        if x is None:
            return model
        builder = ModelBuilder.continuing(model)
        for unit in units:
            _add_cut(builder, unit, x, settings.worthwhile)
        if builder.row_count == model.row_count:
            return model
        model = builder.build()
    return model


def _add_cut(builder: ModelBuilder, unit: Unit, x: Array, worthwhile: float) -> None:
    """The most violated cut of a unit at x, if it is violated."""
    w, at, z = unit.weights, x[unit.inputs], x[unit.binary]
    low = np.where(w >= 0.0, unit.lower, unit.upper)
    high = np.where(w >= 0.0, unit.upper, unit.lower)
    inside = w * at < w * (low * (1.0 - z) + high * z)
    least = float((w * low)[inside].sum())
    slope = unit.bias + float((w * high)[~inside].sum())
    allowed = float((w * at)[inside].sum()) - least * (1.0 - z) + slope * z
    if x[unit.output] <= allowed + worthwhile * max(1.0, abs(x[unit.output])):
        return
    size = np.abs(w * low).sum() + np.abs(w * high).sum() + abs(unit.bias)
    row = builder.add_rows(-np.inf, -least + ROUNDING * float(size))
    builder.add_entries(row, unit.output, 1.0)
    builder.add_entries(row, unit.inputs[inside], -w[inside])
    builder.add_entries(row, unit.binary, -slope - least)
