"""Operators that move, repeat or leave out entries, and those that make shapes and constants."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from reluplan.network.affine import Affine, aligned, concatenated, require_size
from reluplan.network.choice import Comparison
from reluplan.network.onnx.call import Call, Operator, tensor_constant


def _concat(call: Call) -> Affine:
    return concatenated(call.given, call.attribute("axis", 1))


def _flatten(call: Call) -> Affine:
    """A matrix whose rows are the axes before `axis`."""
    shape = call[0].shape
    axis = call.attribute("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis {axis} does not exist in a tensor of shape {shape}")
    return call[0].reshaped([math.prod(shape[:axis]), math.prod(shape[axis:])])


def _reshape(call: Call) -> Affine:
    wanted = call.integers("shape", 1) or []
    if not call.attribute("allowzero", 0):  # then a zero means "as before"
        wanted = [size or call[0].shape[position] for position, size in enumerate(wanted)]
    return call[0].reshaped(wanted)


def _squeeze(call: Call) -> Affine:
    axes = call.integers("axes", 1)
    if axes is None:
        return call[0].reshaped([size for size in call[0].shape if size != 1])
    positions = tuple(call[0].axis(axis) for axis in axes)
    return call[0].rearranged(lambda entries: np.squeeze(entries, positions))


def _unsqueeze(call: Call) -> Affine:
    axes = call.integers("axes", 1) or []
    rank = len(call[0].shape) + len(axes)
    if not all(-rank <= axis < rank for axis in axes):
        raise ValueError(f"an axis of {axes} does not exist in a result of rank {rank}")
    return call[0].rearranged(lambda entries: np.expand_dims(entries, tuple(axis % rank for axis in axes)))


def _transpose(call: Call) -> Affine:
    return call[0].transposed(call.attribute("perm", None))


def _expand(call: Call) -> Affine:
    """To a shape whose sizes of 1 are those of the tensor."""
    wanted = call.integers("shape", 1) or []
    if min(wanted, default=0) < 0:
        raise ValueError(f"a shape of {tuple(wanted)} does not exist")
    return call[0].broadcast(np.broadcast_shapes(call[0].shape, tuple(wanted)))


def _tile(call: Call) -> Affine:
    repeats = call.integers("repeats", 1) or []
    if len(repeats) != len(call[0].shape) or min(repeats, default=0) < 0:
        raise ValueError(f"repeats of {repeats} do not fit")
    return call[0].rearranged(lambda entries: np.tile(entries, repeats), call[0].size * math.prod(repeats))


def _pad(call: Call) -> Affine:
    """Constant, edge, reflect or wrap; a negative number of entries takes entries away."""
    tensor = call[0]
    sizes = call.integers("pads", 1) or []
    axes = [tensor.axis(axis) for axis in call.integers("axes", 3) or range(len(tensor.shape))]
    if len(sizes) != 2 * len(axes):
        raise ValueError(f"pads of {sizes} do not fit {len(axes)} axes")
    widths = [(0, 0)] * len(tensor.shape)
    for axis, before, after in zip(axes, sizes, sizes[len(axes) :], strict=False):
        widths[axis] = (before, after)
    cut = tuple(slice(max(0, -a), max(0, size - max(0, -b))) for (a, b), size in zip(widths, tensor.shape, strict=True))
    tensor = tensor.rearranged(lambda entries: entries[cut])
    added = [(max(0, a), max(0, b)) for a, b in widths]
    return _padded(tensor, added, call.text("mode", "constant"), call.number("value", 2, 0.0) or 0.0)


def _padded(tensor: Affine, widths: list[tuple[int, int]], mode: str, value: float) -> Affine:
    entries = math.prod(size + sum(width) for size, width in zip(tensor.shape, widths, strict=True))
    require_size(entries)
    if mode in ("edge", "reflect", "wrap"):
        reach = {"edge": 10**18, "reflect": -1, "wrap": 0}[mode]
        if any(max(width) > size + reach for size, width in zip(tensor.shape, widths, strict=True)) or not tensor.size:
            raise ValueError(f"there are not enough entries to pad by '{mode}'")
        kind: Any = mode
        return tensor.rearranged(lambda values: np.pad(values, widths, kind), entries)
    if mode != "constant":
        raise ValueError(f"the mode '{mode}' is not supported")
    filler = Affine.constant(np.full(1, value).astype(tensor.base.dtype))
    positions = np.pad(np.arange(tensor.size).reshape(tensor.shape), widths, constant_values=tensor.size)
    return concatenated([tensor.reshaped((-1,)), filler], 0).taken(positions)


def _where(call: Call) -> Affine:
    """By a constant, or by a comparison if the choice does not jump."""
    if isinstance(call[0], Comparison):
        return call.builder.choose(call[0], call[1], call[2])
    if not call[0].is_constant:
        raise ValueError("its condition must be a comparison or a constant")
    condition, first, second = aligned(*call.given)
    if first.is_constant and second.is_constant:
        return Affine.constant(np.where(condition.base != 0, first.base, second.base))
    positions = np.arange(first.size).reshape(first.shape)
    both = concatenated([first.reshaped((-1,)), second.reshaped((-1,))], 0)
    return both.taken(np.where(condition.base != 0, positions, first.size + positions))


def _slice(call: Call) -> Affine:
    starts = call.integers("starts", 1) or []
    ends = call.integers("ends", 2) or []
    axes = call.integers("axes", 3) or list(range(len(starts)))
    steps = call.integers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError("its starts, ends, axes and steps must have the same length")
    tensor = call[0]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        position = tensor.axis(axis)
        tensor = _taken(tensor, position, _slice_range(tensor.shape[position], start, end, step))
    return tensor


def _slice_range(size: int, start: int, end: int, step: int) -> range:
    """The entries of a slice. Unlike Python's, a start before the first entry means the first, also backwards."""
    start, end = (value + size if value < 0 else value for value in (start, end))
    lowest_end, highest = (0, size) if step > 0 else (-1, size - 1)
    return range(min(max(start, 0), highest), min(max(end, lowest_end), highest), step)


