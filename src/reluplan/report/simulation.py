"""A plan in the true system: a table on the terminal, and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from reluplan.problem.problem import Problem
from reluplan.report.console import ResultConsole
from reluplan.report.figures import check_plot, save_figure
from reluplan.report.settings import DEFAULT_FIGURES, DEFAULT_TERMINAL, FigureSettings, TerminalSettings
from reluplan.simulators.repeats import RepeatedValidation, Spread
from reluplan.simulators.validate import ValidationReport


def print_validation(
    report: ValidationReport, console: Console | None = None, settings: TerminalSettings = DEFAULT_TERMINAL
) -> None:
    """Rewards, drift and broken constraints of a plan in the true system."""
    console = console or ResultConsole(soft_wrap=True)
    console.print()
    console.print("In the true system:")
    console.print(_rewards(report))
    for line in _notes(report, settings.violations):
        console.print(line)
    console.print(_drift(report, settings.states))
    if len(report.drift) > settings.states:
        console.print(f"and {len(report.drift) - settings.states} more states (see --json)")


def print_repeats(found: RepeatedValidation, console: Console | None = None) -> None:
    """Whether the true system is stochastic, and what several runs of the plan earn and break."""
    console = console or ResultConsole(soft_wrap=True)
    for line in _repeats(found):
        console.print(line)


def _repeats(found: RepeatedValidation) -> list[str]:
    runs = len(found.runs)
    if found.is_stochastic is None:
        return ["seeds    each gives the simulator another first state: whether it is stochastic cannot be told"]
    if not found.is_stochastic:
        return [f"repeats  {max(2, runs)} runs with different seeds agree: the simulator is deterministic here"]
    if runs == 1:
        return [
            "repeats  a run with another seed differs: the simulator is stochastic, and this is one run of many; "
            "add --repeat 20 for mean and spread"
        ]
    lines = [
        f"repeats  {runs} runs with different seeds differ: the simulator is stochastic; the drift is the first run's",
        f"earned   {_spread(found.true_reward)}",
    ]
    if found.simulator_reward is not None:
        lines.append(f"paid     {_spread(found.simulator_reward)}")
    lines.append(f"broken   in {found.broken_runs} of {runs} runs; largest violation {_spread(found.violation)}")
    return lines


def _spread(spread: Spread) -> str:
    if spread.mean is None:
        return "not finite in some run"
    return f"mean {spread.mean:.6g}, std {spread.std:.3g}, min {spread.minimum:.6g}, max {spread.maximum:.6g}"


def _rewards(report: ValidationReport) -> str:
    lines = [
        f"promised {report.model.total_reward:.6f}   (by the network)",
        f"earned   {report.true.total_reward:.6f}   (the problem's reward on the true states)",
    ]
    if report.simulator_reward is not None:
        lines.append(f"paid     {report.simulator_reward:.6f}   (the simulator's own reward)")
    return "\n".join(lines)


def _notes(report: ValidationReport, shown: int) -> Sequence[str]:
    lines = []
    if report.clipped_steps:
        lines.append(
            f"clipped  {len(report.clipped_steps)} action(s) that the true system does not allow, first at step "
            f"{report.clipped_steps[0]}, by at most {report.largest_clip:.3g}"
        )
    if report.ended_at is not None:
        lines.append(f"ended    the simulator called the episode over after step {report.ended_at}; run on regardless")
    broken = report.check.broken
    lines += [f"broken   step {v.step}: {v.constraint} by {v.amount:.3g}" for v in broken[:shown]]
    if len(broken) > shown:
        lines.append(f"         and {len(broken) - shown} more (see --json)")
    if not broken:
        lines.append("kept     every constraint holds")
    return lines


def _drift(report: ValidationReport, shown: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("drift of", no_wrap=True)
    for heading in ("mean", "largest", "at step"):
        table.add_column(heading, justify="right", no_wrap=True)
    for drift in report.drift[:shown]:
        table.add_row(drift.state, f"{drift.mean:.3g}", f"{drift.maximum:.3g}", str(drift.step))
    return table


def plot_drift(
    problem: Problem, report: ValidationReport, path: Path, settings: FigureSettings = DEFAULT_FIGURES
) -> None:
    """Every state in the model and in the true system over the steps, one panel each."""
    check_plot(path)
    from matplotlib.figure import Figure

    order = sorted(range(len(report.drift)), key=lambda i: -report.drift[i].maximum)[: settings.panels]
    shown = sorted(order)
    columns = min(3, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(4.0 * columns + 1.0, 2.6 * rows + 0.8), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for place, index in enumerate(shown):
        _panel(panels[place // columns][place % columns], problem, report, index)
    for place in range(len(shown), rows * columns):
        panels[place // columns][place % columns].set_visible(False)
    panels[0][0].legend()
    figure.suptitle(f"{problem.name}: the plan in the network and in the true system")
    save_figure(figure, path, settings)


def _panel(axes: Any, problem: Problem, report: ValidationReport, index: int) -> None:
    steps = range(1, report.model.horizon + 2)
    drift = report.drift[index]
    axes.plot(steps, report.true.states[:, index], color="#1f77b4", label="true")
    axes.plot(steps, report.model.states[:, index], "--", color="#d62728", label="network")
    axes.set_title(f"{drift.state}: drift at most {drift.maximum:.3g}", fontsize="medium")
    axes.set_xlabel("step")
    axes.grid(visible=True, alpha=0.3)
