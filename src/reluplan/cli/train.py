"""`reluplan train`: a network from transition data."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from reluplan.cli.shared import JsonOption, QuietOption, app, check_writable, showing
from reluplan.errors import InputError
from reluplan.interrupts import handling_signals
from reluplan.planning.run import Clock

if TYPE_CHECKING:
    from reluplan.data import Transitions
    from reluplan.learning import TrainingReport, TrainingResult, TrainingSettings
    from reluplan.problem.file import NetworkSection, VariableTable


class _SeveralNumbers(TyperCommand):
    """Lets `--hidden 32 32` stand for `--hidden 32 --hidden 32`, which the parser knows."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, repeat_option(args, "--hidden"))


def repeat_option(arguments: list[str], option: str) -> list[str]:
    """Put the option before each of the whole numbers that follow it.

    >>> repeat_option(["data.csv", "--hidden", "32", "16", "--seed", "1"], "--hidden")
    ['data.csv', '--hidden', '32', '--hidden', '16', '--seed', '1']
    """
    result: list[str] = []
    repeating = False
    for before, argument in zip(["", *arguments], arguments, strict=False):
        repeating = argument.isdecimal() and (repeating or before == option)
        if repeating and before != option:
            result.append(option)
        result.append(argument)
    return result


@app.command(cls=_SeveralNumbers, epilog="Exit codes: 0 done (interrupted or not: see the report), 4 bad input.")
def train(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA...", help="Transitions: CSV, Parquet or NPZ files.", show_default=False),
    ],
    problem: Annotated[
        Path, typer.Option(help="Problem file (TOML); its network need not exist yet.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="network.onnx; by default the file that the problem names.", show_default=False)
    ] = None,
    hidden: Annotated[list[int] | None, typer.Option(metavar="N [N...]", help="Units of each hidden layer.")] = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Layers read the previous layer only, not the inputs and all before.")
    ] = False,
    predicts: Annotated[
        str | None, typer.Option(help="next state or delta (its change); the problem file's by default.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    patience: Annotated[int | None, typer.Option(help="Passes without progress before it ends.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step; chosen by default.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="First rate of AdamW.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay of AdamW.")] = None,
    polish: Annotated[int | None, typer.Option(help="Iterations of L-BFGS at the end.")] = None,
    prune: Annotated[float | None, typer.Option(help="Share of the weights to set to zero.")] = None,
    sparsity: Annotated[float | None, typer.Option(help="Weight of the L1 norm of the weights.")] = None,
    stability: Annotated[float | None, typer.Option(help="Weight of ReLUs that may switch in the box.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed; the same seed gives the same network.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads; more rarely pay, and change the last digits.")] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for the whole command.")] = math.inf,
    report: Annotated[
        Path | None, typer.Option(help="Report (JSON); by default beside the network.", show_default=False)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Also plot learning curves and drift (.png, .svg, .pdf).", show_default=False)
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Learn the network of a problem from transition data."""
    clock = Clock(time_limit)
    from reluplan.data import read_transitions
    from reluplan.learning.train import train as fit_network
    from reluplan.problem.file import read_variables
    from reluplan.report.training import TrainingView, plot_training, print_training

    table = read_variables(problem)
    section = _network_section(table)
    settings = _settings(
        section, hidden=hidden and tuple(hidden), dense=not sequential, predicts=predicts, epochs=epochs,
        patience=patience, batch_size=batch_size, learning_rate=learning_rate, weight_decay=weight_decay,
        polish=polish, prune=prune, sparsity=sparsity, stability=stability, seed=seed, threads=threads,
    )  # fmt: skip
    network_file = out or section.file
    report_file = report or network_file.with_suffix(".json")
    _check_files([problem, *data], network_file, report_file, plot)
    _check_problem(problem, section)
    variables = (*table.states, *table.actions)
    transitions = read_transitions(data, [v.name for v in table.states], [v.name for v in table.actions], variables)
    with handling_signals() as handler:
        with TrainingView(quiet) as view:
            result = fit_network(
                transitions, section.inputs, section.outputs, settings,
                variables=variables, deadline=clock.deadline(), on_progress=view,
            )  # fmt: skip
        network_file.parent.mkdir(parents=True, exist_ok=True)
        result.network.save(network_file)
        found = _about_the_problem(result, problem, section, transitions)
        found.save(report_file)
        if plot is not None:
            plot_training(found, plot)
        with showing(handler, network_file):
            if as_json:
                files = {"network": str(network_file), "report": str(report_file)}
                print(json.dumps({**files, **json.loads(found.to_json())}, indent=2))
            elif not quiet:
                print_training(found)
                print(f"files      {network_file}, {report_file}{f', {plot}' if plot else ''}")
    return 0


def _network_section(table: VariableTable) -> NetworkSection:
    if table.network is None:
        raise InputError(
            f"{table.source}: has no section [network], so there is nothing to learn; "
            "add one with file, inputs and outputs"
        )
    return table.network


def _settings(section: NetworkSection, **given: Any) -> TrainingSettings:
    """The options that were given, the defaults for the others."""
    from reluplan.learning import TrainingSettings

    given["predicts"] = given["predicts"] or section.predicts
    return TrainingSettings(**{name: value for name, value in given.items() if value is not None})


def _check_files(read: list[Path], network: Path, report: Path, plot: Path | None) -> None:
    """Complain before the work about files that cannot be written, or would overwrite what is read."""
    from reluplan.report.figures import check_plot

    if network.suffix != ".onnx":
        raise InputError(f"{network}: a network is written as an ONNX file; let its name end in .onnx")
    check_plot(plot)
    written = [path for path in (network, report, plot) if path is not None]
    for path in written:
        check_writable(path.parent)
        if os.path.realpath(path) in {os.path.realpath(other) for other in read} or written.count(path) > 1:
            raise InputError(f"{path}: is named twice, to be read or written; choose another name")


def _check_problem(problem: Path, section: NetworkSection) -> None:
    """Complain before the work, not after it, about the rest of the problem file; a network of zeros stands in."""
    import numpy as np

    from reluplan.network.relu_network import Layer, ReluNetwork
    from reluplan.problem.file import load_problem

    inputs, outputs = len(section.inputs), len(section.outputs)
    load_problem(problem, ReluNetwork(inputs, (), Layer(np.zeros((outputs, inputs)), np.zeros(outputs))))


def _about_the_problem(
    result: TrainingResult, problem: Path, section: NetworkSection, transitions: Transitions
) -> TrainingReport:
    """The report, with the ReLUs that are undecided under the problem's own constraints."""
    from reluplan.errors import InfeasibleError
    from reluplan.learning.planning_cost import unstable_in_problem
    from reluplan.problem.file import load_problem

    report = result.report
    notes = list(report.notes)
    if report.settings.predicts != section.predicts:
        notes.append(
            f'the network predicts "{report.settings.predicts}" but {problem} says "{section.predicts}": '
            "change network.predicts there before planning"
        )
    try:
        unstable = unstable_in_problem(load_problem(problem, result.network), result.network.relu_count, transitions)
    except InfeasibleError:
        notes.append(f"no state and action satisfies the constraints of {problem}")
        unstable = report.unstable_relus
    return replace(report, unstable_relus=unstable, notes=tuple(notes))
