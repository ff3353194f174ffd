"""The strengthened plan: for every step, potentials bound the reward by the activation pattern."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.encoding.relu import StepColumns
from reluplan.errors import OutOfTimeError
from reluplan.optimisation.model import ModelBuilder
from reluplan.optimisation.piecewise_rows import LinearForm
from reluplan.potentials.entry_columns import EntryColumns, encode_entries
from reluplan.potentials.potentials import RewardPotentials

Array = NDArray[np.float64]


@dataclass(eq=False)
class StrengtheningRows:
    """An extension of the plan model: the paper's rows S_0 (with S_1 and S_2 from `encode_entries`).

        S_0:  φ_t = constant + Σ_u [Σ_i von_{u,i} q_{u,i,t} + voff_u (1 − b_{u,t})] >= R_t

    for each of the potentials and each step that it is valid for. Potentials with equal features share their columns.
    deadline: of clock.now, when OutOfTimeError is raised.
    """

    potentials: Sequence[RewardPotentials]
    deadline: float = math.inf
    entries: list[EntryColumns] = field(default_factory=list)

    def extend(
        self, builder: ModelBuilder, steps: Sequence[StepColumns], bounds: HorizonBounds, reward: LinearForm
    ) -> None:
        for t, step in enumerate(steps):
            if clock.now() > self.deadline:
                raise OutOfTimeError(f"the model of {len(steps)} steps could not be built within the time limit")
            encoded: dict[bytes, EntryColumns] = {}
            for potentials in self.potentials:
                if potentials.first <= t <= potentials.last:
                    key = potentials.features.key()
                    if key not in encoded:
                        encoded[key] = encode_entries(builder, potentials.features, step, bounds, t)
                    add_potential_row(builder, encoded[key], potentials, reward, t)
            self.entries.extend(encoded.values())

    def fill(self, x: Array, units: Array) -> None:
        for columns in self.entries:
            columns.fill(x, units[columns.step])


def add_potential_row(
    builder: ModelBuilder, entries: EntryColumns, potentials: RewardPotentials, reward: LinearForm, t: int
) -> None:
    """Append S_0 of one step, whose entries are those of the potentials."""
    columns, coefficients, constant = entries.linear_form(potentials.values, largest=True)
    rows = builder.add_rows(
        np.array([reward.constant - constant - potentials.constant]), np.inf, name=f"potential_{t + 1}"
    )
    builder.add_entries(rows, columns, coefficients)
    builder.add_entries(rows, reward.columns[t], -reward.coefficients)
