"""Obstacles as octagons: rows of a problem file that keep a point out of them."""

from __future__ import annotations

import math

Circle = tuple[float, float, float]
"""Centre and radius."""


def octagon_row(x: str, y: str, circle: Circle) -> str:
    """max_k n_k·((x, y) − c) >= r over eight directions n_k: outside of the octagon around the circle.

    Its sides touch the circle (r is the octagon's apothem), so it contains the circle, and who stays out of it stays
    out of the circle. x, y: names, or sums of names, of the point's coordinates.

    >>> octagon_row("x", "y", (2.0, 1.0, 0.5)).count("+")
    9
    """
    return f"max({', '.join(_side(x, y, circle, k) for k in range(8))}) >= {circle[2]:.12g}"


def _side(x: str, y: str, circle: Circle, k: int) -> str:
    along, across = math.cos(k * math.pi / 4), math.sin(k * math.pi / 4)
    at = along * circle[0] + across * circle[1]
    parts = [f"{factor:+.12g}*({name})" for factor, name in ((along, x), (across, y)) if abs(factor) > 1e-9]
    return " ".join([*parts, f"{-at:+.12g}"])
