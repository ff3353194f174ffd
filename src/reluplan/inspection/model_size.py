"""How large the planning MILP will be, without building it: its steps are counted one by one, equal ones once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.span import Span
from reluplan.encoding.relu import needs_binary
from reluplan.encoding.window import cut_window
from reluplan.inspection.settings import InspectionSettings
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.problem import Problem


@dataclass(frozen=True)
class ModelSize:
    """The MILP over the whole horizon, as `export` writes it. integers: columns that take whole numbers, binaries of
    units included. steps: how many of its steps were counted; the others are taken to be like the last of these.
    nonzeros_are_counted: or else bounded from above, for steps too large to be built. form_bytes: the affine forms of
    all units that the planner keeps beside the model, at 8 bytes a number."""

    columns: int
    integers: int
    unit_binaries: int
    rows: int
    nonzeros: int
    steps: int
    horizon: int
    nonzeros_are_counted: bool
    form_bytes: int

    @property
    def is_whole(self) -> bool:
        """Whether every step was counted."""
        return self.steps == self.horizon

    def bytes(self, per_entry: float, base: float) -> float:
        """Of memory that planning takes, about: base + forms + per_entry · nonzeros."""
        return base + self.form_bytes + per_entry * self.nonzeros


@dataclass(frozen=True)
class _Count:
    columns: int
    integers: int
    unit_binaries: int
    rows: int
    nonzeros: int
    forms: int
    is_counted: bool

    def plus(self, other: _Count, times: int = 1) -> _Count:
        return _Count(
            self.columns + times * other.columns,
            self.integers + times * other.integers,
            self.unit_binaries + times * other.unit_binaries,
            self.rows + times * other.rows,
            self.nonzeros + times * other.nonzeros,
            self.forms + times * other.forms,
            self.is_counted and other.is_counted,
        )


def model_size(
    problem: Problem, bounds: HorizonBounds, settings: InspectionSettings, deadline: float = math.inf
) -> ModelSize:
    """Count the model over problem.horizon, of whose first steps bounds are given.

    Rows of step t read columns of step t and the next state alone, so the model is the sum of models of single steps
    (`cut_window`, what proofs over windows build), in which each state between two steps is counted twice.
    """
    known: dict[bytes, _Count] = {}
    total = _Count(0, 0, 0, 0, 0, 0, True)
    last = total
    steps = 0
    for t in range(bounds.horizon):
        if steps and clock.now() > deadline:
            break
        last = _step(problem, bounds, t, known, settings)
        total = total.plus(last)
        steps += 1
    total = total.plus(last, problem.horizon - steps).plus(_shared(problem), -(problem.horizon - 1))
    return ModelSize(
        total.columns, total.integers, total.unit_binaries, total.rows, total.nonzeros, steps, problem.horizon,
        total.is_counted, 8 * total.forms,
    )  # fmt: skip


def _shared(problem: Problem) -> _Count:
    """The state and its auxiliaries between two steps."""
    shared = problem.states + problem.auxiliaries
    return _Count(len(shared), sum(variable.is_discrete for variable in shared), 0, 0, 0, 0, True)


def _step(
    problem: Problem, bounds: HorizonBounds, t: int, known: dict[bytes, _Count], settings: InspectionSettings
) -> _Count:
    is_edge = t == 0 or t == problem.horizon - 1
    boxes = [array[t : t + 2] if name in _AT_BOTH_ENDS else array[t] for name, array in bounds.arrays().items()]
    key = b"".join(np.ascontiguousarray(box).tobytes() for box in boxes) + bytes([is_edge])
    if key not in known or is_edge:
        known[key] = _count_step(problem, bounds, t, settings)
    return known[key]


_AT_BOTH_ENDS = ("state_lower", "state_upper", "auxiliary_lower", "auxiliary_upper")


def _count_step(problem: Problem, bounds: HorizonBounds, t: int, settings: InspectionSettings) -> _Count:
    """A window of one step, built and counted; the network by formula alone if it is too large to be built."""
    network = _network_count(problem.dynamics, bounds, t)
    if network.nonzeros <= settings.step_entries:
        model = cut_window(problem, bounds, Span(t, 1)).plan_model.model
        integers = int(model.integer.sum())
        return replace(
            network, columns=model.column_count, integers=integers, rows=model.row_count, nonzeros=int(model.matrix.nnz)
        )
    rest = cut_window(_without_units(problem), _without_unit_bounds(bounds), Span(t, 1)).plan_model.model
    size = _Count(rest.column_count, int(rest.integer.sum()), 0, rest.row_count, int(rest.matrix.nnz), 0, True)
    return replace(network.plus(size), is_counted=False)


def _network_count(network: ReluNetwork, bounds: HorizonBounds, t: int) -> _Count:
    """What the units of one step add (`encode_network`): for each undecided unit a column, a row P >= In, and a binary
    with two rows, or the chord if it is too narrow to need one. nonzeros: at most, if every affine form is full."""
    low = bounds.unit_lower[t]
    high = bounds.unit_upper[t]
    undecided = (low < 0.0) & (high > 0.0)
    wide = undecided & needs_binary(low, high)
    base = network.input_count
    nonzeros = 0
    for units in network.unit_slices:
        count = int(undecided[units].sum())
        nonzeros += 2 * count * (base + 1) + 3 * count
        base += count
    nonzeros += network.output_count * base
    binaries = int(wide.sum())
    columns = int(undecided.sum())
    forms = (network.relu_count + network.output_count) * base
    return _Count(columns + binaries, binaries, binaries, 2 * columns + binaries, nonzeros, forms, True)


def _without_units(problem: Problem) -> Problem:
    """The same problem with predictions that read nothing."""
    count = len(problem.states)
    still = Layer(np.zeros((count, problem.layout.input_count)), np.zeros(count))
    return replace(problem, dynamics=ReluNetwork(problem.layout.input_count, (), still))


def _without_unit_bounds(bounds: HorizonBounds) -> HorizonBounds:
    arrays = bounds.arrays()
    return HorizonBounds(**{**arrays, **{name: arrays[name][:, :0] for name in ("unit_lower", "unit_upper")}})
