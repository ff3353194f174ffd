"""A distilled network as people see it: how far it is from its teacher, and where."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from reluplan.learning.distillation.report import DistilReport, OutputDistance
from reluplan.report.console import ResultConsole
from reluplan.report.lines import Line, print_lines
from reluplan.report.training import ENDINGS, relu_count

REGIONS = {"box": "over the declared bounds", "data": "around the data"}


def print_distilled(report: DistilReport, console: Console | None = None) -> None:
    """The report in a screenful."""
    console = console or ResultConsole()
    print_lines(_facts(report), console)
    console.print(distance_table(report))
    if report.rollouts:
        console.print(trajectory_table(report))
    print_lines([*(_worst(output) for output in report.outputs), *(("note", note) for note in report.notes)], console)


def _facts(report: DistilReport) -> list[Line]:
    judged = f"judged at {report.judged:,} fresh ones"
    weights = f"{report.nonzero_weights:,} of {report.weights:,} weights are not zero"
    return [
        ("teacher", report.teacher),
        ("training", f"{ENDINGS[report.ending]}, {report.seconds:.1f} s"),
        ("samples", f"{report.samples:,} {REGIONS[report.region]}; {judged}"),
        ("network", f"{relu_count(report.relus)}, {report.unstable_relus} of them undecided in the box; {weights}"),
    ]


def distance_table(report: DistilReport) -> Table:
    """One row per output: errors in its own unit, and what they compare with."""
    table = _table("error", "mean", "99 %", "worst found", "spread")
    for output in report.outputs:
        numbers = (output.mean, output.percentile_99, output.worst, output.spread)
        table.add_row(output.name, *(f"{number:.3g}" for number in numbers))
    return table


def trajectory_table(report: DistilReport) -> Table:
    """One row per output: student against teacher after some steps."""
    table = _table("RMSE after", *(f"{entry.steps} step{'s' * (entry.steps > 1)}" for entry in report.rollouts))
    for index, output in enumerate(report.outputs):
        table.add_row(output.name, *(f"{entry.rmse[index]:.3g}" for entry in report.rollouts))
    return table


def _worst(output: OutputDistance) -> Line:
    where = ", ".join(f"{name} = {value:.6g}" for name, value in output.worst_at.items())
    return (
        "worst",
        f"{output.name}: {output.student_there:.6g} in place of {output.teacher_there:.6g} at {where}",
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table
