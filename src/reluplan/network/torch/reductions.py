"""Sums, means, largest and smallest entries over axes."""

from __future__ import annotations

import math
from collections.abc import Callable

from reluplan.network.affine import Affine, NotPiecewiseLinearError
from reluplan.network.torch.call import Call, Operator, number


def summed(call: Call) -> Affine:
    """The sum over the axes of the call."""
    if not call["self"].shape:
        return call.tensor("self")
    return call.tensor("self").summed(_axes(call), bool(call.get("keepdim")))


def averaged(call: Call) -> Affine:
    """The mean over the axes of the call."""
    total = summed(call)
    return total * number(max(1, total.size) / max(1, call["self"].size))


def largest(call: Call) -> Affine:
    """The largest entry over the axes of the call."""
    return _extreme(call, call["self"])


def smallest(call: Call) -> Affine:
    """The smallest entry over the axes of the call."""
    return -_extreme(call, -call["self"])


def _extreme(call: Call, tensor: Affine) -> Affine:
    """The largest entry over the axes of the call."""
    axes = _axes(call) if tensor.shape else []
    kept = [axis for axis in range(len(tensor.shape)) if axis not in axes]
    sizes = [tensor.shape[axis] for axis in kept]
    flat = tensor.transposed([*kept, *axes]).reshaped([*sizes, -1])
    largest = call.builder.maximum_along(flat, len(kept))
    shape = [1 if axis in axes else size for axis, size in enumerate(tensor.shape)]
    return largest.reshaped(shape) if call.get("keepdim") else largest


def _axes(call: Call) -> list[int]:
    """The axes of a reduction: those that are named, or all."""
    dim = call.get("dim")
    rank = len(call["self"].shape)
    if dim is None or dim == []:
        return list(range(rank))
    return [dim % rank] if isinstance(dim, int) else sorted(axis % rank for axis in dim)


def with_positions(operator: Callable[[Call], Affine]) -> Operator:
    """Values and their positions; a graph that reads the positions is refused when it does."""
    return lambda call: [operator(call), None]


def norm(call: Call) -> Affine:
    """The sum, or the largest, of the absolute values."""
    absolute = Call(call.target, {**call.arguments, "self": call.builder.absolute(call["self"])}, call.builder)
    if call["ord"] == 1:
        return summed(absolute)
    if call["ord"] == math.inf:
        return largest(absolute)
    raise NotPiecewiseLinearError("this norm is not piecewise linear")
