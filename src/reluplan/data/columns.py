"""Which column of a file holds which variable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from reluplan.data.names import next_state_base, plain_name
from reluplan.errors import InputError
from reluplan.wording import LISTED_NAMES, did_you_mean, shortened

TIMES = ("timestamp", "time stamp", "time_stamp", "datetime", "date_time", "time", "datum", "date", "zeit")
"""Names of columns of time stamps, most telling first."""


@dataclass(frozen=True)
class ColumnPlaces:
    """Positions of the columns; None where a file may do without."""

    states: tuple[int, ...]
    actions: tuple[int, ...]
    next_states: tuple[int, ...] | None
    episode: int | None
    step: int | None
    time: int | None = None

    @property
    def parts(self) -> tuple[bool, bool, bool]:
        """Which optional columns there are: next states, episode, step."""
        return self.next_states is not None, self.episode is not None, self.step is not None


def find_columns(
    path: Path, columns: Sequence[str], state_names: Sequence[str], action_names: Sequence[str]
) -> ColumnPlaces:
    """Match a header to the variables: exact names first, then other spellings of them."""
    finder = _Finder(path, tuple(columns), frozenset([*state_names, *action_names]))
    states = tuple(finder.require(name) for name in state_names)
    actions = tuple(finder.require(name) for name in action_names)
    labels = finder.label("episode"), finder.label("step"), finder.time()
    return ColumnPlaces(states, actions, finder.next_states(state_names), *labels)


def columns_present(
    path: Path,
    columns: Sequence[str],
    state_names: Sequence[str],
    action_names: Sequence[str],
    optional: Collection[str],
) -> set[str]:
    """The optional variables that a header has columns for, next states included if other states have theirs."""
    finder = _Finder(path, tuple(columns), frozenset([*state_names, *action_names]))
    demanded = [name for name in state_names if name not in optional]
    states = [name for name in state_names if name in optional and finder.find(name) is not None]
    if finder.has_next_states(demanded or states):
        states = [name for name in states if finder.has_next_states([name])]
    return {*states, *(name for name in action_names if name in optional and finder.find(name) is not None)}


def other_columns(columns: Sequence[str], places: ColumnPlaces) -> dict[str, int]:
    """The columns of a header that hold no variable, no next value of anything and no label, by their names."""
    used = {*places.states, *places.actions, *(places.next_states or ()), places.episode, places.step}
    return {
        name: at for at, name in enumerate(columns) if name and at not in used and next_state_base(name) is None
    }  # fmt: skip


@dataclass(frozen=True)
class _Finder:
    """Looks names up in a header, each in a time that does not grow with the header."""

    path: Path
    columns: tuple[str, ...]
    variables: frozenset[str]

    @cached_property
    def _exact(self) -> dict[str, int]:
        """The first column of each name."""
        return {name: at for at, name in reversed(list(enumerate(self.columns)))}

    @cached_property
    def _spelt(self) -> dict[str, list[int]]:
        """The columns of each plain name; a variable's own name is no other spelling of another's."""
        return _grouped((plain_name(name), at) for at, name in self._free)

    @cached_property
    def _next_exact(self) -> dict[str, list[int]]:
        """The columns marked as the next state of each name."""
        return _grouped((base, at) for base, at in self._marked)

    @cached_property
    def _next_spelt(self) -> dict[str, list[int]]:
        return _grouped((plain_name(base), at) for base, at in self._marked)

    @cached_property
    def _free(self) -> list[tuple[int, str]]:
        return [(at, name) for at, name in enumerate(self.columns) if name not in self.variables]

    @cached_property
    def _marked(self) -> list[tuple[str, int]]:
        return [(base, at) for at, name in self._free if (base := next_state_base(name)) is not None]

    def find(self, name: str) -> int | None:
        """The column of a name: exactly, or the one that is the same in another spelling."""
        if name in self._exact:
            return self._exact[name]
        return self._single(name, self._spelt.get(plain_name(name), []))

    def label(self, name: str) -> int | None:
        """The column of episodes or steps, unless the system has a variable of that name."""
        return None if name in self.variables else self.find(name)

    def time(self) -> int | None:
        """The column of time stamps: the first that is called like one."""
        return next((at for name in TIMES if (at := self.label(name)) is not None), None)

    def require(self, name: str) -> int:
        at = self.find(name)
        if at is None:
            hint = did_you_mean(name, [column for column in self.columns if column], "the file has")
            raise InputError(f"{self.path}: the column '{name}' is missing ({hint})")
        return at

    def has_next_states(self, names: Sequence[str]) -> bool:
        """Whether one of these states has a column of next values."""
        return any(self._next(name) is not None for name in names)

    def next_states(self, names: Sequence[str]) -> tuple[int, ...] | None:
        """The columns of next states: all of them, or none."""
        found = [self._next(name) for name in names]
        missing = [name for name, at in zip(names, found, strict=True) if at is None]
        if len(missing) == len(names):
            return None
        if missing:
            raise InputError(
                f'{self.path}: the next-state column "{missing[0]}\'" is missing, while other states have theirs; '
                "add it, or take out all of them to have them derived from consecutive rows"
            )
        return tuple(at for at in found if at is not None)

    def _next(self, name: str) -> int | None:
        places = self._next_exact.get(name) or self._next_spelt.get(plain_name(name), [])
        return self._single(f"{name}'", places)

    def _single(self, name: str, places: Sequence[int]) -> int | None:
        if len(places) > 1:
            spelt = ", ".join(repr(shortened(self.columns[at])) for at in places[:LISTED_NAMES])
            raise InputError(f"{self.path}: which column holds {name}? These all could: {spelt}; rename the others")
        return places[0] if places else None


def _grouped(pairs: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for name, at in pairs:
        groups.setdefault(name, []).append(at)
    return groups
