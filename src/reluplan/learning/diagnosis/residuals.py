"""What the network leaves unexplained of the changes, in the order of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.learning.learning_data import LearningData
from reluplan.learning.predictor import Predictor

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Residuals:
    """One predicted state: its change s' − s and what the network misses of it, each (N,).

    inputs: what the network reads, standardised, (N, n). held_out: the rows that were not learned from.
    """

    state: str
    transitions: Transitions
    inputs: Array
    change: Array
    missed: Array
    held_out: Mask

    @classmethod
    def of(cls, data: LearningData, predictor: Predictor, output: int) -> Residuals:
        found = data.transitions
        column = data.output_columns[output]
        after = found.next_states[:, column]
        held_out = np.ones(len(found), dtype=bool)
        held_out[data.split.training] = False
        predicted = predictor.next_values(found.states, found.actions)[:, output]
        return cls(
            data.output_names[output], found, data.input_scaling.apply(data.inputs),
            after - found.states[:, column], after - predicted, held_out,
        )  # fmt: skip
