"""`reluplan train`: a network from transition data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from reluplan.cli.options import (
    AccuracyOption,
    BatchSizeOption,
    DataArgument,
    DropIfOption,
    EpochsOption,
    HiddenOption,
    JsonOption,
    LearnedProblemOption,
    LearningRateOption,
    NetworkFileOption,
    NetworkSeedOption,
    PatienceOption,
    PolishOption,
    PredictsOption,
    PruneOption,
    QuietOption,
    ReportFileOption,
    SearchOption,
    SequentialOption,
    SparsityOption,
    StabilityOption,
    TimeLimitOption,
    TrainingPlotOption,
    TrainThreadsOption,
    WeightDecayOption,
)
from reluplan.cli.shared import app, check_outputs, print_outcome, report_json, require_onnx_name, showing
from reluplan.clock import Clock
from reluplan.errors import InputError
from reluplan.interrupts import handling_signals

if TYPE_CHECKING:
    from reluplan.data import RowFilter, Transitions
    from reluplan.learning import TrainingReport, TrainingResult, TrainingSettings
    from reluplan.problem.file import NetworkSection, VariableTable
    from reluplan.problem.problem import Variable


ROUNDING = 1e-12
"""Share of the variance of the change that is left to rounding, however much accuracy is asked for."""


class SeveralNumbers(TyperCommand):
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


@app.command(cls=SeveralNumbers, epilog="Exit codes: 0 done (interrupted or not: see the report), 4 bad input.")
def train(
    data: DataArgument,
    problem: LearnedProblemOption,
    out: NetworkFileOption = None,
    hidden: HiddenOption = None,
    search: SearchOption = None,
    accuracy: AccuracyOption = None,
    drop_if: DropIfOption = None,
    sequential: SequentialOption = False,
    predicts: PredictsOption = None,
    epochs: EpochsOption = None,
    patience: PatienceOption = None,
    batch_size: BatchSizeOption = None,
    learning_rate: LearningRateOption = None,
    weight_decay: WeightDecayOption = None,
    polish: PolishOption = None,
    prune: PruneOption = None,
    sparsity: SparsityOption = None,
    stability: StabilityOption = None,
    seed: NetworkSeedOption = None,
    threads: TrainThreadsOption = None,
    time_limit: TimeLimitOption = math.inf,
    report: ReportFileOption = None,
    plot: TrainingPlotOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Learn the network of a problem from transition data.

    Without --hidden, it looks for the smallest and sparsest network that is as good as one of 32 units.
    """
    clock = Clock(time_limit)
    from reluplan.data import RowFilter
    from reluplan.problem.file import read_variables

    table = read_variables(problem)
    section = network_section(table)
    settings = training_settings(
        section, accuracy, hidden=hidden and tuple(hidden), search=search, dense=not sequential, predicts=predicts,
        epochs=epochs, patience=patience, batch_size=batch_size, learning_rate=learning_rate,
        weight_decay=weight_decay, polish=polish, prune=prune, sparsity=sparsity, stability=stability, seed=seed,
        threads=threads,
    )  # fmt: skip
    network_file = out or section.file
    files = _Files(network_file, report or network_file.with_suffix(".json"), plot)
    files.check([problem, *data])
    check_problem(problem, section)
    leaving_out = RowFilter(tuple(drop_if or ()), table.constants)
    _train(_Task(problem, table, section, settings, leaving_out), data, clock, files, quiet, as_json)
    return 0


