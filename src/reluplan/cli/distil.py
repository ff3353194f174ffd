"""`reluplan distil`: a ReLU network from a smooth one."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reluplan.cli.options import (
    AccuracyOption,
    DistilDataOption,
    DistilOutOption,
    EpochsOption,
    HiddenOption,
    JsonOption,
    NetworkSeedOption,
    PolishOption,
    ProblemArgument,
    PruneOption,
    QuietOption,
    ReportFileOption,
    SamplesOption,
    SearchOption,
    SequentialOption,
    SparsityOption,
    StabilityOption,
    TeacherOption,
    TimeLimitOption,
    TrainThreadsOption,
)
from reluplan.cli.shared import app, check_outputs, print_outcome, report_json, require_onnx_name, showing
from reluplan.cli.train import SeveralNumbers, check_problem, network_section, training_settings
from reluplan.clock import Clock
from reluplan.errors import InputError
from reluplan.interrupts import handling_signals

if TYPE_CHECKING:
    from reluplan.learning.distillation.names import Names
    from reluplan.learning.distillation.region import Region
    from reluplan.learning.distillation.report import DistilReport, DistilResult
    from reluplan.learning.distillation.settings import DistilSettings
    from reluplan.learning.distillation.teacher import Teacher
    from reluplan.learning.settings import TrainingSettings
    from reluplan.problem.file import NetworkSection, VariableTable


@app.command(cls=SeveralNumbers, epilog="Exit codes: 0 done (interrupted or not: see the report), 4 bad input.")
def distil(
    problem: ProblemArgument,
    teacher: TeacherOption,
    out: DistilOutOption = None,
    hidden: HiddenOption = None,
    search: SearchOption = None,
    accuracy: AccuracyOption = None,
    data: DistilDataOption = None,
    samples: SamplesOption = None,
    sequential: SequentialOption = False,
    epochs: EpochsOption = None,
    polish: PolishOption = None,
    prune: PruneOption = None,
    sparsity: SparsityOption = None,
    stability: StabilityOption = None,
    seed: NetworkSeedOption = None,
    threads: TrainThreadsOption = None,
    time_limit: TimeLimitOption = math.inf,
    report: ReportFileOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Learn a ReLU network from a smooth one.

    The teacher is any ONNX network (tanh, sigmoid, GELU, SiLU, softplus, ...) with the inputs and outputs of the
    problem. The student is like it over the declared bounds, or around data; how much, and where least, is told.
    Without --hidden, it looks for the smallest network that is as good as one of 32 units.
    """
    clock = Clock(time_limit)
    from reluplan.problem.file import read_variables

    table = read_variables(problem)
    section = network_section(table)
    training = training_settings(
        section, accuracy, hidden=hidden and tuple(hidden), search=search, dense=not sequential, predicts=None,
        epochs=epochs, polish=polish, prune=prune, sparsity=sparsity, stability=stability, seed=seed, threads=threads,
    )  # fmt: skip
    files = _Files.of(teacher, section, out, report)
    files.check([problem, teacher, *(data or [])])
    check_problem(problem, section)
    task = _Task(problem, table, section, teacher, training, _settings(samples))
    _distil(task, data or [], clock, files, quiet, as_json)
    return 0