def _taken(tensor: Affine, position: int, entries: range) -> Affine:
    return tensor.rearranged(lambda values: np.take(values, np.array(entries, dtype=np.intp), position))


def _indices(tensor: Affine, sizes: int | NDArray[np.intp]) -> NDArray[np.intp]:
    """Constant indices of axes of those sizes, counted from the end if negative."""
    if not tensor.is_constant or not tensor.is_integer:
        raise ValueError("its indices must be integers that do not depend on the inputs of the network")
    indices = tensor.value
    limits = np.broadcast_to(sizes, indices.shape)
    outside = (indices < -limits) | (indices >= limits)
    if outside.any():
        spot = np.argmax(outside)
        raise ValueError(f"there is no index {indices.flat[spot]} on an axis of {limits.flat[spot]} entries")
    return np.where(indices < 0, indices + limits, indices)


def _gather(call: Call) -> Affine:
    axis = call[0].axis(call.attribute("axis", 0))
    size = call[0].shape[axis]
    indices = _indices(call[1], size)
    entries = call[0].size // max(1, size) * indices.size
    return call[0].rearranged(lambda values: np.take(values, indices, axis), entries)


def _gather_elements(call: Call) -> Affine:
    axis = call[0].axis(call.attribute("axis", 0))
    indices = _indices(call[1], call[0].shape[axis])
    others = [position for position in range(len(call[0].shape)) if position != axis]
    if indices.ndim != len(call[0].shape) or any(indices.shape[p] > call[0].shape[p] for p in others):
        raise ValueError("its indices do not fit the shape of the tensor")
    spots: list[NDArray[Any]] = list(np.indices(indices.shape, sparse=True))
    spots[axis] = indices
    return call[0].rearranged(lambda values: values[tuple(spots)], indices.size)


def _gather_nd(call: Call) -> Affine:
    call.check_attribute("batch_dims", 0, "GatherND of batches")
    depth = call[1].shape[-1] if call[1].shape else 0
    if not 0 < depth <= len(call[0].shape):
        raise ValueError("its indices do not fit the shape of the tensor")
    indices = _indices(call[1], np.array(call[0].shape[:depth], dtype=np.intp))
    spots = tuple(np.moveaxis(indices, -1, 0))
    entries = indices.size // depth * math.prod(call[0].shape[depth:])
    return call[0].rearranged(lambda values: values[spots], entries)


def _split(call: Call) -> list[Affine]:
    axis = call[0].axis(call.attribute("axis", 0))
    parts = len(call.node.output)
    size = call[0].shape[axis]
    sizes = call.integers("split", 1)
    if sizes is None:
        largest = -(-size // parts)  # equal parts; only the last may be smaller
        sizes = [min(largest, size - largest * part) for part in range(parts)]
    if sum(sizes) != size or min(sizes) < 0 or len(sizes) != parts:
        raise ValueError(f"{size} entries cannot be split into {parts} parts of sizes {sizes}")
    ends = np.cumsum([0, *sizes]).tolist()
    return [_taken(call[0], axis, range(start, end)) for start, end in pairwise(ends)]


def _constant(call: Call) -> Affine:
    (attribute,) = call.node.attribute
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return tensor_constant(value)
    if attribute.name in ("value_float", "value_floats", "value_int", "value_ints"):
        return tensor_constant(numpy_helper.from_array(np.array(value)))
    raise ValueError(f"a constant given as {attribute.name} is not supported")


def _shape(call: Call) -> Affine:
    shape = call[0].shape[call.attribute("start", 0) : call.attribute("end", None)]
    return Affine.constant(np.array(shape, dtype=np.int64))


def _constant_of_shape(call: Call) -> Affine:
    shape = call.integers("input", 0) or []
    if min(shape, default=0) < 0:
        raise ValueError(f"a shape of {tuple(shape)} does not exist")
    given = call.attribute("value", None)
    value = Affine.constant(0.0) if given is None else tensor_constant(given)
    return value.reshaped(()).broadcast(tuple(shape))


def _range(call: Call) -> Affine:
    start, limit, delta = (call[position].value.item() for position in range(3))
    if not delta:
        raise ValueError("its step must not be zero")
    count = max(0, math.ceil((limit - start) / delta))
    require_size(count)
    return Affine.constant(start + delta * np.arange(count))


OPERATORS: dict[str, Operator] = {
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": lambda call: Affine.constant(np.array(call[0].size)),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
}
