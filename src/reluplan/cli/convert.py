"""`reluplan convert`: HD-MILP-Plan text files to a problem file."""

from __future__ import annotations

import json

from reluplan.cli.options import (
    ActionBoundsOption,
    ConvertedFolderOption,
    ExampleOption,
    HorizonOption,
    JsonOption,
    PublishedFolderArgument,
    PublishedNameArgument,
    QuietOption,
)
from reluplan.cli.shared import app, print_outcome


@app.command(epilog="Exit codes: 0 done, 4 bad input.")
def convert(
    folder: PublishedFolderArgument,
    name: PublishedNameArgument,
    out: ConvertedFolderOption,
    action_bounds: ActionBoundsOption = None,
    example: ExampleOption = None,
    horizon: HorizonOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Turn HD-MILP-Plan text files into a problem file."""
    from reluplan.problem.hd_milp_plan.convert import convert as convert_files

    path = convert_files(folder, name, out, action_bounds, example or (), horizon)
    print_outcome(as_json, quiet, lambda: json.dumps({"problem": str(path)}), lambda: print(f"wrote {path}"))
    return 0
