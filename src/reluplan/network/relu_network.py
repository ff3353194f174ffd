"""ReLU networks with dense skips, in float64."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reluplan import clock
from reluplan.errors import InputError

Array = NDArray[np.float64]
TOO_LARGE = 1e15
"""Weights and biases stay below this: solvers take no larger coefficients, and doubles no longer tell units apart."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One affine layer: `weights @ everything_before + bias`.

    weights: (units, input_count + units of all earlier hidden layers); a zero means "not connected".
    bias: (units,).
    """

    weights: Array
    bias: Array

    @property
    def unit_count(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, eq=False, repr=False)
class ReluNetwork:
    """A dense ReLU network: every layer may read the inputs and all earlier hidden layers.

    With z_0 = x and z_l = (x, P_1, ..., P_l) the concatenation of all values so far,

        P_l = max(0, W_l z_{l-1} + b_l)   for each hidden layer l,      f(x) = W_out z_L + b_out.

    Sequential, residual and densely connected networks are all of this form.

    >>> net = ReluNetwork.sequential([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])   # |x|
    >>> net
    ReluNetwork(1:2:1)
    >>> net.forward([[-3.0], [2.0]])
    array([[3.],
           [2.]])
    """

    input_count: int
    hidden: tuple[Layer, ...]
    output: Layer

    def __post_init__(self) -> None:
        width = self.input_count
        for index, layer in enumerate((*self.hidden, self.output)):
            name = "the output layer" if index == len(self.hidden) else f"hidden layer {index + 1}"
            if layer.weights.shape != (layer.unit_count, width):
                raise InputError(
                    f"{name} of the network has weights of shape {layer.weights.shape}, "
                    f"expected ({layer.unit_count}, {width}): one row per unit, one column per input "
                    f"and per unit of every earlier layer"
                )
            if not (np.isfinite(layer.weights).all() and np.isfinite(layer.bias).all()):
                raise InputError(f"{name} of the network has a weight or bias that is NaN or infinite")
            width += layer.unit_count

    def __repr__(self) -> str:
        sizes = [self.input_count, *(layer.unit_count for layer in self.hidden), self.output_count]
        return f"ReluNetwork({':'.join(map(str, sizes))})"

    def require_moderate(self) -> ReluNetwork:
        """The network itself; InputError if a weight that a user gave is beyond what solvers take."""
        for index, layer in enumerate((*self.hidden, self.output)):
            largest = max(_size(layer.weights), _size(layer.bias))
            if largest >= TOO_LARGE:
                name = "the output layer" if index == len(self.hidden) else f"hidden layer {index + 1}"
                raise InputError(
                    f"{name} of the network has a weight or bias of size {largest:.3g}; they must stay below "
                    f"{TOO_LARGE:g}: scale the variables, or train again"
                )
        return self

    @classmethod
    def sequential(cls, weights: Sequence[ArrayLike], biases: Sequence[ArrayLike]) -> ReluNetwork:
        """The plain feed-forward network with ReLU after every layer but the last."""
        arrays = [np.atleast_2d(np.asarray(w, dtype=np.float64)) for w in weights]
        input_count = arrays[0].shape[1]
        layers = []
        skipped = 0
        for w, b in zip(arrays, biases, strict=True):
            layers.append(Layer(np.hstack([np.zeros((len(w), skipped)), w]), np.asarray(b, dtype=np.float64)))
            skipped += w.shape[1]
        return cls(input_count, tuple(layers[:-1]), layers[-1])

    @classmethod
    def load(cls, path: str | Path) -> ReluNetwork:
        """Read an ONNX file."""
        from reluplan.network.onnx import read_onnx

        return read_onnx(Path(path))

    def save(self, path: str | Path) -> None:
        """Write an ONNX file (double precision) that onnxruntime evaluates to the same values."""
        from reluplan.network.onnx import write_onnx

        write_onnx(self, Path(path))

    @property
    def output_count(self) -> int:
        return self.output.unit_count

    @property
    def relu_count(self) -> int:
        return sum(layer.unit_count for layer in self.hidden)

    @cached_property
    def operations(self) -> float:
        """Floating-point operations of one evaluation, about."""
        return 2.0 * sum(layer.weights.size for layer in (*self.hidden, self.output))

    @cached_property
    def unit_slices(self) -> tuple[slice, ...]:
        """Where each hidden layer's units stand in the flat numbering 0 .. relu_count-1."""
        ends = np.cumsum([0, *(layer.unit_count for layer in self.hidden)])
        return tuple(slice(a, b) for a, b in pairwise(ends.tolist()))

    def preactivations(self, inputs: ArrayLike) -> Array:
        """In_u of every ReLU, shape (..., relu_count), for inputs of shape (..., input_count)."""
        parts = [pre for pre, _ in self._propagate(np.asarray(inputs, dtype=np.float64))]
        return np.concatenate(parts[:-1], axis=-1) if self.hidden else parts[0][..., :0]

    def forward(self, inputs: ArrayLike) -> Array:
        """f(x), shape (..., output_count), for inputs of shape (..., input_count)."""
        *_, (outputs, _) = self._propagate(np.asarray(inputs, dtype=np.float64))
        return outputs

    def evaluate(self, inputs: ArrayLike) -> tuple[Array, Array]:
        """(pre-activations, outputs) in one pass; shapes as in `preactivations` and `forward`."""
        *hidden, (outputs, _) = self._propagate(np.asarray(inputs, dtype=np.float64))
        pre = np.concatenate([p for p, _ in hidden], axis=-1) if hidden else outputs[..., :0]
        return pre, outputs

    def exact_outputs(self, inputs: Sequence[Fraction]) -> list[Fraction]:
        """f(x) of one input in rational arithmetic, for decisions that hang on a bit."""
        values = list(inputs)
        for layer in self.hidden:
            values += [max(Fraction(0), _exact_row(row, bias, values)) for row, bias in _rows(layer)]
        return [_exact_row(row, bias, values) for row, bias in _rows(self.output)]

    def _propagate(self, inputs: Array) -> Iterator[tuple[Array, Array]]:
        """Yield (pre-activation, everything before it) for each hidden layer, then for the output."""
        if inputs.shape[-1] != self.input_count:
            raise InputError(f"the network takes {self.input_count} inputs, got {inputs.shape[-1]}")
        before = inputs
        count = inputs.size // max(1, self.input_count)
        for layer in self.hidden:
            clock.spend(2.0 * count * layer.weights.size)
            pre = before @ layer.weights.T + layer.bias
            yield pre, before
            before = np.concatenate([before, np.maximum(pre, 0.0)], axis=-1)
        yield before @ self.output.weights.T + self.output.bias, before

    def fingerprint(self) -> str:
        """A hash of every weight: equal for networks that compute in exactly the same way."""
        digest = hashlib.sha256(str(self.input_count).encode())
        for layer in (*self.hidden, self.output):
            digest.update((layer.weights + 0.0).tobytes())  # + 0.0 makes a negative zero equal to zero
            digest.update((layer.bias + 0.0).tobytes())
        return digest.hexdigest()


def _rows(layer: Layer) -> Iterator[tuple[list[float], float]]:
    """Each unit's weights and bias as plain numbers."""
    return zip(layer.weights.tolist(), layer.bias.tolist(), strict=True)


def _exact_row(weights: Sequence[float], bias: float, values: Sequence[Fraction]) -> Fraction:
    products = (Fraction(w) * value for w, value in zip(weights, values, strict=True) if w)
    return sum(products, Fraction(bias))


def _size(values: Array) -> float:
    """The largest absolute value."""
    return float(max(values.max(initial=0.0), -values.min(initial=0.0)))
