"""The formats that need no registration: CSV, Parquet and NPZ."""

from __future__ import annotations

import csv
import io

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.tables.csv_names import escaped
from reluplan.tables.csv_table import open_csv
from reluplan.tables.formats import DataFormat
from reluplan.tables.npz import npz_bytes, open_npz
from reluplan.tables.parquet import open_parquet, parquet_bytes, require_parquet

Array = NDArray[np.float64]


def column_names(transitions: Transitions) -> tuple[str, ...]:
    """episode, step, the states, the actions, the next states with a prime, and what else there is."""
    primed = [f"{name}'" for name in transitions.state_names]
    return ("episode", "step", *transitions.state_names, *transitions.action_names, *primed, *transitions.extras)


def _csv(transitions: Transitions) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([escaped(name) for name in column_names(transitions)])
    values = np.column_stack([*_columns(transitions), np.empty((len(transitions), 0))]).tolist()
    for episode, step, row in zip(transitions.episode.tolist(), transitions.step.tolist(), values, strict=True):
        text.write(f"{episode},{step},{','.join(map(repr, row))}\n")
    return text.getvalue()


def _columns(transitions: Transitions) -> list[Array]:
    """All numbers but the labels, in the order of the names."""
    tables = (transitions.states, transitions.actions, transitions.next_states)
    return [*(column for table in tables for column in table.T), *transitions.extras.values()]


def _parquet(transitions: Transitions) -> bytes:
    labels = [transitions.episode, transitions.step]
    return parquet_bytes(column_names(transitions), [*labels, *_columns(transitions)])


def _npz(transitions: Transitions) -> bytes:
    return npz_bytes(
        {
            "episode": transitions.episode,
            "step": transitions.step,
            "states": transitions.states,
            "actions": transitions.actions,
            "next_states": transitions.next_states,
            "state_names": np.array(transitions.state_names, dtype=np.str_),
            "action_names": np.array(transitions.action_names, dtype=np.str_),
            **transitions.extras,
        }
    )


CSV = DataFormat(open_csv, _csv)
TEXT = DataFormat(open_csv)
PARQUET = DataFormat(open_parquet, _parquet, require_parquet)
NPZ = DataFormat(open_npz, _npz)
