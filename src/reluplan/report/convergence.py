"""The convergence of constraint generation as a picture (the paper's Figure 2)."""

from __future__ import annotations

from pathlib import Path

from reluplan.potentials.potential_set import PotentialSet
from reluplan.report.figures import check_plot, save_figure


def plot_convergence(potentials: PotentialSet, path: Path) -> None:
    """Violation over time on a log scale: what each round found, and what the MILP proved."""
    check_plot(path)
    from matplotlib.figure import Figure

    report = potentials.report
    noise = 1e-9 * max((entry.violation for entry in report.history), default=0.0)
    found = [(entry.seconds, entry.violation) for entry in report.history if entry.violation > noise]
    proven = [(entry.seconds, entry.dual_bound) for entry in report.history if entry.dual_bound is not None]
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(*zip(*found, strict=True) if found else ([], []), ".-", color="#1f77b4", label="largest violation found")
    positive = [(seconds, bound) for seconds, bound in proven if bound > 0.0]
    axes.plot(*zip(*positive, strict=True) if positive else ([], []), "s", color="#d62728", label="proven by the MILP")
    axes.set_yscale("log")
    axes.set_xlabel("seconds")
    axes.set_ylabel("violation of the potentials")
    state = "converged" if report.converged else "stopped early"
    axes.set_title(f"Reward potentials, N = {report.interval_count}: {report.cuts} cuts, {state}")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    save_figure(figure, path)
