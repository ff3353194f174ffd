"""Differential equations over one step."""

from __future__ import annotations

from .learned import Array, Step


def runge_kutta(slopes: Step, states: Array, actions: Array, seconds: float, parts: int) -> Array:
    """The classical method of fourth order, the step cut into equal parts; actions hold over the step."""
    h = seconds / parts
    for _ in range(parts):
        k1 = slopes(states, actions)
        k2 = slopes(states + h / 2 * k1, actions)
        k3 = slopes(states + h / 2 * k2, actions)
        k4 = slopes(states + h * k3, actions)
        states = states + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return states
