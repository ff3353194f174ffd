"""Activations, clipping and switches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.network.affine import Affine, aligned
from reluplan.network.builder import NetworkBuilder
from reluplan.network.torch.call import Call, Condition, Operator, Result, number
from reluplan.network.torch.moving import moved

SWITCH_TOLERANCE = 1e-12
"""How far, relative to its terms, a switch may jump: the rounding of its two sides."""


def clamped(call: Call) -> Affine:
    """min(max(self, min), max); the bounds are numbers or tensors."""
    tensor = call.tensor("self")
    low = call.get("min")
    high = call.get("max")
    if any(isinstance(bound, Affine) and not bound.is_constant for bound in (low, high)):
        tensor = tensor if low is None else call.builder.maximum(tensor, call.tensor("min"))
        return tensor if high is None else call.builder.minimum(tensor, call.tensor("max"))
    return call.builder.clip(tensor, _number_or(low, -np.inf), _number_or(high, np.inf))


def _number_or(value: Any, default: float) -> Any:
    if value is None:
        return default
    return value.value if isinstance(value, Affine) else value


def hard_tanh(call: Call) -> Affine:
    """min(max(self, min_val), max_val)."""
    return call.builder.clip(call["self"], call["min_val"], call["max_val"])


def soft_shrunk(call: Call) -> Affine:
    """x - min(max(x, -l), l)."""
    width = float(call["lambd"])
    return call.tensor("self") - call.builder.clip(call["self"], -width, width)


def threshold(call: Call) -> Affine:
    """x above the threshold and the value below: continuous if they are equal, and then max(x, threshold)."""
    if call["threshold"] != call["value"]:
        raise ValueError(
            f"a threshold of {call['threshold']} with the value {call['value']} jumps: it is not continuous"
        )
    return call.builder.clip(call["self"], low=float(call["threshold"]))


def prelu(call: Call) -> Affine:
    """One slope per entry of axis 1, or one for all."""
    slopes = call["weight"].value
    rank = len(call["self"].shape)
    if slopes.size > 1 and rank > 2:
        slopes = slopes.reshape(-1, *(1,) * (rank - 2))
    return call.builder.leaky_relu(call["self"], slopes)


def randomised_relu(call: Call) -> Affine:
    """In evaluation mode a leaky ReLU with the mean of the slopes."""
    if call["training"]:
        raise ValueError("a randomised leaky ReLU in training mode is random")
    return call.builder.leaky_relu(call["self"], (float(call["lower"]) + float(call["upper"])) / 2)


def compared(above: bool) -> Operator:
    """A condition self > other, or self < other; where they are equal both sides of a switch agree."""

    def compared(call: Call) -> Condition:
        difference = call.tensor("self") - call.tensor("other")
        return Condition(difference if above else -difference)

    return compared


def negated(call: Call) -> Condition:
    """The opposite of a condition."""
    if not isinstance(call["self"], Condition):
        raise ValueError("it asks whether a tensor is zero: that jumps")
    return Condition(-call["self"].difference)


def where(call: Call) -> Result:
    """A choice by a constant mask, or by a condition."""
    if isinstance(call["condition"], Condition):
        return switched(call.builder, call["condition"], call.tensor("self"), call.tensor("other"))
    import torch

    arguments = {"condition": call["condition"], "self": call.tensor("self"), "other": call.tensor("other")}
    return moved(Call(torch.ops.aten.where.self, arguments, call.builder))


def switched(builder: NetworkBuilder, condition: Condition, yes: Affine, no: Affine) -> Affine:
    """yes where d > 0 and no elsewhere: no + k max(0, d), if yes - no = k d for a number k per entry.

    Otherwise the two sides do not meet where d = 0, and the switch jumps.
    """
    d, yes, no = aligned(condition.difference, yes, no)
    gap = yes - no
    k = _dot(gap, d) / np.where(_dot(d, d) > 0.0, _dot(d, d), 1.0)
    rest = gap - d * Affine.constant(k)
    if np.any(_dot(rest, rest) > SWITCH_TOLERANCE**2 * (_dot(yes, yes) + _dot(no, no))):
        raise ValueError("its two sides differ where its condition changes: it jumps, or is not piecewise linear")
    return no + builder.maximum(number(0.0), d) * Affine.constant(k)


def _dot(a: Affine, b: Affine) -> NDArray[Any]:
    """For each entry the inner product of its coefficients, with the constant as one of them."""
    products = np.asarray(a.rows.multiply(b.rows).sum(axis=1)).reshape(a.shape)
    return np.asarray(a.base * b.base + products)
