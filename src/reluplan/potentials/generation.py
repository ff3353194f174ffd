"""What constraint generation returns: one set of potentials, and how it was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reluplan.potentials.potentials import RewardPotentials


@dataclass(frozen=True)
class Round:
    """One round of the loop: the largest violation found, the proven bound on it (None without a MILP), the cuts.

    seconds: since the loop began. source: what found the violation.
    """

    seconds: float
    violation: float
    dual_bound: float | None
    cuts: int
    source: str


OnRound = Callable[[Round], None]
"""A listener that is told of each round as it ends."""


@dataclass(frozen=True, eq=False)
class Generation:
    """The outcome: potentials that hold, whether they are optimal within the tolerance, and how it went.

    objective: φ at the objective's pattern, of the potentials as returned.
    """

    potentials: RewardPotentials
    converged: bool
    objective: float
    rounds: tuple[Round, ...]
    cut_count: int
    pattern_count: int
    milp_count: int
    seconds: float
    interrupted: bool
    notes: tuple[str, ...]


def tell_rounds(tell: Callable[[str], None]) -> OnRound:
    """A listener that puts rounds into words."""

    def listen(entry: Round) -> None:
        bound = "" if entry.dual_bound is None else f", proven at most {entry.dual_bound:.4g}"
        tell(f"violation {entry.violation:.4g} found by {entry.source}{bound}, {entry.cuts} cuts")

    return listen
