"""Operators that are built from ReLU units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.network.affine import Affine, NotPiecewiseLinearError
from reluplan.network.choice import Comparison
from reluplan.network.onnx.call import Call, Operator, Result, on_constants

LARGEST_SINGLE = float(np.finfo(np.float32).max)  # what exporters write for "no bound"


def _leaky_relu(call: Call) -> Affine:
    return call.builder.leaky_relu(call[0], call.attribute("alpha", float(np.float32(0.01))))


def _prelu(call: Call) -> Affine:
    """Before operator set 7, a list of slopes is one per channel (axis 1)."""
    tensor = call[0]
    if not call[1].is_constant:
        raise NotPiecewiseLinearError("its slopes depend on the inputs")
    slopes = call[1].value
    if call.opset < 7 and slopes.ndim == 1 and len(tensor.shape) > 1:
        slopes = slopes.reshape((-1, *([1] * (len(tensor.shape) - 2))))
    return call.builder.leaky_relu(tensor, Affine.constant(slopes).broadcast(tensor.shape).value)


def _clip(call: Call) -> Affine:
    low = call.number("min", 1, -np.inf)
    high = call.number("max", 2, np.inf)
    clipped = call.builder.clip(call[0], _opened(low), _opened(high))
    return Affine.constant(clipped.value.astype(np.int64)) if call[0].is_integer else clipped


def _opened(bound: float | None) -> float:
    """A bound as large as the largest single-precision number is none."""
    value = 0.0 if bound is None else bound
    return float(np.copysign(np.inf, value)) if abs(value) >= LARGEST_SINGLE else value


def _hard_sigmoid(call: Call) -> Affine:
    alpha = call.attribute("alpha", float(np.float32(0.2)))
    return call.builder.hard_sigmoid(call[0], alpha, call.attribute("beta", 0.5))


def _thresholded_relu(call: Call) -> Affine:
    """x if x > alpha, else 0: continuous only for alpha = 0."""
    alpha = call.attribute("alpha", 1.0)
    if alpha:
        raise NotPiecewiseLinearError(f"it jumps from 0 to {alpha:g} at {alpha:g}, and a ReLU network cannot jump")
    return call.builder.relu(call[0])


def _shrink(call: Call) -> Affine:
    """x - min(max(x, -l), l) if bias = l (soft shrinkage); it jumps if they differ."""
    bound = call.attribute("lambd", 0.5)
    if call.attribute("bias", 0.0) != bound or bound < 0.0:
        raise NotPiecewiseLinearError(f"with a bias other than lambd it jumps at {bound:g}; a ReLU network cannot jump")
    return call[0] - call.builder.clip(call[0], -bound, bound)


def _compared(function: Callable[..., NDArray[Any]], is_less: bool) -> Operator:
    """A comparison; one that depends on the inputs can only make a choice (Where)."""
    folded = on_constants(function)

    def evaluated(call: Call) -> Result:
        if call.is_constant:
            return folded(call)
        first, second = call.operands
        return Comparison.greater(second, first) if is_less else Comparison.greater(first, second)

    return evaluated


def _not(call: Call) -> Result:
    if isinstance(call[0], Comparison):
        return Comparison.greater(Affine.constant(0.0), call[0].difference)
    return on_constants(np.logical_not)(call)


OPERATORS: dict[str, Operator] = {
    "Abs": lambda call: call.builder.absolute(call[0]),
    "Clip": _clip,
    "Greater": _compared(np.greater, is_less=False),
    "GreaterOrEqual": _compared(np.greater_equal, is_less=False),
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": _leaky_relu,
    "Less": _compared(np.less, is_less=True),
    "LessOrEqual": _compared(np.less_equal, is_less=True),
    "Max": lambda call: call.builder.maximum_of(call.given),
    "Min": lambda call: call.builder.minimum_of(call.given),
    "Not": _not,
    "PRelu": _prelu,
    "Relu": lambda call: call.builder.relu(call[0]),
    "Shrink": _shrink,
    "ThresholdedRelu": _thresholded_relu,
}
