"""A training as people see it: the line while it runs, the table at its end, the picture."""

from __future__ import annotations

import math
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from reluplan.learning.report import CurvePoint, TrainingReport
from reluplan.learning.trials import SearchReport, Trial
from reluplan.report.console import ResultConsole
from reluplan.report.figures import check_plot, save_figure
from reluplan.report.live_line import LiveLine
from reluplan.report.settings import DEFAULT_FIGURES, FigureSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = {
    "finished": "finished",
    "interrupted": "interrupted: these are the best weights so far",
    "time limit": "the time limit ended it: these are the best weights so far",
}
MOST_TRIALS = 10
"""Sizes of the search that are shown; the JSON report has all."""
SHADES = ("0.97", "0.91")


class TrainingView:
    """One live line on a terminal: stage, epoch, losses, seconds; nothing elsewhere."""

    def __init__(self, quiet: bool, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._started = time.monotonic()
        self._last: CurvePoint | None = None
        self._live = LiveLine(self._line, console, quiet)

    def __enter__(self) -> TrainingView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __call__(self, point: CurvePoint) -> None:
        """Take in an entry of the learning curve."""
        self._last = point

    def _line(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{self._last.stage if self._last else 'start':<8}", style="bold cyan")
        text.append(f"{time.monotonic() - self._started:7.1f} s")
        if self._last is not None:
            text.append(f"   epoch {self._last.epoch}")
            text.append(f"   training {self._last.training:.3g}   validation {self._last.validation:.3g}")
        return text


def print_training(report: TrainingReport, console: Console | None = None) -> None:
    """The report in a screenful."""
    console = console or ResultConsole(soft_wrap=True)
    rows = report.rows
    console.print(f"training   {ENDINGS[report.learning.ending]}, {report.seconds:.1f} s")
    console.print(
        f"rows       {rows['training']} to learn from, {rows['validation']} to stop by, {rows['test']} to judge by "
        f"(kept together: {report.split_by})"
    )
    console.print(
        f"network    {relu_count(report.relus)}, {report.unstable_relus} of them undecided in the problem's box; "
        f"{report.nonzero_weights} of {report.weights} weights are not zero"
    )
    for text, count in report.dropped.items():
        console.print(f"left out   {count} row{'s' * (count != 1)} for which {text}")
    if report.search is not None:
        console.print(f"search     {search_summary(report.search)}")
        console.print(search_table(report.search))
    console.print(error_table(report))
    if report.rollouts:
        console.print(rollout_table(report))
    for trouble in report.troubles:
        console.print(f"warning    {trouble.text}")
    for note in report.notes:
        console.print(f"note       {note}")


def relu_count(number: int) -> str:
    """
    >>> relu_count(1), relu_count(2)
    ('1 ReLU', '2 ReLUs')
    """
    return f"{number} ReLU{'s' * (number != 1)}"


def search_summary(search: SearchReport) -> str:
    """What the search chose, and what that saves."""
    chosen = search.trials[search.chosen]
    found = f"{relu_count(chosen.relus) if chosen.relus else 'no ReLUs'} and {chosen.nonzero_weights} weights"
    if search.full is None:
        return f"linear dynamics explain the data: {found}"
    full = search.full
    if chosen.cost == full.cost:
        tried = f"{len(search.trials)} network{'s' * (len(search.trials) != 1)}"
        return f"of {tried}, none that is easier is as good as {relu_count(full.relus)}"
    return (
        f"{found} are as good as the best of {len(search.trials)} networks; "
        f"without it, {full.relus} and {full.nonzero_weights}"
    )


def search_table(search: SearchReport, most: int = MOST_TRIALS) -> Table:
    """What was tried: for each number of units the easiest network that is as good or, if none is, the best."""
    table = _table("tried", "ReLUs", "undecided", "weights", "validation", "")
    for number, trial in _shown_trials(search, most):
        verdict = "chosen" if number == search.chosen else "as good" if trial.as_good else ""
        table.add_row(
            trial.kind, str(trial.relus), str(trial.unstable_relus), str(trial.nonzero_weights), f"{trial.error:.3g}",
            verdict,
        )  # fmt: skip
    return table


def _shown_trials(search: SearchReport, most: int) -> list[tuple[int, Trial]]:
    """From few units to many; of very many sizes, those around the choice."""
    best: dict[int, int] = {}
    for number, trial in enumerate(search.trials):
        other = best.get(trial.relus)
        if other is None or _preference(search, number) < _preference(search, other):
            best[trial.relus] = number
    numbers = [best[relus] for relus in sorted(best)]
    full = next((number for number, trial in enumerate(search.trials) if trial.kind == "full"), search.chosen)
    at = numbers.index(search.chosen)
    near = sorted(range(len(numbers)), key=lambda place: (place != 0, abs(place - at)))[:most]
    shown = [numbers[place] for place in sorted(near)]
    return [(number, search.trials[number]) for number in dict.fromkeys([*shown, full])]


def _preference(search: SearchReport, number: int) -> tuple[bool, bool, int, float]:
    trial = search.trials[number]
    return number != search.chosen, not trial.as_good, trial.nonzero_weights if trial.as_good else 0, trial.error


def error_table(report: TrainingReport) -> Table:
    """One row per predicted state: errors of one step, and R²."""
    table = _table("one step", "RMSE", "mean", "worst", "at row", "R² next", "R² change")
    for state in report.states:
        table.add_row(
            state.name, f"{state.rmse:.3g}", f"{state.mae:.3g}", f"{state.worst:.3g}", str(state.worst_row),
            _explained(state.r2_next), _explained(state.r2_change),
        )  # fmt: skip
    return table


def rollout_table(report: TrainingReport) -> Table:
    """One row per predicted state: RMSE after many steps."""
    table = _table("RMSE after", *(f"{entry.steps} steps" for entry in report.rollouts))
    for index, name in enumerate(report.outputs):
        table.add_row(name, *(f"{entry.rmse[index]:.3g}" for entry in report.rollouts))
    table.add_row("rollouts", *(str(entry.windows) for entry in report.rollouts))
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _explained(value: float | None) -> str:
    return "-" if value is None else f"{value:.6f}"


def plot_training(report: TrainingReport, path: Path, settings: FigureSettings = DEFAULT_FIGURES) -> None:
    """Two panels: the learning curves, and how errors grow over a rollout."""
    check_plot(path)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.2), layout="constrained")
    curves, drift = figure.subplots(1, 2)
    _plot_curves(report, curves)
    _plot_drift(report, drift, settings)
    save_figure(figure, path, settings)


