"""The formats that need no registration: CSV, Parquet and NPZ."""

from __future__ import annotations

import csv
import io

import numpy as np

from reluplan.data.csv_table import open_csv
from reluplan.data.formats import DataFormat
from reluplan.data.npz import npz_bytes, open_npz
from reluplan.data.parquet import open_parquet, parquet_bytes, require_parquet
from reluplan.data.transitions import Transitions
from reluplan.problem.csv_names import escaped


def column_names(transitions: Transitions) -> tuple[str, ...]:
    """episode, step, the states, the actions, and the next states with a prime."""
    primed = [f"{name}'" for name in transitions.state_names]
    return ("episode", "step", *transitions.state_names, *transitions.action_names, *primed)


def _csv(transitions: Transitions) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([escaped(name) for name in column_names(transitions)])
    values = np.hstack([transitions.states, transitions.actions, transitions.next_states]).tolist()
    for episode, step, row in zip(transitions.episode.tolist(), transitions.step.tolist(), values, strict=True):
        text.write(f"{episode},{step},{','.join(map(repr, row))}\n")
    return text.getvalue()


def _parquet(transitions: Transitions) -> bytes:
    columns = [*transitions.states.T, *transitions.actions.T, *transitions.next_states.T]
    return parquet_bytes(column_names(transitions), [transitions.episode, transitions.step, *columns])


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
        }
    )


CSV = DataFormat(open_csv, _csv)
TEXT = DataFormat(open_csv)
PARQUET = DataFormat(open_parquet, _parquet, require_parquet)
NPZ = DataFormat(open_npz, _npz)