@dataclass(frozen=True)
class _Task:
    """What is learned from whom, and how."""

    problem: Path
    table: VariableTable
    section: NetworkSection
    teacher: Path
    training: TrainingSettings
    settings: DistilSettings

    def names(self) -> Names:
        from reluplan.learning.distillation.names import Names

        states = tuple(state.name for state in self.table.states)
        return Names(self.section.inputs, self.section.outputs, states)

    def region(self, data: Sequence[Path]) -> Region:
        """The declared bounds of the network's inputs, or the neighbourhood of data; auxiliaries have no data."""
        import numpy as np

        from reluplan.data import read_transitions
        from reluplan.learning.distillation.region import box_region, data_region

        table = self.table
        known = {variable.name: variable for variable in (*table.states, *table.actions, *table.auxiliaries)}
        variables = [known[name] for name in self.section.inputs]
        if not data:
            return box_region(variables, table.source)
        auxiliaries = [v.name for v in table.auxiliaries if v.name in self.section.inputs]
        if auxiliaries:
            raise InputError(
                f"{table.source}: the network reads '{auxiliaries[0]}', an auxiliary, which data do not hold; learn "
                "over the declared bounds, without --data"
            )
        states = [v.name for v in table.states if v.name in self.section.inputs]
        actions = [v.name for v in table.actions if v.name in self.section.inputs]
        found = read_transitions(list(data), states, actions, variables)
        columns = dict(zip([*states, *actions], np.hstack([found.states, found.actions]).T, strict=True))
        rows = np.column_stack([columns[name] for name in self.section.inputs])
        return data_region(variables, rows, self.settings.perturbation)


@dataclass(frozen=True)
class _Files:
    """What is written: the network and its report."""

    network: Path
    report: Path

    @classmethod
    def of(cls, teacher: Path, section: NetworkSection, out: Path | None, report: Path | None) -> _Files:
        """By default the file that the problem names; a new one beside it if that is the teacher itself."""
        network = out or section.file
        if out is None and os.path.realpath(network) == os.path.realpath(teacher):
            network = teacher.with_name(f"{teacher.stem}-relu.onnx")
        return cls(network, report or network.with_suffix(".json"))

    def check(self, read: Sequence[Path]) -> None:
        """Complain before the work about files that cannot be written, or would overwrite what is read."""
        require_onnx_name(self.network)
        check_outputs([self.network, self.report], read)


def _settings(samples: int | None) -> DistilSettings:
    from reluplan.learning.distillation.settings import DistilSettings

    return DistilSettings() if samples is None else DistilSettings(samples=samples)


def _distil(task: _Task, data: Sequence[Path], clock: Clock, files: _Files, quiet: bool, as_json: bool) -> None:
    from reluplan.learning.distillation.teacher import Teacher
    from reluplan.report.training import TrainingView

    names = task.names()
    teacher = Teacher(task.teacher, len(names.inputs), len(names.outputs))
    region = task.region(data)
    with handling_signals() as handler:
        with TrainingView(quiet) as view:
            result = _learn(task, teacher, region, clock, view)
        files.network.parent.mkdir(parents=True, exist_ok=True)
        result.network.save(files.network)
        report = _with_notes(result, task, files)
        report.save(files.report)
        with showing(handler, files.network):
            print_outcome(as_json, quiet, lambda: _json(report, files), lambda: _print(report, files))


def _learn(task: _Task, teacher: Teacher, region: Region, clock: Clock, view: Any) -> DistilResult:
    from reluplan.learning.distillation.distil import distil as learn
    from reluplan.problem.file import load_problem

    return learn(
        teacher, task.names(), region, task.training, task.settings,
        as_problem=lambda network: load_problem(task.problem, network), deadline=clock.deadline(), on_progress=view,
    )  # fmt: skip


def _with_notes(result: DistilResult, task: _Task, files: _Files) -> DistilReport:
    """What is left for the user to do."""
    notes = list(result.report.notes)
    if _is_relu_network(task.teacher):
        notes.append(f"{task.teacher} can be planned with as it is: it is piecewise linear")
    if os.path.realpath(files.network) != os.path.realpath(task.section.file):
        name = os.path.relpath(files.network, task.problem.parent)
        notes.append(f'change network.file in {task.problem} to "{Path(name).as_posix()}" before planning')
    return replace(result.report, notes=tuple(notes))


def _is_relu_network(path: Path) -> bool:
    from reluplan.network.relu_network import ReluNetwork

    try:
        ReluNetwork.load(path)
    except InputError:
        return False
    return True


def _json(report: DistilReport, files: _Files) -> str:
    return report_json(report.to_json(), files.network, files.report)


def _print(report: DistilReport, files: _Files) -> None:
    from reluplan.report.distil import print_distilled

    print_distilled(report)
    print(f"files      {files.network}, {files.report}")
