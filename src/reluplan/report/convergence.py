"""The convergence of constraint generation as a picture (the paper's Figure 2)."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path

from reluplan.errors import InputError, MissingExtraError
from reluplan.files import write_atomically
from reluplan.potentials.potential_set import PotentialSet

ENDINGS = (".png", ".svg", ".pdf")


def check_plot(path: Path | None) -> None:
    """Complain before the work if the picture cannot be made."""
    if path is None:
        return
    if path.suffix not in ENDINGS:
        raise InputError(f"{path}: a plot must end in {', '.join(ENDINGS)}")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot", "Plotting")


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
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=150)
    write_atomically(path, picture.getvalue())
