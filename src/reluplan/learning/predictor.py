"""A trained network as a function of states and actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.learning.settings import Predicts
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Predictor:
    """Next values of the predicted states; input_columns are places in (s, a), output_columns places in s."""

    network: ReluNetwork
    input_columns: tuple[int, ...]
    output_columns: tuple[int, ...]
    predicts: Predicts

    def next_values(self, states: Array, actions: Array) -> Array:
        """The prediction of s' for the predicted states, shape (N, k)."""
        predicted = self.network.forward(np.hstack([states, actions])[:, self.input_columns])
        return predicted + states[:, self.output_columns] if self.predicts == "delta" else predicted


def is_rounded(variables: Sequence[Variable], names: Sequence[str]) -> NDArray[np.bool_]:
    """Which of the named states take whole numbers only."""
    discrete = {variable.name for variable in variables if variable.is_discrete}
    return np.array([name in discrete for name in names], dtype=bool)
