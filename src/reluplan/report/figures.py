"""Pictures: what they may be called, how they are written, how they look."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from reluplan.errors import InputError, MissingExtraError
from reluplan.files import write_atomically
from reluplan.report.settings import DEFAULT_FIGURES, FigureSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")


def check_plot(path: Path | None) -> None:
    """Complain before the work if the picture cannot be made."""
    if path is None:
        return
    if path.suffix not in ENDINGS:
        raise InputError(f"{path}: a plot must end in {', '.join(ENDINGS)}")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "plot", "Plotting")


def save_figure(figure: Figure, path: Path, settings: FigureSettings = DEFAULT_FIGURES) -> None:
    """Write a picture; its ending decides the format."""
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix[1:], dpi=settings.resolution)
    write_atomically(path, picture.getvalue())
