"""Writing a model as an MPS or LP file that other solvers read."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import highspy

from reluplan.errors import InputError, SolverError
from reluplan.files import write_atomically
from reluplan.optimisation.highs_program import create_highs
from reluplan.optimisation.model import Model, unique_names
from reluplan.optimisation.solvers.highs_model import pass_model

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
    highs = create_highs({})
    if pass_model(highs, model, minimised=True, names=_safe_names(model)) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused the model")
    return highs


def _safe_names(model: Model) -> tuple[list[str], list[str]] | None:
    """The names of columns and rows as both formats accept them, no name twice."""
    if model.column_names is None or model.row_names is None:
        return None
    columns = unique_names([safe_name(name) for name in model.column_names])
    return columns, unique_names([safe_name(name) for name in model.row_names])
