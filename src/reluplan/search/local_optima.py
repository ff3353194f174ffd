"""The local optima found so far, and whether there may be others."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class LocalOptima:
    """The merit of the local optimum that each local search ended in."""

    merits: list[float] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many local searches ended in one."""
        return len(self.merits)

    def add(self, merit: float) -> None:
        """One more."""
        self.merits.append(merit)

    def different(self, size: float) -> int:
        """How many there are if merits that differ by less than a size count as one."""
        return len({round(merit / size) for merit in self.merits})

    def expected(self, size: float) -> float:
        """How many there are to be expected in total, seen and unseen; infinite if that cannot be said yet.

        W (N − 1) / (N − W − 2), with W different ones after N starts (Boender and Rinnooy Kan, 1987).
        """
        different = self.different(size)
        spare = self.count - different - 2
        return different * (self.count - 1) / spare if spare > 0 else float("inf")