def _plot_curves(report: TrainingReport, axes: Axes) -> None:
    """Losses over seconds, stages shaded apart."""
    points = [point for point in report.learning.points if math.isfinite(point.training)]
    seconds = [point.seconds for point in points]
    axes.plot(seconds, [point.training for point in points], color="#1f77b4", linewidth=1.2, label="training")
    axes.plot(seconds, [point.validation for point in points], color="#d62728", linewidth=1.2, label="validation")
    for index, (stage, begin, end) in enumerate(_stage_spans(report)):
        axes.axvspan(begin, end, color=SHADES[index % 2], zorder=0, linewidth=0)
        axes.text((begin + end) / 2.0, 0.98, stage, transform=axes.get_xaxis_transform(), ha="center", va="top",
                  color="0.4", fontsize=9)  # fmt: skip
    kept = report.learning.points[report.learning.kept]
    axes.plot(kept.seconds, kept.validation, "o", color="#d62728", markersize=5, label="kept")
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("loss (1: predicting the mean change)")
    axes.set_title("Learning curves")
    _leave_room(axes)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="upper center", ncols=3, bbox_to_anchor=(0.5, 0.94))


def _stage_spans(report: TrainingReport) -> list[tuple[str, float, float]]:
    """Stage, first and last second, without the moments that are no stage of their own."""
    spans: list[tuple[str, float, float]] = []
    for point in report.learning.points:
        if spans and spans[-1][0] == point.stage:
            spans[-1] = (point.stage, spans[-1][1], point.seconds)
        else:
            spans.append((point.stage, spans[-1][2] if spans else 0.0, point.seconds))
    return [span for span in spans if span[0] not in ("start", "linear", "prune")]


def _plot_drift(report: TrainingReport, axes: Axes, settings: FigureSettings) -> None:
    """RMSE of each state after 1, 2, ... steps of feeding the network its own predictions."""
    count = report.drift.windows if report.drift else 0
    axes.set_title(f"Drift over rollouts of the network ({count} of them)")
    axes.set_xlabel("steps")
    axes.set_ylabel("RMSE, in the unit of the state")
    if report.drift is None:
        axes.text(0.5, 0.5, "no held-out episode is long enough", transform=axes.transAxes, ha="center", color="0.4")
        return
    steps = range(1, len(report.drift.rmse) + 1)
    lines: list[Any] = list(zip(*report.drift.rmse, strict=True))
    for index, (name, line) in enumerate(zip(report.outputs, lines, strict=True)):
        crowded = len(lines) > settings.most_lines
        axes.plot(steps, line, linewidth=1.4, color="0.6" if crowded else f"C{index}", label="" if crowded else name)
    peaks = [max(line) for line in lines]
    if max(peaks) > settings.wide_range * max(min(peaks), 1e-300):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    axes.set_xlim(1, len(report.drift.rmse))
    _leave_room(axes)
    axes.grid(visible=True, which="major", alpha=0.3)
    if len(lines) <= settings.most_lines:
        axes.legend(loc="upper center", ncols=min(4, len(lines)))


def _leave_room(axes: Axes) -> None:
    """Lift the upper limit, so that a legend at the top covers no line."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.3 if axes.get_yscale() == "log" else low + 1.25 * (high - low))
