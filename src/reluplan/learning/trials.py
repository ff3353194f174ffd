"""What the search for an easier network tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["linear", "full", "fewer units", "polished", "fewer weights"]


@dataclass(frozen=True)
class Trial:
    """One network: what it would cost a planner, and how good it is on the validation part.

    unstable_relus: over the declared box. error: mean squared error of one step in units of the variance of the change;
    rollout_error: the same along rollouts, None if no held-out episode is long enough. as_good: as the best of all.
    """

    kind: Kind
    relus: int
    unstable_relus: int
    nonzero_weights: int
    error: float
    rollout_error: float | None
    as_good: bool
    seconds: float

    @property
    def cost(self) -> tuple[int, int, int]:
        """What makes planning hard, most important first."""
        return self.unstable_relus, self.relus, self.nonzero_weights


@dataclass(frozen=True)
class SearchReport:
    """All networks that were tried, in order, and the number of the one that was chosen."""

    trials: tuple[Trial, ...]
    chosen: int

    @property
    def full(self) -> Trial | None:
        """The network that would have been the result without a search; None if it was not needed."""
        return next((trial for trial in self.trials if trial.kind == "full"), None)
