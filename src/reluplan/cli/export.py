"""`reluplan export`: the planning model as a file."""

from __future__ import annotations

import json

from reluplan.cli.options import BigMOption, HorizonOption, JsonOption, ModelFileOption, ProblemArgument, QuietOption
from reluplan.cli.shared import app, check_writable, print_outcome


@app.command(epilog="Exit codes: 0 done, 2 proven infeasible, 4 bad input.")
def export(
    problem: ProblemArgument,
    out: ModelFileOption,
    horizon: HorizonOption = None,
    big_m: BigMOption = None,
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
    record = {"file": str(out), "rows": model.row_count, "columns": model.column_count}
    text = f"wrote {out}: {model.row_count} rows, {model.column_count} columns"
    print_outcome(as_json, quiet, lambda: json.dumps(record), lambda: print(text))
    return 0
