"""What is wrong with a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["outliers", "missing input", "little data", "hidden state", "noise", "small network", "unfinished"]


@dataclass(frozen=True)
class Trouble:
    """A predicted state whose change is poorly explained, and what it looks like.

    evidence: the number that speaks for it; which one it is depends on the kind (docs/training.md).
    """

    state: str
    r2_change: float
    kind: Kind
    evidence: float
    text: str
