"""`reluplan inspect`: a problem or a network, before anything is planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reluplan.cli.options import (
    BoxOption,
    HorizonOption,
    InspectedArgument,
    InspectSecondsOption,
    JsonOption,
    NoTrialOption,
    QuietOption,
)
from reluplan.cli.shared import app, print_outcome
from reluplan.errors import InputError

if TYPE_CHECKING:
    from reluplan.inspection import Inspection
    from reluplan.inspection.settings import InspectionSettings

EXIT_INFEASIBLE = 2
SHORTEST_TRIAL = 0.5
"""Seconds; a trial of less says nothing."""


@app.command(epilog="Exit codes: 0 done, 2 proven infeasible (told with the rest), 4 bad input.")
def inspect(
    file: InspectedArgument,
    horizon: HorizonOption = None,
    box: BoxOption = None,
    time_limit: InspectSecondsOption = None,
    no_trial: NoTrialOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Look at a problem or a network before planning.

    Sizes, ReLUs that bounds leave undecided, Lipschitz bounds, the size of the model, what can be proven in what time,
    and what to do.
    """
    from reluplan.report.inspection import print_inspection

    settings = _settings(time_limit, with_trial=not no_trial)
    if file.suffix.lower() == ".onnx":
        found = _network(file, horizon, box, settings)
    else:
        found = _problem(file, horizon, box, settings)
    print_outcome(as_json, quiet, found.to_json, lambda: print_inspection(found))
    return EXIT_INFEASIBLE if found.is_proven_infeasible else 0


def _settings(seconds: float | None, with_trial: bool) -> InspectionSettings:
    """The time that is given, shared out as the default time is."""
    from reluplan.inspection.settings import InspectionSettings

    default = replace(InspectionSettings(), with_trial=with_trial)
    if seconds is None:
        return default
    if not seconds > 0.0:
        raise InputError(f"the time limit must be positive, got {seconds:g}")
    trial = default.outlook.trial_seconds * min(1.0, seconds / (default.seconds + default.outlook.trial_seconds))
    outlook = replace(default.outlook, trial_seconds=trial)
    with_trial = with_trial and trial >= SHORTEST_TRIAL
    return replace(default, seconds=max(0.1, seconds - trial), outlook=outlook, with_trial=with_trial)


def _problem(
    file: Path, horizon: int | None, box: tuple[float, float] | None, settings: InspectionSettings
) -> Inspection:
    from reluplan.inspection import inspect_problem
    from reluplan.network.relu_network import ReluNetwork
    from reluplan.problem.file import load_problem, read_variables

    if box is not None:
        raise InputError("--box goes with a network; a problem file declares the bounds of its variables")
    section = read_variables(file).network
    network = ReluNetwork.load(section.file) if section is not None and section.file.is_file() else None
    problem = load_problem(file, network)
    return inspect_problem(problem if horizon is None else problem.with_horizon(horizon), network, settings)


def _network(
    file: Path, horizon: int | None, box: tuple[float, float] | None, settings: InspectionSettings
) -> Inspection:
    import numpy as np

    from reluplan.inspection import inspect_network
    from reluplan.network.relu_network import ReluNetwork

    if horizon is not None:
        raise InputError("--horizon goes with a problem; a network alone has no steps")
    if box is not None and not (np.isfinite(box).all() and box[0] < box[1]):
        raise InputError(f"--box {box[0]:g} {box[1]:g}: expected two finite numbers, the smaller first")
    network = ReluNetwork.load(file)
    sides = None if box is None else tuple(np.full(network.input_count, side) for side in box)
    return inspect_network(network, None if sides is None else (sides[0], sides[1]), str(file), settings)
