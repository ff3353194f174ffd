"""Writing transitions: CSV, Parquet or NPZ, so that reading them gives the same numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from reluplan.data.npz import npz_bytes
from reluplan.data.parquet import parquet_bytes
from reluplan.data.transitions import Transitions
from reluplan.errors import InputError
from reluplan.files import write_atomically
from reluplan.problem.csv_names import escaped

WRITTEN_ENDINGS = (".csv", ".parquet", ".npz")


def check_data_ending(path: Path) -> None:
    """Complain before the work if the file's ending is none that can be written."""
    if path.suffix.lower() not in WRITTEN_ENDINGS:
        raise InputError(f"{path}: data files end in {', '.join(WRITTEN_ENDINGS)}")
    if path.suffix.lower() == ".parquet":
        parquet_bytes([], [])


def write_transitions(transitions: Transitions, path: str | Path) -> None:
    """Write a data file; its ending decides the format."""
    path = Path(path)
    check_data_ending(path)
    writers: dict[str, Callable[[Transitions], str | bytes]] = {".csv": _csv, ".parquet": _parquet, ".npz": _npz}
    write_atomically(path, writers[path.suffix.lower()](transitions))


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
