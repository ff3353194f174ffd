"""CSV as spreadsheets and programs write it: comma, semicolon or tab; decimal point or comma; any line ending."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.data.table import check_header
from reluplan.errors import InputError

Array = NDArray[np.float64]
DELIMITERS = (";", "\t", ",")
TRUTH = {"true": 1.0, "false": 0.0}
CHUNK = 20_000
"""Rows that are held as text at a time."""


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A CSV file: its header, and its rows as text until columns are asked for.

    body: the text after the header, without empty lines at its end; first_line: the file's line where it starts.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str
    body: str
    first_line: int

    @cached_property
    def row_count(self) -> int:
        return self.body.count("\n") if self._is_regular else sum(1 for _ in self._rows())

    def numbers(self, columns: Sequence[int]) -> Array:
        """The values of some columns; plain files take a fast path, the rest is read cell by cell."""
        if self._is_regular and columns:
            try:
                return np.loadtxt(
                    io.StringIO(self.body), delimiter=self.delimiter, usecols=columns, comments=None, ndmin=2
                )
            except ValueError:
                pass  # an empty cell, a truth value or a text: read slowly, to say which
        return self._read_cells(columns)

    def where(self, row: int) -> str:
        if self._is_regular:
            return f"line {self.first_line + row}"
        return f"line {next(islice(self._rows(), row, None))[0]}"

    def gap(self) -> str | None:
        if self._is_regular:
            return None
        lines = self.body.split("\n")[:-1]
        return next((f"line {self.first_line + at}" for at, line in enumerate(lines) if self._is_empty(line)), None)

    @cached_property
    def _is_regular(self) -> bool:
        """Whether every line is one row: no quotes, no empty lines, as many delimiters everywhere as in the header."""
        if '"' in self.body or not self.body:
            return False
        characters = np.frombuffer(self.body.encode(), dtype=np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        delimiters = np.flatnonzero(characters == ord(self.delimiter))
        counts = np.diff(np.searchsorted(delimiters, ends), prepend=0)
        filled = np.diff(ends, prepend=-1) - 1 > counts
        return bool(filled.all() and (counts == len(self.columns) - 1).all())

    def _is_empty(self, line: str) -> bool:
        return not line.strip(f'{self.delimiter} "\t')

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of every row that is not empty."""
        reader = csv.reader(io.StringIO(self.body), delimiter=self.delimiter)
        started = 0
        for cells in reader:
            line, started = self.first_line + started, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            while len(cells) > len(self.columns) and not cells[-1].strip():
                cells.pop()
            if len(cells) != len(self.columns):
                raise InputError(
                    f"{self.path}: line {line} has {len(cells)} cells, the header has {len(self.columns)} columns"
                    + self._comma_hint(cells)
                )
            yield line, cells

    def _comma_hint(self, cells: Sequence[str]) -> str:
        if self.delimiter == "," and len(cells) > len(self.columns):
            return "; if numbers are written with a decimal comma, separate the columns by semicolons"
        return ""

    def _read_cells(self, columns: Sequence[int]) -> Array:
        rows = self._rows()
        parts = []
        while chunk := list(islice(rows, CHUNK)):
            parts.append(np.array([[self._number(line, cells, at) for at in columns] for line, cells in chunk]))
        return np.concatenate(parts) if parts else np.empty((0, len(columns)))

    def _number(self, line: int, cells: Sequence[str], at: int) -> float:
        text = cells[at].strip()
        if not text:
            return math.nan
        try:
            return float(text)
        except ValueError:
            if text.lower() in TRUTH:
                return TRUTH[text.lower()]
        where = f"line {line}, column '{self.columns[at]}'"
        raise InputError(f"{self.path}: {where}: expected a number, got {text!r}")


def open_csv(path: Path) -> CsvTable:
    """Read a file's text and its header; the header decides what separates the columns."""
    text = read_text(path)
    return csv_table(path, text, 1)


def csv_table(path: Path, text: str, line: int) -> CsvTable:
    """The table in a text whose first line is the file's given line."""
    blank = len(text) - len(text.lstrip("\n"))
    text, line = text[blank:], line + blank
    declared = re.match(r"sep=(.)\n", text)  # a line by which Excel is told the separator
    if declared:
        text, line = text[declared.end() :], line + 1
    header, _, body = text.partition("\n")
    if not header.strip():
        raise InputError(f"{path}: is empty; expected a header with the names of the variables, then one row per step")
    delimiter = declared[1] if declared else _delimiter(header)
    columns = _header(header, delimiter)
    check_header(path, columns)
    body = _trimmed(body, delimiter)
    if delimiter != "," and "," in body:
        body = body.replace(",", ".")
    return CsvTable(path, columns, delimiter, body, line + 1)


def read_text(path: Path) -> str:
    """The text of a file with plain line ends, in the encodings that spreadsheets write."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if b"\0" in content[:1000] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{path}: is not a text file, so not CSV; save the sheet as CSV")
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")  # what Excel writes on Windows unless told otherwise
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _delimiter(header: str) -> str:
    """The separator that the header uses most, outside quotes and brackets: names such as x[a,b] hold commas."""
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\([^)]*\)', "", header)
    return max(DELIMITERS, key=lambda mark: (bare.count(mark), mark == ","))


def _header(line: str, delimiter: str) -> tuple[str, ...]:
    """The names in a header; a comma inside the brackets of a name does not end it."""
    names: list[str] = []
    for cell in next(csv.reader([line], delimiter=delimiter)):
        if names and names[-1].count("[") > names[-1].count("]"):
            names[-1] += delimiter + cell
        else:
            names.append(cell)
    while len(names) > 1 and not names[-1].strip():
        names.pop()
    return tuple(name.strip() for name in names)


def _trimmed(body: str, delimiter: str) -> str:
    """The rows without empty lines at their end, and with a line end after the last."""
    end = len(body)
    while end > 0:
        start = body.rfind("\n", 0, end) + 1
        if body[start:end].strip(f'{delimiter} \t"'):
            return f"{body[:end]}\n"
        end = start - 1
    return ""
