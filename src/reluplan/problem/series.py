"""Series: numbers that are known for every step, such as prices and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Series:
    """Values of steps 1, 2, ...; one that repeats begins anew after its last value.

    place: of the series and of a step's value, for errors.
    """

    name: str
    values: Array
    repeats: bool = False
    place: str = ""

    def at(self, steps: NDArray[np.int64]) -> Array:
        """The values of some steps (from 0); behind the end of one that does not repeat, its last value."""
        count = len(self.values)
        return np.asarray(self.values[steps % count if self.repeats else np.minimum(steps, count - 1)])

    def require(self, steps: int, reads_last: bool) -> None:
        """InputError if there are fewer values than steps; reads_last: whether something reads one more, that of x'."""
        needed = steps + reads_last
        if self.repeats or len(self.values) >= needed:
            return
        why = f" (row {needed} is that of the final state, which is read)" if reads_last else ""
        raise InputError(
            f"{self.place or self.name}: has {len(self.values)} rows, but {needed} are needed for {steps} steps{why}; "
            "add rows, plan over fewer steps, or let it repeat"
        )

    @property
    def is_constant(self) -> bool:
        return bool((self.values == self.values[0]).all())

    def lagged(self, name: str, steps: int, history: Array) -> Series:
        """The value of some steps ago; history: of the steps before the first, the most recent first."""
        if self.repeats:
            return replace(self, name=name, values=np.roll(self.values, steps))
        return replace(self, name=name, values=np.concatenate([history[:steps][::-1], self.values]))


def table(series: Sequence[Series], first: int, count: int) -> Array:
    """The values of all series from a step (from 0) on, shape (count, number of series)."""
    steps = np.arange(first, first + count)
    return np.array([one.at(steps) for one in series], dtype=np.float64).reshape(len(series), count).T
