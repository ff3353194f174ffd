"""The one place where a model becomes a HiGHS model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reluplan.optimisation.model import Model

Options = Mapping[str, bool | int | float | str]

KEPT_ENTRY = 1e-12
"""The smallest entry that HiGHS keeps. Its default, 1e-9, drops small weights of a network; it allows no less."""
UNSCALED: Options = {"small_matrix_value": KEPT_ENTRY, "large_matrix_value": 1e25}
"""For LPs that are not scaled: rewards of 1e9 on states of 1e-6 have entries of 1e15, which HiGHS refuses as it is."""
_ROW_WISE = 2
_MINIMISE = 1
_MAXIMISE = -1


def pass_model(
    highs: Any,
    model: Model,
    relaxed: bool = False,
    minimised: bool = False,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
) -> Any:
    """Hand the model to a highspy.Highs; returns HiGHS's status.

    relaxed: without its integrality. minimised: max c·x is said as min −c·x. names: of columns and rows.
    """
    matrix = model.matrix
    sign = -1.0 if minimised else 1.0
    integer = np.zeros(model.column_count, dtype=bool) if relaxed else model.integer
    status = highs.passModel(
        model.column_count,
        model.row_count,
        matrix.nnz,
        _ROW_WISE,
        _MINIMISE if minimised else _MAXIMISE,
        sign * model.offset,
        sign * model.objective,
        model.column_lower,
        model.column_upper,
        model.row_lower,
        model.row_upper,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float64),
        integer.astype(np.int32),
    )
    if names is not None:
        _pass_names(highs, *names)
    return status


def _pass_names(highs: Any, columns: Sequence[str], rows: Sequence[str]) -> None:
    for index, name in enumerate(columns):
        highs.passColName(index, name)
    for index, name in enumerate(rows):
        highs.passRowName(index, name)
