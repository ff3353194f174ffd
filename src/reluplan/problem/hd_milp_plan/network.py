"""The learned network of an HD-MILP-Plan instance, from its list of units."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.hd_milp_plan.files import Instance, Unit, UnitMapping


@dataclass(frozen=True)
class LearnedTransition:
    """A network with the variables that its inputs and outputs stand for, in the network's order."""

    network: ReluNetwork
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def learned_transition(instance: Instance, known: Collection[str]) -> LearnedTransition | None:
    """The network without the outputs of states whose transition is known; None if no output is left."""
    inputs = [mapping for mapping in instance.mappings if mapping.is_input]
    outputs = [mapping for mapping in instance.mappings if not mapping.is_input and mapping.variable not in known]
    _check_units(instance)
    if not outputs:
        return None
    columns = {mapping.unit: column for column, mapping in enumerate(inputs)}
    hidden = []
    for units in _layers(instance.units, columns):
        hidden.append(_layer(units, columns))
        columns |= {unit.name: len(columns) + at for at, unit in enumerate(units)}
    last = _layer([_output_unit(instance, mapping) for mapping in outputs], columns)
    return LearnedTransition(
        ReluNetwork(len(inputs), tuple(hidden), last),
        tuple(mapping.variable for mapping in inputs),
        tuple(mapping.variable for mapping in outputs),
    )


def _check_units(instance: Instance) -> None:
    """Every unit reads inputs and ReLUs only, and is a ReLU or stands for a state."""
    inputs = {mapping.unit for mapping in instance.mappings if mapping.is_input}
    outputs = {mapping.unit for mapping in instance.mappings if not mapping.is_input}
    for unit in instance.units.values():
        for read in unit.weights:
            if read not in inputs and read not in instance.units:
                what = "a network input that the mappings file does not name" if read[:1] == "N" else "an unknown unit"
                raise unit.line.error(f"unit {unit.name} reads '{read}', {what}")
            if read in instance.units and instance.units[read].activation != "relu":
                raise unit.line.error(f"unit {unit.name} reads {read}, an output: only inputs and ReLUs can be read")
        if (unit.name in outputs) == (unit.activation == "relu"):
            fault = "stands for a state" if unit.name in outputs else "stands for no state in the mappings file"
            raise unit.line.error(f"the {unit.activation} unit {unit.name} {fault}: outputs are linear or step units")


def _layers(units: Mapping[str, Unit], inputs: Collection[str]) -> list[list[Unit]]:
    """The ReLUs by depth: each reads only inputs and units of the layers before its own."""
    placed = set(inputs)
    waiting = [unit for unit in units.values() if unit.activation == "relu"]
    layers = []
    while waiting:
        ready = [unit for unit in waiting if placed.issuperset(unit.weights)]
        if not ready:
            names = ", ".join(unit.name for unit in waiting)
            raise waiting[0].line.error(f"unit {waiting[0].name} is in no layer: among {names}, units read in a circle")
        layers.append(ready)
        placed.update(unit.name for unit in ready)
        waiting = [unit for unit in waiting if unit.name not in placed]
    return layers


def _layer(units: Sequence[Unit], columns: Mapping[str, int]) -> Layer:
    weights = np.zeros((len(units), len(columns)))
    for row, unit in enumerate(units):
        for read, weight in unit.weights.items():
            weights[row, columns[read]] = weight
    return Layer(weights, np.array([unit.bias for unit in units]))


def _output_unit(instance: Instance, mapping: UnitMapping) -> Unit:
    """The unit of an output; step units are shifted by 1/2.

    HD-MILP-Plan has s' = 1 iff In ≥ 0 for a step unit; a boolean state of `Problem` is 1 iff its prediction ≥ 1/2.
    """
    unit = instance.units[mapping.unit]
    kind = instance.variables[mapping.variable].kind
    if (unit.activation == "step") != (kind == "boolean"):
        raise unit.line.error(
            f"the {unit.activation} unit {unit.name} predicts the {kind} state '{mapping.variable}': "
            f"boolean states, and only those, are predicted by step units"
        )
    shift = 0.5 if unit.activation == "step" else 0.0
    return Unit(unit.name, unit.activation, unit.weights, unit.bias + shift, unit.line)
