"""NPZ files: one array per column, or the arrays states, actions and next_states."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.tables.array_table import ArrayTable
from reluplan.tables.table import check_header
from reluplan.wording import shortened, shown

NAMED = {"states": "state_names", "next_states": "state_names", "actions": "action_names"}
"""Arrays of several columns, and the array that names the columns of each."""
LARGEST_FILE = 2**32
"""Bytes that the arrays of a file may take: a few kilobytes of compressed zeros could fill any memory."""


def open_npz(path: Path) -> ArrayTable:
    """The columns of an NPZ file; nothing in it is unpickled, so nothing in it can run."""
    arrays = _arrays(path)
    columns = _expanded(path, arrays) if "states" in arrays else arrays
    for name, array in columns.items():
        if array.ndim != 1:
            raise InputError(f"{path}: array '{shortened(name)}' has shape {array.shape}; expected one number per row")
    lengths = {shortened(name): len(array) for name, array in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{path}: arrays have different lengths: {shown(lengths)}")
    check_header(path, tuple(columns))
    return ArrayTable(path, tuple(columns), tuple(columns.values()))


def npz_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of a compressed NPZ file with these arrays."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(path) as file:
            size = sum(entry.file_size for entry in file.infolist())
        if size <= LARGEST_FILE:
            with np.load(path, allow_pickle=False) as stored:
                return {name: np.asarray(stored[name]) for name in stored.files}
    except Exception as error:  # a broken file fails in many ways
        reason = "it holds pickled objects, which are never loaded" if "allow_pickle" in str(error) else str(error)
        raise InputError(f"{path}: cannot be read as NPZ ({reason}); write it with numpy.savez") from None
    raise InputError(f"{path}: its arrays take {size:,} bytes, above {LARGEST_FILE:,}; split it into several files")


def _expanded(path: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """One column for each column of the arrays states, actions and next_states, and for other arrays of one column."""
    known = {*NAMED, *NAMED.values()}
    columns = {name: array for name, array in arrays.items() if name not in known and array.ndim == 1}
    for key, naming in NAMED.items():
        if key not in arrays:
            continue
        if naming not in arrays or arrays[key].ndim != 2 or arrays[naming].shape != arrays[key].shape[1:]:
            raise InputError(f"{path}: the array '{key}' needs an array '{naming}' with the name of each column")
        names: Sequence[str] = [str(name) for name in arrays[naming]]
        mark = "'" if key == "next_states" else ""
        columns |= {f"{name}{mark}": column for name, column in zip(names, arrays[key].T, strict=True)}
    return columns
