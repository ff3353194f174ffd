"""What data cover, as a table on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from reluplan.data.quality import Coverage, DataReport
from reluplan.report.console import ResultConsole
from reluplan.report.settings import DEFAULT_TERMINAL, TerminalSettings


def print_data(
    report: DataReport, console: Console | None = None, settings: TerminalSettings = DEFAULT_TERMINAL
) -> None:
    """Size, faults and coverage of transition data."""
    console = console or ResultConsole(soft_wrap=True)
    console.print(f"rows      {report.rows} transitions in {report.episodes} episode(s)")
    if report.duplicate_rows:
        console.print(f"repeated  {report.duplicate_rows} rows repeat an earlier one")
    for name in report.constant_columns:
        console.print(f"constant  {name} never changes, so nothing can be learned about it")
    for name, count in report.outside.items():
        console.print(f"outside   {count} value(s) of {name} lie outside the declared bounds")
    console.print(coverage_table(report, settings.sparse))


def coverage_table(report: DataReport, sparse: float = DEFAULT_TERMINAL.sparse) -> Table:
    """One row per state and action: values, declared bounds, covered share."""
    table = Table(box=None, pad_edge=False)
    for heading in ("variable", "smallest", "largest", "bounds", "covered"):
        table.add_column(heading, justify="left" if heading == "variable" else "right", no_wrap=True)
    for column in report.coverage:
        if column.role != "next state":
            covered = _covered(column, sparse)
            table.add_row(column.name, f"{column.minimum:g}", f"{column.maximum:g}", _bounds(column), covered)
    return table


def _bounds(column: Coverage) -> str:
    if column.lower is None and column.upper is None:
        return "-"
    low = "-inf" if column.lower is None else f"{column.lower:g}"
    high = "inf" if column.upper is None else f"{column.upper:g}"
    return f"[{low}, {high}]"


def _covered(column: Coverage, sparse: float) -> str:
    if column.covered is None:
        return "-"
    return f"{column.covered:.0%}{' (sparse)' * (column.covered < sparse)}"
