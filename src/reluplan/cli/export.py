"""`reluplan export`: the planning model as a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from reluplan.cli.shared import HorizonOption, JsonOption, ProblemArgument, QuietOption, app, check_writable


@app.command(epilog="Exit codes: 0 done, 2 proven infeasible, 4 bad input.")
def export(
    problem: ProblemArgument,
    out: Annotated[Path, typer.Option(help="model.mps or model.lp; the ending decides.", show_default=False)],
    horizon: HorizonOption = None,
    big_m: Annotated[float | None, typer.Option(help="One big-M for all ReLUs.")] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Write the planning model as an MPS or LP file."""
    from reluplan.optimisation.export import export_model
    from reluplan.planning.planner import build_model
    from reluplan.problem.problem import Problem

    loaded = Problem.load(problem)
    check_writable(out.parent)
    model = build_model(loaded if horizon is None else loaded.with_horizon(horizon), big_m, named=True).model
    export_model(model, out)
    record: dict[str, Any] = {"file": str(out), "rows": model.row_count, "columns": model.column_count}
    if as_json:
        print(json.dumps(record))
    elif not quiet:
        print(f"wrote {out}: {model.row_count} rows, {model.column_count} columns")
    return 0
