"""One node of an ONNX graph with its inputs evaluated: what an operator is a function of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from reluplan.network.affine import Affine, common_shape
from reluplan.network.builder import NetworkBuilder

FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
INTEGER_TYPES = (
    TensorProto.BOOL,
    TensorProto.INT8,
    TensorProto.INT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.UINT16,
    TensorProto.UINT32,
)


@dataclass(frozen=True)
class Call:
    """A node and its inputs; None is an optional input that was left out.

    builder: makes ReLU units, for operators that are piecewise linear. opset: the version of the operators of the
    node's domain in this file.
    """

    node: onnx.NodeProto
    arguments: tuple[Affine | None, ...]
    builder: NetworkBuilder
    opset: int

    def optional(self, position: int) -> Affine | None:
        return self.arguments[position] if position < len(self.arguments) else None

    def __getitem__(self, position: int) -> Affine:
        argument = self.optional(position)
        if argument is None:
            raise ValueError(f"its input {position + 1} is missing")
        return argument

    @property
    def given(self) -> list[Affine]:
        return [argument for argument in self.arguments if argument is not None]

    @property
    def is_constant(self) -> bool:
        return all(argument.is_constant for argument in self.given)

    @property
    def operands(self) -> tuple[Affine, Affine]:
        """The two inputs of an operation entry by entry.

        Before operator set 7 the second is aligned with the first at its axis `axis`, not at the last.
        """
        first = self[0]
        second = self[1]
        axis = self.attribute("axis", None) if self.attribute("broadcast", 0) else None
        if axis is None:
            return first, second
        behind = len(first.shape) - first.axis(axis) - len(second.shape)
        if behind < 0:
            raise ValueError(f"its second input does not fit the first at axis {axis}")
        return first, second.reshaped((*second.shape, *([1] * behind)))

    def attribute(self, name: str, default: Any) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                return helper.get_attribute_value(attribute)
        return default

    def text(self, name: str, default: str) -> str:
        value = self.attribute(name, default.encode())
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def number(self, name: str, position: int, default: float | None) -> float | None:
        """A number that newer operator sets pass as an input and older ones as an attribute."""
        argument = self.optional(position)
        if argument is None:
            value = self.attribute(name, default)
            return None if value is None else float(value)
        if argument.size != 1:
            raise ValueError(f"its input '{name}' must be one number")
        return float(argument.value.ravel()[0])

    def integers(self, name: str, position: int) -> list[int] | None:
        """The same for a list of integers."""
        argument = self.optional(position)
        if argument is None:
            values = self.attribute(name, None)
            return None if values is None else [int(value) for value in values]
        if not argument.is_constant or not argument.is_integer:
            raise ValueError(f"its input '{name}' must hold integers that do not depend on the inputs of the network")
        return [int(value) for value in argument.value.ravel()]

    def check_attribute(self, name: str, expected: int | str, meaning: str) -> None:
        value = self.text(name, expected) if isinstance(expected, str) else self.attribute(name, expected)
        if value != expected:
            raise ValueError(f"{meaning} is not supported (attribute {name} must be {expected})")


Result = Affine | list[Affine]
Operator = Callable[[Call], Result]


def on_constants(function: Callable[..., NDArray[Any]]) -> Operator:
    """An operator of constants alone, entry by entry."""

    def evaluated(call: Call) -> Affine:
        given = call.operands if len(call.given) == 2 else call.given
        shape = common_shape(*given)
        return Affine.constant(function(*(tensor.broadcast(shape).value for tensor in given)))

    return evaluated


def tensor_constant(tensor: onnx.TensorProto) -> Affine:
    """The numbers of an initialiser or of a Constant node; there may be infinite ones, as bounds of Clip."""
    if tensor.data_type not in (*FLOAT_TYPES, *INTEGER_TYPES):
        raise ValueError(f"element type {TensorProto.DataType.Name(tensor.data_type)} is not supported")
    values = numpy_helper.to_array(tensor)
    if tensor.data_type in FLOAT_TYPES:
        values = values.astype(np.float64)  # exact; also turns bfloat16 into a type that numpy knows
        if np.isnan(values).any():
            raise ValueError("there is a value that is NaN")
    return Affine.constant(values)
