"""Names of variables as cells of CSV files that spreadsheets may open.

A spreadsheet runs a cell that begins with = + - or @ as a formula, and some of those start programs. A name that begins
so is written with a single quote before it, which spreadsheets take as "this is text"; readers take it off again.
Numbers are written as they are.
"""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
MARK = "'"


def escaped(name: str) -> str:
    """The name as a cell that no spreadsheet computes.

    >>> escaped("=1+2"), escaped("level"), escaped("'=1+2")
    ("'=1+2", 'level', "''=1+2")
    """
    return MARK + name if name.lstrip(MARK).startswith(FORMULA_STARTS) else name


def unescaped(cell: str) -> str:
    """The name in a cell, whether it was escaped or not; the inverse of `escaped`.

    >>> unescaped("'=1+2"), unescaped("=1+2"), unescaped("level'")
    ('=1+2', '=1+2', "level'")
    """
    marked = cell.startswith(MARK) and cell.lstrip(MARK).startswith(FORMULA_STARTS)
    return cell.removeprefix(MARK) if marked else cell
