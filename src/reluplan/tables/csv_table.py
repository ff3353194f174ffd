"""CSV as spreadsheets and programs write it: comma, semicolon or tab; decimal point or comma; any line ending."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.tables.csv_names import unescaped
from reluplan.tables.table import check_header
from reluplan.tables.time_stamps import seconds_of_texts
from reluplan.wording import shortened

Array = NDArray[np.float64]
DELIMITERS = (";", "\t", ",")
TRUTH = {"true": 1.0, "false": 0.0}
LOG_HEADER = re.compile(r"^timestamp,iteration,epoch,.*,reward,done$", re.MULTILINE)
LOG_HEADER_WITHIN = 100_000
LOG_BANNER = re.compile(rf"#+$|New Trial$|{LOG_HEADER.pattern[1:]}")
CHUNK = 20_000
"""Rows that are held as text at a time."""
DECIMAL_COMMA = str.maketrans({",": ".", ".": "\x1f"})
"""Numbers with decimal commas as Python reads them; a point among them (1.234,5 or 1.234) makes no number any more."""


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A CSV file: its header, and its rows as text until columns are asked for.

    body: the text after the header, without empty lines at its end; lines: where each of its lines stands in the file.
    logs_outcomes: whether a row holds the state after its action, as pyRDDLGym's logs do.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str
    body: str
    lines: Sequence[int]
    logs_outcomes: bool = False

    @cached_property
    def row_count(self) -> int:
        return self.body.count("\n") if self._is_regular else sum(1 for _ in self._rows())

    def numbers(self, columns: Sequence[int]) -> Array:
        """The values of some columns; plain files take a fast path, the rest is read cell by cell."""
        for body in self._spellings() if self._is_regular and columns else ():
            try:
                return _read_plain(body, self.delimiter, len(self.columns), columns)
            except ValueError:
                pass  # an empty cell, a truth value or a text: read slowly, to say which
        return self._read_cells(columns)

    def _spellings(self) -> Iterator[str]:
        """The rows with decimal points, then with decimal commas, unless commas separate the columns."""
        yield self.body
        if self.delimiter != "," and "," in self.body:
            yield self.body.translate(DECIMAL_COMMA)

    def where(self, row: int) -> str:
        if self._is_regular:
            return f"line {self.lines[row]}"
        return f"line {next(islice(self._rows(), row, None))[0]}"

    def stamps(self, column: int) -> Array | None:
        texts = [cells[column].strip() for _, cells in self._rows()]
        given = [text for text in texts if text]
        found = seconds_of_texts(given) if given else None
        if found is None:
            return None
        seconds = np.full(len(texts), np.nan)
        seconds[[bool(text) for text in texts]] = found
        return seconds

    def gap(self) -> str | None:
        if self._is_regular:
            return None
        texts = self.body.split("\n")[:-1]
        return next((f"line {self.lines[at]}" for at, text in enumerate(texts) if self._is_empty(text)), None)

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

    def _is_empty(self, text: str) -> bool:
        return not text.strip(f'{self.delimiter} "\t')

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line, cells) of every row that is not empty."""
        reader = csv.reader(io.StringIO(self.body), delimiter=self.delimiter)
        started = 0
        for cells in readable_rows(reader, self.path):
            line, started = self.lines[started], reader.line_num
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
        commas = self.delimiter != "," and any("," in cells[at] for _, cells in self._rows() for at in columns)
        rows = self._rows()
        parts = []
        while chunk := list(islice(rows, CHUNK)):
            parts.append(np.array([[self._number(line, cells, at, commas) for at in columns] for line, cells in chunk]))
        return np.concatenate(parts) if parts else np.empty((0, len(columns)))

    def _number(self, line: int, cells: Sequence[str], at: int, commas: bool) -> float:
        text = cells[at].strip()
        if not text:
            return math.nan
        try:
            spelt = text.translate(DECIMAL_COMMA) if commas else text
            return float(spelt.replace("_", "?"))  # 1_000 is a number for Python alone
        except ValueError:
            if text.lower() in TRUTH:
                return TRUTH[text.lower()]
        where = f"line {line}, column '{shortened(self.columns[at])}'"
        raise InputError(
            f"{self.path}: {where}: expected a number, got {shortened(text)!r}{self._number_hint(text, commas)}"
        )

    def _number_hint(self, text: str, commas: bool) -> str:
        """What to do where a number is spelt in a way that could mean two things."""
        if not re.fullmatch(r"[-+]?\d[\d., ]*", text):
            return ""
        if commas:
            return (
                "; other numbers have decimal commas, so points and spaces are not read: leave out thousands separators"
            )
        return "; leave out thousands separators, and if this is a decimal comma, separate the columns by semicolons"


