"""`reluplan convert`: HD-MILP-Plan text files to a problem file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reluplan.cli.shared import HorizonOption, JsonOption, QuietOption, app


@app.command(epilog="Exit codes: 0 done, 4 bad input.")
def convert(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with dnn/ and translation/.", show_default=False)
    ],
    name: Annotated[str, typer.Argument(help="Instance, such as hvac_3.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for problem.toml and network.onnx.", show_default=False)],
    action_bounds: Annotated[
        tuple[float, float] | None, typer.Option(metavar="LO HI", help="Narrow the bounds of all actions.")
    ] = None,
    example: Annotated[
        list[str] | None,
        typer.Option(
            help="Read this kind of file (goal, pvariables, transitions) from its example_ variant; repeatable."
        ),
    ] = None,
    horizon: HorizonOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Turn HD-MILP-Plan text files into a problem file."""
    from reluplan.problem.hd_milp_plan.convert import convert as convert_files

    path = convert_files(folder, name, out, action_bounds, example or (), horizon)
    if as_json:
        print(json.dumps({"problem": str(path)}))
    elif not quiet:
        print(f"wrote {path}")
    return 0