@dataclass(frozen=True)
class _Task:
    """What is to be learned: the problem file, what it says about variables and network, and how it is learned."""

    problem: Path
    table: VariableTable
    section: NetworkSection
    settings: TrainingSettings
    leaving_out: RowFilter

    @property
    def variables(self) -> tuple[Variable, ...]:
        return (*self.table.states, *self.table.actions)

    def read(self, data: list[Path]) -> Transitions:
        """The transitions; what the network neither reads nor predicts, the data may lack.

        Series that it reads are columns of the data, and what it reads of the past comes from the rows before.
        """
        from reluplan.data import read_transitions
        from reluplan.data.lagged import with_lagged_columns
        from reluplan.problem.lags import named_lag

        past = [lag for name in self.section.inputs if (lag := named_lag(name)) is not None]
        demanded = {*self.section.inputs, *self.section.outputs, *(lag.variable for lag in past)}
        known = [name for name in self.table.series_names if name in demanded]
        transitions = read_transitions(
            data,
            [state.name for state in self.table.states],
            [*(action.name for action in self.table.actions), *known],
            self.variables,
            optional=[variable.name for variable in self.variables if variable.name not in demanded],
            leaving_out=self.leaving_out,
            extras=True,
        )
        return with_lagged_columns(transitions, past)


@dataclass(frozen=True)
class _Files:
    """What is written: the network, the report, and a picture if one is asked for."""

    network: Path
    report: Path
    plot: Path | None

    @property
    def all(self) -> list[Path]:
        return [path for path in (self.network, self.report, self.plot) if path is not None]

    def check(self, read: list[Path]) -> None:
        """Complain before the work about files that cannot be written, or would overwrite what is read."""
        from reluplan.report.figures import check_plot

        require_onnx_name(self.network)
        check_plot(self.plot)
        check_outputs(self.all, read)

    def write_report(self, report: TrainingReport) -> None:
        """The report, and the picture of it."""
        from reluplan.report.training import plot_training

        report.save(self.report)
        if self.plot is not None:
            plot_training(report, self.plot)


def _train(task: _Task, data: list[Path], clock: Clock, files: _Files, quiet: bool, as_json: bool) -> None:
    from reluplan.learning.train import train as fit_network
    from reluplan.report.training import TrainingView

    transitions = task.read(data)
    with handling_signals() as handler:
        with TrainingView(quiet) as view:
            result = fit_network(
                transitions, task.section.inputs, task.section.outputs, task.settings,
                variables=task.variables, deadline=clock.deadline(), on_progress=view,
            )  # fmt: skip
        files.network.parent.mkdir(parents=True, exist_ok=True)
        result.network.save(files.network)
        report = _about_the_problem(result, task.problem, task.section, transitions)
        files.write_report(report)
        with showing(handler, files.network):
            print_outcome(as_json, quiet, lambda: _json(report, files), lambda: _print(report, files))


def _json(report: TrainingReport, files: _Files) -> str:
    return report_json(report.to_json(), files.network, files.report)


def _print(report: TrainingReport, files: _Files) -> None:
    from reluplan.report.training import print_training

    print_training(report)
    print(f"files      {', '.join(map(str, files.all))}")


def network_section(table: VariableTable) -> NetworkSection:
    """The section [network], which must be there."""
    if table.network is None:
        raise InputError(
            f"{table.source}: has no section [network], so there is nothing to learn; "
            "add one with file, inputs and outputs"
        )
    return table.network


def training_settings(section: NetworkSection, accuracy: float | None, **given: Any) -> TrainingSettings:
    """The options that were given, the defaults for the others."""
    from reluplan.learning import TrainingSettings
    from reluplan.learning.settings import SearchSettings

    given["predicts"] = given["predicts"] or section.predicts
    if accuracy is not None:
        if not 0.0 <= accuracy <= 1.0:
            raise InputError(f"--accuracy {accuracy:g}: an R² that is good enough lies between 0 and 1")
        given["searching"] = SearchSettings(negligible=max(1.0 - accuracy, ROUNDING))
    return TrainingSettings(**{name: value for name, value in given.items() if value is not None})


def check_problem(problem: Path, section: NetworkSection) -> None:
    """Complain before the work, not after it, about the rest of the problem file; a network of zeros stands in."""
    import numpy as np

    from reluplan.network.relu_network import Layer, ReluNetwork
    from reluplan.problem.file import load_problem

    inputs = len(section.inputs)
    outputs = len(section.outputs)
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
