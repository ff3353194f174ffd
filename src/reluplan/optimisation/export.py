"""Writing a model as an MPS or LP file that other solvers read."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import highspy
import numpy as np

from reluplan.errors import InputError, SolverError
from reluplan.files import write_atomically
from reluplan.optimisation.model import Model, unique_names

FORMATS = (".mps", ".lp")
_BRACKETS = str.maketrans("[]", "()")


def export_model(model: Model, path: Path) -> None:
    """Write the model; the ending of the path chooses the format. Names such as `rlevel[t1]_3` become
    `rlevel(t1)_3`, because the LP format gives brackets a meaning.

    The files minimise the negated objective: the MPS format has no portable way to say "maximise".
    """
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: the file must end in {' or '.join(FORMATS)}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"model{path.suffix}"
        if _to_highs(model).writeModel(str(file)) == highspy.HighsStatus.kError:
            raise SolverError(f"{path}: HiGHS could not write the model")
        write_atomically(path, file.read_bytes())


def safe_name(name: str) -> str:
    """A name that both formats accept."""
    cleaned = re.sub(r"[^\w()#.]", "_", name.translate(_BRACKETS))
    return f"_{cleaned}" if re.match(r"[\d.eE]", cleaned) else cleaned


def _to_highs(model: Model) -> Any:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.column_count, model.row_count
    lp.col_cost_, lp.offset_ = -model.objective, -model.offset
    lp.col_lower_, lp.col_upper_ = model.column_lower, model.column_upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = model.matrix.indptr.astype(np.int32)
    lp.a_matrix_.index_ = model.matrix.indices.astype(np.int32)
    lp.a_matrix_.value_ = model.matrix.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[int(i)] for i in model.integer]
    if model.column_names is not None and model.row_names is not None:
        lp.col_names_ = unique_names([safe_name(name) for name in model.column_names])
        lp.row_names_ = unique_names([safe_name(name) for name in model.row_names])
    create: Any = highspy.Highs  # its constructor has no types
    highs = create()
    highs.setOptionValue("output_flag", False)
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused the model")
    return highs
