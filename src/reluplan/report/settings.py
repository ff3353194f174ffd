"""How results are shown."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class TerminalSettings:
    """How much a terminal is given to read.

    violations, states, layers: the rows of tables that are shown; the rest is in --json. narrow: terminals with
    fewer columns than this get tables without details. sparse: a range that is covered by
    data less than this is pointed out, since the network is a guess in the rest of it. small_step, quiet_seconds: a
    bound that moves by less than this share of itself is told only after so many seconds.
    """

    violations: int = 5
    states: int = 20
    layers: int = 10
    narrow: int = 72
    sparse: float = 0.5
    small_step: float = 1e-3
    quiet_seconds: float = 10.0


DEFAULT_FIGURES = FigureSettings()
DEFAULT_TERMINAL = TerminalSettings()
