"""Settings of encodings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CutSettings:
    """Ideal cuts of single units at the root.

    rounds: of LPs and cuts. worthwhile: a violation (relative to P) that is worth a cut.
    """

    rounds: int = 10
    worthwhile: float = 1e-6
