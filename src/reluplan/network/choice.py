"""Conditions that depend on the inputs of a network, and choices by them that do not jump."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.network.affine import Affine, NotPiecewiseLinearError

ROUNDING = 1e-13
"""Relative: coefficients that should be zero may be this large after a few operations in double precision."""


@dataclass(frozen=True, eq=False)
class Comparison(Affine):
    """A condition: where this tensor is positive. Nothing but a choice can be made of it.

    Whether zero counts as positive is not kept: it makes no difference to a choice that does not jump.
    """

    @classmethod
    def greater(cls, left: Affine, right: Affine) -> Comparison:
        difference = left - right
        return cls(difference.base, difference.rows)

    @property
    def difference(self) -> Affine:
        """The tensor itself."""
        return Affine(self.base, self.rows)


def slope_of_choice(condition: Affine, difference: Affine) -> NDArray[np.float64]:
    """The k, one per entry, for which difference = k condition.

    Only then is the difference of two alternatives zero where the condition changes; NotPiecewiseLinearError if there
    is none, up to rounding.
    """
    factors = _ratio(difference, condition)
    left = difference - condition * Affine.constant(factors)
    if _largest(left) > ROUNDING * max(_largest(difference), _largest(condition)):
        raise NotPiecewiseLinearError("its choice jumps where the condition changes, and a ReLU network cannot jump")
    return factors


def _ratio(difference: Affine, condition: Affine) -> NDArray[np.float64]:
    """For each entry, of the coefficients of the column that counts most in the condition; 0 if it has none."""
    entries = np.flatnonzero(np.diff(condition.rows.indptr))
    columns = abs(condition.rows[entries]).argmax(axis=1).ravel()
    ratios = np.zeros(condition.size)
    known = difference.extended(condition.column_count).rows
    ratios[entries] = np.ravel(known[entries, columns]) / np.ravel(condition.rows[entries, columns])
    return ratios.reshape(condition.shape)


def _largest(tensor: Affine) -> float:
    return float(max(np.abs(tensor.base).max(initial=0.0), np.abs(tensor.rows.data).max(initial=0.0)))
