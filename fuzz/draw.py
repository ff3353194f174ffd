"""Numbers and expressions at random."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from numpy.random import Generator

from fuzz.expression import Absolute, Extreme, Name, Node, Number, Scaled, Sum


@dataclass(eq=False)
class Draw:
    """A source of them; `sizes` is the usual magnitude of each variable, `kinds` what was drawn.

    dyadic: numbers are multiples of powers of two, so that sums of them are exact; else they have so many `digits`.
    """

    rng: Generator
    sizes: dict[str, float] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    dyadic: bool = False
    digits: int = 17

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def count(self, weights: list[float]) -> int:
        return 1 + int(self.rng.choice(len(weights), p=weights))

    def note(self, holds: bool, kind: str) -> bool:
        if holds:
            self.kinds.add(kind)
        return holds

    def tidy(self, value: float) -> float:
        """A number with few digits or, in a dyadic problem, a multiple of a power of two near its size."""
        if value == 0.0 or not math.isfinite(value):
            return value
        if self.dyadic:
            unit = 2.0 ** (math.floor(math.log2(abs(value))) - 2)
            return float(round(value / unit) * unit)
        return float(f"{value:.{self.digits}g}")

    def number(self, size: float = 1.0) -> float:
        return self.tidy(float(self.rng.normal()) * size)

    def affine(self, readable: list[str], size: float) -> Node:
        chosen = [str(n) for n in self.rng.permutation(readable)[: int(self.rng.integers(1, 4))]]
        terms: list[Node] = [Scaled(self.number(size / self.sizes[name.rstrip("'")]), Name(name)) for name in chosen]
        if self.chance(0.6):
            terms.append(Number(self.number(size)))
        return Sum(tuple(terms))

    def function(self, readable: list[str], size: float, depth: int) -> Node:
        """Affine, or abs, min and max of such, nested up to `depth`."""
        if depth == 0 or self.chance(0.25):
            return self.affine(readable, size)
        if self.chance(0.4):
            return Scaled(self.number(), Absolute(self.function(readable, size, depth - 1)))
        parts = tuple(self.function(readable, size, depth - 1) for _ in range(int(self.rng.integers(2, 4))))
        return Sum((self.affine(readable, size), Scaled(self.number(), Extreme(self.chance(0.5), parts))))
