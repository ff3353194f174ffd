"""Transitions as inputs and targets of a network: which columns, which rows, which units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.learning.scaling import Scaling
from reluplan.learning.settings import TrainingSettings
from reluplan.learning.split import Split, split_transitions
from reluplan.problem.problem import Variable
from reluplan.wording import did_you_mean

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LearningData:
    """Transitions in the order of episodes and steps, and what a network is to make of them.

    rows: their places in the data as given. inputs (N, n) and targets (N, k) in raw units. input_columns are places in
    (s, a), output_columns places in s. Scalings are those of the training part; targets are divided by the deviation
    of the change s' − s, so that a loss of 1 is that of predicting no more than the mean change.
    """

    transitions: Transitions
    rows: Index
    input_columns: tuple[int, ...]
    output_columns: tuple[int, ...]
    inputs: Array
    targets: Array
    split: Split
    input_scaling: Scaling
    target_scaling: Scaling

    @property
    def input_names(self) -> tuple[str, ...]:
        names = (*self.transitions.state_names, *self.transitions.action_names)
        return tuple(names[at] for at in self.input_columns)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(self.transitions.state_names[at] for at in self.output_columns)


def learning_data(
    transitions: Transitions, inputs: Sequence[str], outputs: Sequence[str], settings: TrainingSettings
) -> LearningData:
    """Choose the columns by name, split the rows, measure the scales."""
    rows = np.lexsort((transitions.step, transitions.episode))
    ordered = transitions.select(rows)
    read = _places("inputs", inputs, (*transitions.state_names, *transitions.action_names))
    predicted = _places("outputs", outputs, transitions.state_names)
    values = np.hstack([ordered.states, ordered.actions])[:, read]
    change = (ordered.next_states - ordered.states)[:, predicted]
    targets = change if settings.predicts == "delta" else ordered.next_states[:, predicted]
    split = split_transitions(
        ordered, settings.validation_share, settings.test_share, settings.seed, settings.splitting
    )
    training = split.training
    return LearningData(
        ordered, rows, read, predicted, values, targets, split,
        Scaling.of(values[training]),
        Scaling.of(targets[training], change[training].std(axis=0)),
    )  # fmt: skip


def input_box(data: LearningData, variables: Sequence[Variable]) -> tuple[Array, Array]:
    """The declared bounds of the inputs; where there are none, the range of the data."""
    known = {variable.name: variable for variable in variables}
    declared = [known.get(name, Variable(name)) for name in data.input_names]
    lower = np.array([variable.lower for variable in declared])
    upper = np.array([variable.upper for variable in declared])
    return (
        np.where(np.isfinite(lower), lower, data.inputs.min(axis=0)),
        np.where(np.isfinite(upper), upper, data.inputs.max(axis=0)),
    )


def _places(what: str, names: Sequence[str], known: Sequence[str]) -> tuple[int, ...]:
    for name in names:
        if name not in known:
            raise InputError(
                f"the network's {what}: the data have no column '{name}' ({did_you_mean(name, known, 'they have')})"
            )
    if not names or len(set(names)) < len(names):
        raise InputError(f"the network's {what}: expected one or more different names, got {list(names)}")
    return tuple(known.index(name) for name in names)
