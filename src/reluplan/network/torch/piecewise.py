"""Activations, clipping and switches."""

from __future__ import annotations

from typing import Any

import numpy as np

from reluplan.network.affine import Affine, NotPiecewiseLinearError
from reluplan.network.choice import Comparison
from reluplan.network.torch.call import Call, Operator, Result, number
from reluplan.network.torch.moving import moved


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
    """A condition self > other, or self < other; where they are equal both sides of a choice agree."""

    def compared(call: Call) -> Comparison:
        sides = call.tensor("self"), call.tensor("other")
        return Comparison.greater(*(sides if above else reversed(sides)))

    return compared


def negated(call: Call) -> Comparison:
    """The opposite of a condition."""
    condition = call.arguments["self"]
    if not isinstance(condition, Comparison):
        raise NotPiecewiseLinearError("it asks whether a tensor is zero: that jumps")
    return Comparison.greater(number(0.0), condition.difference)


def where(call: Call) -> Result:
    """A choice by a constant mask, or by a condition."""
    import torch

    condition = call.arguments["condition"]
    if isinstance(condition, Comparison):
        return call.builder.choose(condition, call.tensor("self"), call.tensor("other"))
    arguments = {"condition": condition, "self": call.tensor("self"), "other": call.tensor("other")}
    return moved(Call(torch.ops.aten.where.self, arguments, call.builder))
