"""Operators that move, repeat, leave out, keep or set entries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from reluplan.network.affine import Affine, NotPiecewiseLinearError, concatenated
from reluplan.network.torch.call import INDEX_ARGUMENTS, Call, Result, is_list, replaced_in, tensors_in


def moved(call: Call) -> Result:
    """An operator that only moves, repeats or leaves out entries: torch itself moves their numbers.

    These are floats, exact up to 2^53: not every operator takes integers.
    """
    import torch

    if call.get("accumulate"):
        raise ValueError("it adds entries to those that it replaces, which is not supported")
    tensors = list(tensors_in([value for name, value in call.arguments.items() if name not in INDEX_ARGUMENTS]))
    starts = np.cumsum([0, *(tensor.size for tensor in tensors)]).tolist()
    numbers = [
        torch.arange(start, end, dtype=torch.float64).reshape(tensor.shape)
        for (start, end), tensor in zip(pairwise(starts), tensors, strict=True)
    ]
    following = iter(numbers)
    result = call.target(**replaced_in(call, lambda _: next(following)))
    joined = tensors[0] if len(tensors) == 1 else concatenated([tensor.reshaped((-1,)) for tensor in tensors], 0)
    moved = [joined.taken(part.to(torch.int64).numpy()) for part in (result if is_list(result) else [result])]
    return moved if is_list(result) else moved[0]


def padded(call: Call) -> Affine:
    """Entries around the tensor: moved there from one more entry, which holds the value."""
    import torch

    value = float(call.get("value") or 0.0)
    tensor = call["self"]
    mode = call.get("mode") or "constant"
    positions = torch.arange(tensor.size, dtype=torch.float64).reshape(tensor.shape)  # reflections need floats
    options = {"value": float(tensor.size)} if mode == "constant" else {}
    moved = torch.nn.functional.pad(positions, list(call["pad"]), mode=mode, **options)
    entries = concatenated([tensor.reshaped((-1,)), Affine.constant(np.array([value]))], 0)
    return entries.taken(moved.to(torch.int64).numpy())


def copied(call: Call) -> Affine:
    """src in the shape of self."""
    return call.tensor("src").broadcast(call["self"].shape)


def kept(call: Call) -> Affine:
    """The tensor as it is; rounding to another floating-point type is left out, as it is not affine."""
    dtype = call.get("dtype")
    if dtype is not None and not dtype.is_floating_point:
        raise NotPiecewiseLinearError(f"it rounds to {dtype}: that jumps")
    result: Affine = call.arguments[next(iter(call.arguments))]
    return result


def dropout(call: Call) -> Affine:
    """Nothing in evaluation mode."""
    if call["train"]:
        raise ValueError("dropout in training mode is random: give F.dropout the argument training=self.training")
    result: Affine = call["input"]
    return result


def filled(call: Call) -> Affine:
    """A constant that has only its shape from the tensor."""
    import torch

    result = call.target(**replaced_in(call, lambda tensor: torch.zeros(tensor.shape, dtype=torch.float64)))
    return Affine.constant(result.numpy())
