"""`reluplan init`: a first problem file from data."""

from __future__ import annotations

import json
from pathlib import Path

from reluplan.cli.options import (
    DataArgument,
    DraftActionsOption,
    DraftFileOption,
    DraftHorizonOption,
    DraftSeriesOption,
    DraftStatesOption,
    JsonOption,
    QuietOption,
)
from reluplan.cli.shared import app, check_outputs, names_in, print_outcome
from reluplan.errors import InputError


@app.command(epilog="Exit codes: 0 done, 4 bad input.")
def init(
    data: DataArgument,
    states: DraftStatesOption,
    actions: DraftActionsOption,
    series: DraftSeriesOption = "",
    out: DraftFileOption = Path("problem.toml"),
    horizon: DraftHorizonOption = 24,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Draft a problem file from transition data.

    It has the bounds, first values and past that the data have, and the lags that they ask for.
    """
    from reluplan.data.draft import DraftSettings, draft_problem
    from reluplan.files import write_atomically

    if horizon < 1:
        raise InputError(f"--horizon must be at least 1, got {horizon}")
    if out.exists():
        raise InputError(f"{out}: is there already; choose another --out, or remove it")
    check_outputs([out], data)
    draft = draft_problem(
        data, _required(states, "--states"), _required(actions, "--actions"), names_in(series), out.stem,
        DraftSettings(horizon=horizon),
    )  # fmt: skip
    write_atomically(out, draft.text)
    record = {
        "problem": str(out),
        "lags": [
            {"state": found.state, "variable": found.lag.variable, "steps": found.lag.steps} for found in draft.lags
        ],
        "warnings": list(draft.warnings),
    }
    print_outcome(as_json, quiet, lambda: json.dumps(record, indent=2), lambda: _print(data, out, draft.warnings))
    return 0


def _required(text: str, option: str) -> list[str]:
    found = names_in(text)
    if not found:
        raise InputError(f"{option}: expected names of columns, separated by commas")
    return found


def _print(data: list[Path], out: Path, warnings: tuple[str, ...]) -> None:
    for warning in warnings:
        print(f"warning  {warning}")
    print(f"written  {out}")
    print(f"next     reluplan train {' '.join(map(str, data))} --problem {out}")
    print(f"         reluplan plan {out} --out run")
