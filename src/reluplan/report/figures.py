"""Pictures: what they may be called, how they are written, how they look."""

from __future__ import annotations

import io
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from reluplan.errors import InputError, MissingExtraError
from reluplan.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class FigureSettings:
    """How pictures look.

    resolution: dots per inch of a .png. panels: states that a picture of the drift shows, those that drift most first;
    more than a dozen are too small to read. most_lines: states beyond this many share one colour, since nobody tells
    more apart. wide_range: lines whose peaks differ by more than this factor get a logarithmic axis.
    """

    resolution: float = 150.0
    panels: int = 12
    most_lines: int = 8
    wide_range: float = 30.0


DEFAULT_FIGURES = FigureSettings()


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
