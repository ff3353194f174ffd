"""A TOML file and the values in it, with errors that name file, key and value."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reluplan.errors import InputError
from reluplan.wording import did_you_mean, shortened, shown

LONGEST_KEY = 100
"""How many parts a dotted key may have: the time that Python's TOML reader takes for one grows with its square."""
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++\s*+\.\s*+){{{LONGEST_KEY}}}")


@dataclass(frozen=True)
class TomlFile:
    """The tables of a file, and typed access to them."""

    path: Path
    data: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> TomlFile:
        """Parse a file."""
        return cls(path, _parse(path))

    def error(self, key: str, message: str) -> InputError:
        """The error about a key, or about the file as a whole."""
        return InputError(f"{self.path}: {key}: {message}" if key else f"{self.path}: {message}")

    def check_keys(self, table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
        """InputError for a key that is not known."""
        for key in table:
            if key not in known:
                raise self.error(where, f"unknown key '{shortened(key)}' ({did_you_mean(key, known, 'known keys')})")

    def get(self, table: Mapping[str, Any], key: str, kind: type, where: str, default: Any = None) -> Any:
        """A value of a table, of the given kind; without a default it must be there."""
        value = table.get(key, default)
        if value is None:
            raise self.error(where, f"the key '{key}' is missing")
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.error(f"{where}.{key}".lstrip("."), f"expected {_words(kind)}, got {shown(value)}")
        return value

    def number(self, value: Any, where: str) -> float:
        """A number or an infinity; whole numbers of any length are TOML, but must fit into a float."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise self.error(where, f"expected a number, got {shown(value)}")
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise self.error(where, f"{shown(value)} is too large a number; write inf for no bound")
        return float(value)

    def finite(self, value: Any, where: str) -> float:
        """A finite number."""
        found = self.number(value, where)
        if math.isinf(found):
            raise self.error(where, f"expected a finite number, got {shown(value)}")
        return found

    def interval(self, value: Any, where: str) -> tuple[float, float]:
        """Two numbers [lower, upper], either of them infinite, with something between them."""
        if not isinstance(value, list) or len(value) != 2:
            raise self.error(where, f"expected two numbers [lower, upper], got {shown(value)}")
        lower, upper = (self.number(side, where) for side in value)
        if lower > upper:
            raise self.error(where, f"the box is empty: the lower bound {lower:g} exceeds the upper bound {upper:g}")
        if lower == math.inf or upper == -math.inf:
            raise self.error(where, f"the box is empty: no finite number lies in {shown(value)}")
        return lower, upper


def plain(value: Any) -> Any:
    """Tables and lists as a file has them, of mappings, tuples, arrays, and columns of data frames."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "__array__") and not isinstance(value, str | bytes):
        return np.asarray(value).tolist()
    return value


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        if _LONG_KEY.search(text):
            raise InputError(f"{path}: has a dotted key of more than {LONGEST_KEY} parts, which no problem needs")
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{path}: its lists or tables stand too deep inside each other; no key needs that") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such problem file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file in UTF-8, so not a problem file") from None
    except ValueError as error:  # TOMLDecodeError, or Python's own for a number with thousands of digits
        raise InputError(f"{path}: is not valid TOML: {error}") from None


def _words(kind: type) -> str:
    return {str: "a text", int: "a whole number", list: "a list", dict: "a table"}[kind]
