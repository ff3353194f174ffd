"""Sums, products and normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from reluplan.network.affine import Affine, NotPiecewiseLinearError, batch_normalised
from reluplan.network.choice import Comparison
from reluplan.network.torch.call import Call, Operator, number


def added(call: Call) -> Affine:
    """self + alpha other."""
    return call.tensor("self") + scaled(call.tensor("other"), call.get("alpha"))


def subtracted(call: Call) -> Affine:
    """self - alpha other."""
    return call.tensor("self") - scaled(call.tensor("other"), call.get("alpha"))


def subtracted_from(call: Call) -> Affine:
    """other - alpha self."""
    return call.tensor("other") - scaled(call.tensor("self"), call.get("alpha"))


def scaled(tensor: Affine, factor: Any) -> Affine:
    """The tensor times a number; None counts as 1."""
    return tensor if factor is None or factor == 1 else tensor * number(float(factor))


def multiplied(call: Call) -> Affine:
    """A factor that is a condition chooses between the other factor and zero."""
    for name, other in (("self", "other"), ("other", "self")):
        condition = call.arguments[name]
        if isinstance(condition, Comparison):
            return call.builder.choose(condition, call.tensor(other), number(0.0))
    return call.tensor("self") * call.tensor("other")


def divided(call: Call) -> Affine:
    """self / other, for a constant other."""
    if call.get("rounding_mode") is not None:
        raise NotPiecewiseLinearError("a division that rounds jumps: it is not continuous")
    return call.tensor("self") / call.tensor("other")


def power(call: Call) -> Affine:
    """Only the power of 1 is piecewise linear."""
    exponent = call["exponent"]
    if isinstance(exponent, (int, float)) and exponent == 1:
        return call.tensor("self")
    raise NotPiecewiseLinearError("a power is not piecewise linear")


def interpolated(call: Call) -> Affine:
    """self + weight (end - self)."""
    return call.tensor("self") + call.tensor("weight") * (call.tensor("end") - call.tensor("self"))


def product(left: str, right: str) -> Operator:
    """A matrix product of the arguments of these names."""
    return lambda call: call.tensor(left) @ call.tensor(right)


def linear(call: Call) -> Affine:
    """input weight' + bias."""
    product = call.tensor("input") @ _last_axes_swapped(call["weight"])
    return product if call["bias"] is None else product + call["bias"]


def _last_axes_swapped(tensor: Affine) -> Affine:
    return tensor.rearranged(lambda entries: np.swapaxes(entries, -1, -2)) if len(tensor.shape) > 1 else tensor


def added_product(left: str, right: str) -> Operator:
    """beta self + alpha left right."""

    def added(call: Call) -> Affine:
        product = scaled(call[left] @ call[right], call["alpha"])
        return product + scaled(call["self"], call["beta"]) if call["beta"] else product

    return added


def normalised(call: Call) -> Affine:
    """Batch normalisation with running statistics."""
    if call.get("training"):
        raise ValueError("it keeps no running statistics, so that its outputs depend on the whole batch")
    mean, variance = call["running_mean"], call["running_var"]
    ones = Affine.constant(np.ones(mean.shape))
    scale = ones if call["weight"] is None else call["weight"]
    shift = ones - ones if call["bias"] is None else call["bias"]
    return batch_normalised(call["input"], scale, shift, mean, variance, call["eps"])
