"""The one place where a model becomes a HiGHS model."""

from __future__ import annotations

from typing import Any

import numpy as np

from reluplan.optimisation.model import Model

SMALLEST_ENTRY = 1e-12
"""HiGHS's default, 1e-9, drops small weights of a network; it allows no less than this."""
ENTRY_LIMITS = {"small_matrix_value": SMALLEST_ENTRY, "large_matrix_value": 1e25}
"""For LPs that are not scaled: rewards of 1e9 on states of 1e-6 have entries of 1e15, which HiGHS refuses as it is."""
_ROW_WISE, _MAXIMISE = 2, -1


def pass_model(highs: Any, model: Model, relaxed: bool = False) -> Any:
    """Hand the model to a highspy.Highs, without its integrality if relaxed; returns HiGHS's status."""
    matrix = model.matrix
    integer = np.zeros(model.column_count, dtype=bool) if relaxed else model.integer
    return highs.passModel(
        model.column_count,
        model.row_count,
        matrix.nnz,
        _ROW_WISE,
        _MAXIMISE,
        model.offset,
        model.objective,
        model.column_lower,
        model.column_upper,
        model.row_lower,
        model.row_upper,
        matrix.indptr.astype(np.int32),
        matrix.indices.astype(np.int32),
        matrix.data.astype(np.float64),
        integer.astype(np.int32),
    )