def _read_plain(body: str, delimiter: str, width: int, columns: Sequence[int]) -> Array:
    """The values of some columns where every line is a row of numbers; ValueError where one is not.

    pyarrow is several times faster, numpy is always there; both round to the nearest float64.
    """
    try:
        from pyarrow import csv as arrow_csv
    except ImportError:
        return np.loadtxt(io.StringIO(body), delimiter=delimiter, usecols=columns, comments=None, ndmin=2)
    names = [str(at) for at in range(width)]
    wanted = [names[at] for at in columns]
    table = arrow_csv.read_csv(
        io.BytesIO(body.encode()),
        arrow_csv.ReadOptions(column_names=names),
        arrow_csv.ParseOptions(delimiter=delimiter, quote_char=False),
        arrow_csv.ConvertOptions(
            column_types=dict.fromkeys(wanted, "float64"), include_columns=list(dict.fromkeys(wanted)), null_values=[]
        ),
    )
    return np.column_stack([table[name].to_numpy() for name in wanted])


def open_csv(path: Path) -> CsvTable:
    """Read a file's text and its header; the header decides what separates the columns."""
    text = read_text(path)
    if LOG_HEADER.search(text, 0, LOG_HEADER_WITHIN):
        return _open_log(path, text)
    # Excel is told the separator by a line sep=;
    start = re.match(r"\s*?(?:sep=(.)\n)?\s*?(?=\S)", text) if text.strip() else None
    if start is None:
        raise InputError(f"{path}: is empty; expected a header with the names of the variables, then one row per step")
    header, _, body = text[start.end() :].partition("\n")
    delimiter = start[1] or _delimiter(header)
    columns = _header(path, header, delimiter)
    check_header(path, columns)
    if all(_is_number(name) for name in columns):
        raise InputError(f"{path}: its first line holds numbers; expected the names of the variables there")
    body = _trimmed(body, delimiter)
    first_line = text.count("\n", 0, start.end()) + 2
    return CsvTable(path, columns, delimiter, body, range(first_line, first_line + body.count("\n")))


def _open_log(path: Path, text: str) -> CsvTable:
    """A log of pyRDDLGym: rows (s_{t+1}, a_t, reward) of all trials, with banners between them.

    The log of another run is appended to the same file with a header of its own. `epoch` is the step.
    """
    texts = text.split("\n")
    headers = [header for header in texts if LOG_HEADER.match(header)]
    if len(set(headers)) > 1:
        raise InputError(f"{path}: holds logs of different problems; keep one of them")
    rows = [at for at, line in enumerate(texts) if line.strip() and not LOG_BANNER.match(line)]
    columns = tuple("step" if name == "epoch" else name for name in _header(path, headers[0], ","))
    body = "".join(f"{texts[at]}\n" for at in rows)
    return CsvTable(path, columns, ",", body, [at + 1 for at in rows], logs_outcomes=True)


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
    bare = re.sub(r'"[^"]*"|\[[^\[\]]*\]|\([^()]*\)', "", header)
    return max(DELIMITERS, key=lambda mark: (bare.count(mark), mark == ","))


def readable_rows(rows: Iterable[list[str]], path: Path) -> Iterator[list[str]]:
    """The rows of Python's CSV reader, with its complaints as ours: a cell above 131,072 characters, say."""
    try:
        yield from rows
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as CSV ({error}); is a closing quote missing?") from None


def _header(path: Path, line: str, delimiter: str) -> tuple[str, ...]:
    """The names in a header; a comma inside the brackets of a name does not end it."""
    parts: list[list[str]] = []
    depth = 0  # of the brackets that the last name has opened
    for cell in next(readable_rows(csv.reader([line], delimiter=delimiter), path)):
        if depth > 0:
            parts[-1].append(cell)
        else:
            parts.append([cell])
            depth = 0
        depth += cell.count("[") - cell.count("]")
    names = [delimiter.join(cells) for cells in parts]
    while len(names) > 1 and not names[-1].strip():
        names.pop()
    return tuple(unescaped(name.strip()) for name in names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _trimmed(body: str, delimiter: str) -> str:
    """The rows without empty lines at their end, and with a line end after the last."""
    end = len(body)
    while end > 0:
        start = body.rfind("\n", 0, end) + 1
        if body[start:end].strip(f'{delimiter} \t"'):
            return f"{body[:end]}\n"
        end = start - 1
    return ""
