"""Reading transitions from data files."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.data.columns import ColumnPlaces, columns_present, find_columns, other_columns
from reluplan.data.quality import Role, require_inside_bounds
from reluplan.data.row_filter import RowFilter
from reluplan.data.sampling import Sampling, sampling
from reluplan.data.transitions import Transitions, concatenate
from reluplan.errors import InputError
from reluplan.problem.problem import Variable
from reluplan.tables.array_table import ArrayTable
from reluplan.tables.formats import open_table
from reluplan.tables.table import Table, no_number
from reluplan.tables.time_stamps import shown_span

Array = NDArray[np.float64]
Index = NDArray[np.int64]

Source = str | Path | Any
"""A file, or columns in memory: a dict of arrays, or a data frame."""
NOTHING = RowFilter()
MOST_EXTRAS = 50
"""Other columns that are read at most: each takes a pass over the file."""


def read_transitions(
    paths: Source | Sequence[Source],
    state_names: Sequence[str],
    action_names: Sequence[str],
    variables: Sequence[Variable] = (),
    *,
    optional: Collection[str] = (),
    leaving_out: RowFilter = NOTHING,
    extras: bool = False,
) -> Transitions:
    """The transitions in one or several data files or data frames; see docs/data.md for what they may look like.

    Next states are read from their columns (x', next_x or x_next) or, where a file has none, from consecutive rows.
    variables: their bounds must hold the states and actions. optional: names that a file may lack; then the transitions
    do not have them. leaving_out: conditions for rows that are left out. extras: other columns of numbers are read too.
    """
    sources = list(paths) if isinstance(paths, list | tuple) else [paths]
    if not sources:
        raise InputError("no data file is given")
    tables = [_table(source) for source in sources]
    present = [columns_present(table.path, table.columns, state_names, action_names, optional) for table in tables]
    missing = {name for name in optional if not all(name in names for names in present)}
    states = [name for name in state_names if name not in missing]
    actions = [name for name in action_names if name not in missing]
    files = [_Source(table, find_columns(table.path, table.columns, states, actions)) for table in tables]
    for table in tables:
        _require_rows(table)
    _require_same_columns(files)
    wanted = _Wanted(tuple(states), tuple(actions), variables, leaving_out, extras)
    return concatenate([file.transitions(wanted) for file in files])


def _table(source: Source) -> Table:
    return open_table(Path(source)) if isinstance(source, str | Path) else ArrayTable.of(source)


def _require_rows(table: Table) -> None:
    if table.row_count == 0:
        raise InputError(f"{table.path}: has a header but no rows")
    if table.row_count == 1:
        raise InputError(f"{table.path}: has a single row, too few to learn from")


def _require_same_columns(sources: Sequence[_Source]) -> None:
    """Files that are read together have the same optional columns: one of them lacking some hints at a mistake."""
    first = sources[0]
    for other in sources[1:]:
        for part, has, expected in zip(
            ("next states", "'episode'", "'step'"), other.places.parts, first.places.parts, strict=True
        ):
            if has != expected:
                with_it, without = (other, first) if has else (first, other)
                raise InputError(
                    f"{without.table.path}: has no column for {part}, but {with_it.table.path} has; "
                    "files read together need the same columns"
                )


@dataclass(frozen=True)
class _Wanted:
    """What is read of every file."""

    states: tuple[str, ...]
    actions: tuple[str, ...]
    variables: Sequence[Variable]
    leaving_out: RowFilter
    extras: bool


@dataclass(frozen=True)
class _Source:
    """One file and where its columns are."""

    table: Table
    places: ColumnPlaces

    def transitions(self, wanted: _Wanted) -> Transitions:
        """All steps of the file that are not left out, checked."""
        places = self.places
        groups = (places.states, places.actions, places.next_states or (), _one(places.episode), _one(places.step))
        values = self.table.numbers([column for group in groups for column in group])  # in one pass over the file
        ends = np.cumsum([len(group) for group in groups])[:-1]
        states, actions, next_states, *labels = np.split(values, ends, axis=1)
        episode, step = self._labels(len(values), *labels)
        sampled = self._sampled(episode)
        if sampled is not None:  # what does not follow begins an episode of its own
            episode = np.cumsum(~sampled.follows)
            step = _rank_within(episode)
        now = acting = then = np.arange(len(values))
        if places.next_states is None:
            now, then = self._pairs(episode, step, sampled is not None)
            acting = then if self.table.logs_outcomes else now
            next_states = states
        found = Transitions(
            wanted.states, wanted.actions, episode[acting], step[acting],
            states[now], actions[acting], next_states[then], self._extras(wanted.extras, acting),
        )  # fmt: skip
        if sampled is not None and len(sampled.jumps):
            found = replace(found, dropped={self._jumps(sampled): len(sampled.jumps)})
        found, kept = self._left(found, wanted.leaving_out, acting)
        now, acting, then = now[kept], acting[kept], then[kept]
        self._require_finite(states, places.states, now)
        self._require_finite(actions, places.actions, acting)
        self._require_finite(next_states, places.next_states or places.states, then)

        def where(role: Role, row: int) -> str:
            return self.table.where(int((now if role == "state" else acting)[row]))

        require_inside_bounds(found, wanted.variables, str(self.table.path), where)
        return found

    def _sampled(self, episode: Index) -> Sampling | None:
        """What time stamps say of rows that have neither next states nor steps; None if there are none."""
        places = self.places
        if places.time is None or places.next_states is not None or places.step is not None or len(episode) < 2:
            return None
        stamps = self._numbers(places.time)
        is_number = stamps is not None
        stamps = stamps if is_number else self.table.stamps(places.time)
        if stamps is None:
            return None
        of_rows = None if places.episode is None else episode
        return sampling(stamps, of_rows, is_number, self.table.where, str(self.table.path))

    def _numbers(self, column: int) -> Array | None:
        """A column, None if it does not hold numbers."""
        with suppress(InputError):
            return self.table.numbers([column])[:, 0]
        return None

    def _jumps(self, sampled: Sampling) -> str:
        """What is said of rows behind which time jumps."""
        first = self.table.where(int(sampled.jumps[0]))
        return f"the next time stamp is not {shown_span(sampled.interval)} later (first: before {first})"

    @cached_property
    def _others(self) -> dict[str, int]:
        return other_columns(self.table.columns, self.places)

    def _extras(self, wanted: bool, rows: Index) -> dict[str, Array]:
        """Other columns, as far as they hold numbers."""
        found = {}
        for name, column in list(self._others.items())[: MOST_EXTRAS if wanted else 0]:
            numbers = self._numbers(column)  # dates and remarks are nobody's business here
            if numbers is not None:
                found[name] = numbers[rows]
        return found

    def _left(self, found: Transitions, leaving_out: RowFilter, rows: Index) -> tuple[Transitions, Index]:
        """The transitions for which none of the conditions holds, and their numbers."""
        if not leaving_out.conditions:
            return found, np.arange(len(found))

        def read(name: str) -> Array:
            return np.asarray(self.table.numbers([self._others[name]])[rows, 0])

        hits = leaving_out.hits(found, str(self.table.path), list(self._others), read)
        kept = np.flatnonzero(~np.any(list(hits.values()), axis=0))
        if not len(kept):
            raise InputError(f"{self.table.path}: the conditions for leaving out rows hold for all of them")
        dropped = {text: int(hit.sum()) for text, hit in hits.items()}
        return replace(found.select(kept), dropped={**found.dropped, **dropped}), kept

    def _labels(self, count: int, episodes: Array, steps: Array) -> tuple[Index, Index]:
        """Episode and step of every row, made up where the file has none.

        Without an episode column a step that does not grow starts a new episode; without a step column rows count up.
        """
        episode = self._whole_numbers(self.places.episode, episodes)
        step = self._whole_numbers(self.places.step, steps)
        if episode is None and step is None:
            return np.zeros(count, dtype=np.int64), np.arange(count)
        if episode is None and step is not None:
            episode = np.concatenate([[0], np.cumsum(np.diff(step) <= 0)]).astype(np.int64)
        if step is None and episode is not None:
            step = _rank_within(episode)
        assert episode is not None
        assert step is not None
        return episode, step

    def _whole_numbers(self, column: int | None, numbers: Array) -> Index | None:
        if column is None:
            return None
        values = numbers[:, 0]
        wrong = np.flatnonzero(~(np.isfinite(values) & (values == np.round(values)) & (np.abs(values) < 2**53)))
        if len(wrong):
            where = f"{self.table.where(int(wrong[0]))}, column '{self.table.columns[column]}'"
            raise InputError(f"{self.table.path}: {where}: expected a whole number, got {values[wrong[0]]:g}")
        return values.astype(np.int64)

    def _pairs(self, episode: Index, step: Index, is_timed: bool) -> tuple[Index, Index]:
        """Rows (t, t+1) of one episode whose steps follow each other; a gap in the steps pairs nothing."""
        if not is_timed and self.places.episode is None and self.places.step is None and (gap := self.table.gap()):
            raise InputError(
                f"{self.table.path}: {gap} is empty, so rows around it may not follow each other; "
                "take it out, or tell episodes apart by a column 'episode'"
            )
        order = np.lexsort((step, episode))
        same = np.diff(episode[order]) == 0
        self._require_unique(order[1:][same & (np.diff(step[order]) == 0)])
        follows = same & (np.diff(step[order]) == 1)
        if not follows.any():
            raise InputError(
                f"{self.table.path}: no two rows follow each other (same episode, step t and t+1), "
                "so there is no next state; add next-state columns or step numbers that count up by one"
            )
        now, then = order[:-1][follows], order[1:][follows]
        by_row = np.argsort(now)
        return now[by_row], then[by_row]

    def _require_unique(self, repeated: Index) -> None:
        if len(repeated):
            raise InputError(
                f"{self.table.path}: {self.table.where(int(repeated.min()))}: this episode and step "
                "occur more than once; number them anew or add next-state columns"
            )

    def _require_finite(self, values: Array, columns: Sequence[int], rows: Index) -> None:
        bad = ~np.isfinite(values[rows])
        if bad.any():
            at, column = (int(i) for i in np.argwhere(bad)[0])
            value = values[rows[at], column]
            what = no_number(value)
            where = f"{self.table.where(int(rows[at]))}, column '{self.table.columns[columns[column]]}'"
            raise InputError(f"{self.table.path}: {where}: {what}; fill it in or delete the row")


def _one(column: int | None) -> tuple[int, ...]:
    return () if column is None else (column,)


def _rank_within(groups: Index) -> Index:
    """The position of each row among the rows of its group: 0, 1, 2, ... in order of appearance."""
    order = np.argsort(groups, kind="stable")
    starts = np.concatenate([[True], np.diff(groups[order]) != 0])
    first = np.maximum.accumulate(np.where(starts, np.arange(len(groups)), 0))
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - first
    return rank
