"""Operators that torch itself describes, by what they do to unit vectors: linear ones of any kind, adaptive pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from reluplan.network.affine import LARGEST_TENSOR, Affine, NotPiecewiseLinearError
from reluplan.network.torch.call import Call, as_torch, is_list, replaced_in, tensors_in

if TYPE_CHECKING:
    from torch import Tensor

BASIS_CHUNK = 256
"""How many unit vectors a linear operator is applied to at a time."""
LARGEST_MAP = 16 * LARGEST_TENSOR
"""Entries of the result times entries of the tensor, for an operator that is found from unit vectors."""


def linear_map(call: Call) -> Affine:
    """An operator that is linear in its tensor: the columns of its matrix are its values at the unit vectors."""
    shape = _result_shape(call)
    return _only_tensor(call).mapped(_matrix_of(call, shape), shape)


def unit_convolution(call: Call) -> Affine:
    """The same, with a bias per channel: convolutions of any kind."""
    mapped = linear_map(Call(call.target, {**call.arguments, "bias": None}, call.builder))
    return with_bias(call, mapped)


def with_bias(call: Call, result: Affine) -> Affine:
    """The result of a convolution plus a bias per channel, with or without a batch in front."""
    bias = call["bias"]
    return result if bias is None else result + bias.reshaped((-1, *(1,) * (len(call["weight"].shape) - 2)))


def adaptive_max_pooled(call: Call) -> list[Any]:
    """The largest entry of each window; which entries a window has is seen from where unit vectors show up."""
    tensor = _only_tensor(call)
    shape = _result_shape(call)
    windows = _matrix_of(call, shape)
    lengths = np.diff(windows.indptr)[:, None]
    ranks = np.minimum(np.arange(lengths.max(initial=1)), lengths - 1)  # short windows repeat their last entry
    entries = tensor.taken(windows.indices[windows.indptr[:-1, None] + ranks])
    return [call.builder.maximum_along(entries, 1).reshaped(shape), None]


def _only_tensor(call: Call) -> Affine:
    """The one argument that depends on the inputs."""
    symbolic = [tensor for tensor in tensors_in(list(call.arguments.values())) if not tensor.is_constant]
    if len(symbolic) != 1:
        raise NotPiecewiseLinearError("it multiplies two tensors that both depend on the inputs: not piecewise linear")
    return symbolic[0]


def _numerically(call: Call, replacement: Tensor) -> Tensor:
    """What torch computes with numbers in place of the tensor that depends on the inputs."""
    arguments = replaced_in(call, lambda tensor: as_torch(tensor) if tensor.is_constant else replacement)
    results = call.target(**arguments)
    result: Tensor = results[0] if is_list(results) else results
    return result


def _result_shape(call: Call) -> tuple[int, ...]:
    import torch

    return tuple(_numerically(call, torch.zeros(_only_tensor(call).shape, dtype=torch.float64)).shape)


def _matrix_of(call: Call, shape: Sequence[int]) -> Any:
    """(entries of the result, entries of the tensor) sparse: column j is the operator at the j-th unit vector."""
    import torch

    tensor = _only_tensor(call)
    if math.prod(shape) * tensor.size > LARGEST_MAP:
        raise ValueError(f"it maps {tensor.size:,} entries to {math.prod(shape):,}: too large to be written out")
    apply = torch.func.vmap(partial(_numerically, call))
    parts = []
    for start in range(0, tensor.size, BASIS_CHUNK):
        vectors = torch.zeros(min(BASIS_CHUNK, tensor.size - start), tensor.size, dtype=torch.float64)
        vectors.diagonal(start).fill_(1.0)
        parts.append(sparse.csr_array(apply(vectors.reshape(-1, *tensor.shape)).reshape(len(vectors), -1).numpy()))
    return sparse.csr_array(sparse.vstack(parts).T)
