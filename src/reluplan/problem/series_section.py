"""The section [series] of a problem file: numbers known for every step, listed or read from data files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.problem.series import Series
from reluplan.problem.toml_file import TomlFile
from reluplan.tables.formats import open_table
from reluplan.tables.table import Table, no_number
from reluplan.wording import did_you_mean, shown

Array = NDArray[np.float64]

SERIES_KEYS = {"values", "file", "column", "repeat", "history"}
MOST_VALUES = 1_100_000
"""Rows that are read; the longest horizon has fewer steps."""


def read_series(file: TomlFile) -> tuple[dict[str, Series], dict[str, Array]]:
    """The series by their names, and what is known of each before the first step, the most recent first."""
    found: dict[str, Series] = {}
    histories: dict[str, Array] = {}
    tables: dict[Path, Table] = {}
    for name, section in file.get(file.data, "series", dict, "", {}).items():
        where = f'series."{name}"'
        if not isinstance(section, dict):
            raise file.error(where, f"expected a table with the key values or file, got {shown(section)}")
        file.check_keys(section, SERIES_KEYS, where)
        found[name] = _one(file, name, section, where, tables)
        histories[name] = read_numbers(file, section.get("history", []), f"{where}.history")
    return found, histories


def read_numbers(file: TomlFile, values: Any, where: str) -> Array:
    """A list of finite numbers."""
    if not isinstance(values, list):
        raise file.error(where, f"expected a list of numbers, got {shown(values)}")
    numbers = [file.finite(value, f"{where}[{at}]") for at, value in enumerate(values)]
    return np.array(numbers, dtype=np.float64)


def read_column(file: TomlFile, section: Mapping[str, Any], name: str, where: str, tables: dict[Path, Table]) -> Array:
    """A column of a data file beside the problem file, every cell of it a finite number; tables: of files before."""
    path = file.path.parent / file.get(section, "file", str, where)
    column = file.get(section, "column", str, where, name)
    if path not in tables:
        tables[path] = open_table(path)
    table = tables[path]
    if column not in table.columns:
        hint = did_you_mean(column, [known for known in table.columns if known], "the file has")
        raise file.error(where, f"'{path.name}' has no column {shown(column)} ({hint})")
    values = table.numbers([table.columns.index(column)])[:, 0]
    gap = table.gap()
    if gap is not None:
        raise file.error(where, f"{path}: {gap} is empty, so steps would be missing; fill it in or delete it")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        place = f"{table.where(int(wrong[0]))} (step {wrong[0] + 1}), column '{column}'"
        raise file.error(where, f"{path}: {place}: {no_number(values[wrong[0]])}; every step needs a number")
    return np.asarray(values)


def _one(file: TomlFile, name: str, section: Mapping[str, Any], where: str, tables: dict[Path, Table]) -> Series:
    repeats = section.get("repeat", False)
    if not isinstance(repeats, bool):
        raise file.error(f"{where}.repeat", f"expected true or false, got {shown(repeats)}")
    if ("values" in section) == ("file" in section):
        raise file.error(where, "needs one of the keys values and file: a list of numbers, or a data file")
    if "values" in section:
        if "column" in section:
            raise file.error(where, "the key 'column' belongs to a file")
        values = read_numbers(file, section["values"], f"{where}.values")
        place = f"{file.path}: {where}"
    else:
        values = read_column(file, section, name, where, tables)
        place = f"{file.path}: {where}: {section['file']}"
    if not len(values):
        raise file.error(where, "has no value; it needs one for every step")
    if len(values) > MOST_VALUES:
        raise file.error(where, f"has {len(values):,} rows, above {MOST_VALUES:,}")
    return Series(name, values, repeats, place)


def folded(series: Mapping[str, Series], kept: Sequence[str]) -> dict[str, float]:
    """The values of series that never change: they are constants, unless they are among those that are kept."""
    return {name: float(one.values[0]) for name, one in series.items() if name not in kept and one.is_constant}
