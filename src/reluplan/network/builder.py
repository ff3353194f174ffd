"""Piecewise-linear operations as ReLU units, and the network that they add up to.

Every formula here holds exactly for real numbers. In floating point, weights that are a sum of two numbers are rounded
once: a slope of leaky_relu for positive entries, a + (1 - a), may be 1 +- 1.1e-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from reluplan.network.affine import Affine, aligned, concatenated, require_held, require_size
from reluplan.network.choice import Comparison, slope_of_choice
from reluplan.network.relu_network import Layer, ReluNetwork

NUMBERS_PER_KEY = 16  # as much memory as a key and its places in dictionaries take


class NetworkBuilder:
    """Collects the hidden layers while an importer walks through its operations in order."""

    def __init__(self, input_count: int) -> None:
        self.input_count = input_count
        self._hidden: list[Layer] = []
        self._column_count = input_count
        self._held = 0
        self._column_of: dict[bytes, int] = {}

    def relu(self, tensor: Affine) -> Affine:
        """max(0, tensor): one new hidden layer, with a column per entry; a constant stays constant."""
        if tensor.is_constant:
            return Affine.constant(np.maximum(tensor.base, 0))
        self._hidden.append(self._layer(tensor))
        units = Affine.columns(self._column_count, tensor.shape)
        self._column_count += self._hidden[-1].unit_count
        return units

    def leaky_relu(self, tensor: Affine, slope: ArrayLike) -> Affine:
        """max(0, x) + a min(0, x) = a x + (1 - a) max(0, x), a unit per entry; slope: a, also one per entry."""
        slopes = np.asarray(slope, dtype=np.float64)
        if not np.isfinite(slopes).all():
            raise ValueError("a slope is NaN or infinite")
        over = tensor.broadcast(np.broadcast_shapes(tensor.shape, slopes.shape))
        return over * Affine.constant(slopes) + self._bends(over, slopes != 1.0) * Affine.constant(1.0 - slopes)

    def clip(self, tensor: Affine, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> Affine:
        """min(max(x, l), h) = l + max(0, x - l) - max(0, x - h) for l <= h, and h if l > h.

        A side that is infinite needs no unit: x - max(0, x - h), or l + max(0, x - l).
        """
        highs = np.asarray(high, dtype=np.float64)
        lows = np.minimum(np.asarray(low, dtype=np.float64), highs)
        if np.isnan(lows).any() or (lows == np.inf).any() or (highs == -np.inf).any():
            raise ValueError("it clips to a bound that is NaN, or to nothing but infinity")
        shape = np.broadcast_shapes(tensor.shape, lows.shape, highs.shape)
        over = tensor.broadcast(shape)
        if over.is_constant:
            return Affine.constant(np.minimum(np.maximum(over.base, lows), highs))
        lows = np.broadcast_to(lows, shape)
        highs = np.broadcast_to(highs, shape)
        bends = np.stack([lows, highs])
        bent = np.isfinite(bends) & (lows < highs)
        shifted = over.broadcast((2, *shape)) - Affine.constant(np.where(bent, bends, 0.0))
        units = self._bends(shifted, bent)
        above, beyond = (units.rearranged(partial(np.take, indices=side, axis=0)) for side in (0, 1))
        is_open = ~np.isfinite(lows)
        start = over * Affine.constant(is_open.astype(np.float64)) + Affine.constant(np.where(is_open, 0.0, lows))
        return start + above - beyond

    def maximum(self, a: Affine, b: Affine) -> Affine:
        """max(a, b) = a + max(0, b - a)."""
        a, b = aligned(*sorted((a, b), key=lambda tensor: (not tensor.is_constant, tensor.rows.nnz)))
        return a + self._bends(b - a)

    def minimum(self, a: Affine, b: Affine) -> Affine:
        """min(a, b) = -max(-a, -b)."""
        return -self.maximum(-a, -b)

    def maximum_of(self, tensors: Sequence[Affine]) -> Affine:
        """The largest of several tensors, entry by entry, by a balanced tree: n - 1 units, log2 n layers."""
        stacked = concatenated([tensor.reshaped((1, *tensor.shape)) for tensor in aligned(*tensors)], 0)
        return self.maximum_along(stacked, 0)

    def minimum_of(self, tensors: Sequence[Affine]) -> Affine:
        return -self.maximum_of([-tensor for tensor in tensors])

    def maximum_along(self, tensor: Affine, axis: int) -> Affine:
        """The largest entry along an axis, which is gone then; pairs are compared, all of them in one layer."""
        position = tensor.axis(axis)
        if not tensor.shape[position]:
            raise ValueError("the largest of no entries is not a number")
        while (count := tensor.shape[position]) > 1:
            half = count // 2
            parts = [range(half), range(half, 2 * half), range(2 * half, count)]
            a, b, left = (tensor.rearranged(partial(np.take, indices=list(part), axis=position)) for part in parts)
            tensor = concatenated([self.maximum(a, b), left], position)
        return tensor.rearranged(partial(np.squeeze, axis=position))

    def absolute(self, tensor: Affine) -> Affine:
        """|x| = 2 max(0, x) - x."""
        if tensor.is_constant:
            return Affine.constant(np.abs(tensor.base))
        return self._bends(tensor) * Affine.constant(2.0) - tensor

    def choose(self, condition: Comparison, first: Affine, second: Affine) -> Affine:
        """a where d > 0, else b, if a - b = k d, so that it does not jump: b + k max(0, d).

        Entries of d that depend on nothing have chosen already.
        """
        d, a, b = aligned(condition.difference, first, second)
        is_fixed = (np.diff(d.rows.indptr) == 0).reshape(d.shape)
        a, b = _merged(is_fixed & (d.base < 0), b, a), _merged(is_fixed & (d.base > 0), a, b)
        slopes = slope_of_choice(d, a - b)
        return b + self._bends(d, slopes != 0.0) * Affine.constant(slopes)

    def hard_sigmoid(self, tensor: Affine, alpha: float, beta: float) -> Affine:
        """min(max(alpha x + beta, 0), 1)."""
        return self.clip(tensor * Affine.constant(alpha) + Affine.constant(beta), 0.0, 1.0)

    def finish(self, outputs: Affine) -> ReluNetwork:
        return ReluNetwork(self.input_count, tuple(self._hidden), self._layer(outputs))

    def _bends(self, tensor: Affine, needed: NDArray[np.bool_] | None = None) -> Affine:
        """max(0, tensor) where needed, and zero elsewhere.

        Entries that depend on nothing stay constants, and entries that are equal share a unit, also one that was made
        before.
        """
        is_needed = np.broadcast_to(True if needed is None else needed, tensor.shape)
        bends = is_needed.ravel() & (np.diff(tensor.rows.indptr) > 0)
        base = np.where(is_needed & ~bends.reshape(tensor.shape), np.maximum(tensor.base, 0), 0)
        if tensor.is_constant:
            return Affine.constant(base)
        columns = self._columns(tensor, np.flatnonzero(bends))
        starts = np.concatenate([[0], np.cumsum(bends)])
        shape = (tensor.size, self._column_count)
        return Affine(base.astype(np.float64), sparse.csr_array((np.ones(len(columns)), columns, starts), shape=shape))

    def _columns(self, tensor: Affine, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """The columns of the units max(0, entry) for the entries at these places; missing ones become one layer."""
        require_size(NUMBERS_PER_KEY * len(places))
        keys = _row_keys(tensor, places)
        first = dict(zip(reversed(keys), reversed(places.tolist()), strict=True))
        new = [key for key in dict.fromkeys(keys) if key not in self._column_of]
        self._column_of.update((key, self._column_count + number) for number, key in enumerate(new))
        if new:
            self.relu(tensor.taken(np.array([first[key] for key in new], dtype=np.intp)))
        return np.array([self._column_of[key] for key in keys], dtype=np.intp)

    def _layer(self, tensor: Affine) -> Layer:
        """weights = rows, bias = base, with the entries of the tensor row by row."""
        count = tensor.size * (1 + self._column_count)
        require_size(count, f"a layer of {tensor.size:,} units over {self._column_count:,} inputs and units before it")
        self._held += count
        require_held(self._held, "the layers of the network")
        weights = tensor.extended(self._column_count).rows.toarray()
        weights += 0.0  # no negative zeros: equal weights get equal fingerprints
        return Layer(np.ascontiguousarray(weights, dtype=np.float64), tensor.base.ravel() + 0.0)


def _merged(mask: NDArray[np.bool_], yes: Affine, no: Affine) -> Affine:
    """The entries of one tensor where the mask is set, and of the other elsewhere; all three have the same shape."""
    if not mask.any():
        return no
    positions = np.arange(mask.size).reshape(mask.shape)
    both = concatenated([yes.reshaped((-1,)), no.reshaped((-1,))], 0)
    return both.taken(np.where(mask, positions, mask.size + positions))


def _row_keys(tensor: Affine, places: NDArray[np.intp]) -> list[bytes]:
    """For each of these entries a digest of its coefficients and its constant: equal for equal entries."""
    rows: Any = tensor.rows if tensor.rows.has_sorted_indices else tensor.rows.sorted_indices()
    base = tensor.base.ravel().astype(np.float64) + 0.0
    keys = []
    for place in places.tolist():
        part = slice(rows.indptr[place], rows.indptr[place + 1])
        digest = blake2b(rows.indices[part].astype(np.int64).tobytes(), digest_size=16)
        digest.update(rows.data[part].tobytes() + base[place].tobytes())
        keys.append(digest.digest())
    return keys
