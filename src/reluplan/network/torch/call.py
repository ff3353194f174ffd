"""What an operator gets: a node of the graph with its arguments evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reluplan.network.affine import Affine, NotPiecewiseLinearError
from reluplan.network.builder import NetworkBuilder
from reluplan.network.choice import Comparison

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload

INDEX_ARGUMENTS = {"index", "indices", "condition", "mask"}
"""Tensors that say which entries are meant; all others hold entries."""


@dataclass(frozen=True)
class Call:
    """One node of the graph with its arguments evaluated.

    arguments: by their names in ATen's schema, with defaults; tensors are `Affine`, and conditions `Comparison`.
    """

    target: OpOverload
    arguments: Mapping[str, Any]
    builder: NetworkBuilder

    def __getitem__(self, name: str) -> Any:
        """An argument, but no condition: only those who make a choice by it look into `arguments`."""
        _refuse_condition(self.arguments[name])
        return self.arguments[name]

    def get(self, name: str) -> Any:
        """An argument that only some overloads have."""
        return self[name] if name in self.arguments else None

    def tensor(self, name: str) -> Affine:
        """A tensor, or a number as one."""
        value = self[name]
        return value if isinstance(value, Affine) else number(value)


def _refuse_condition(value: Any) -> None:
    if isinstance(value, Comparison):
        raise NotPiecewiseLinearError("it computes with a condition, which jumps")


Result = Affine | int | list[Any]
Operator = Callable[[Call], Result]


def number(value: float) -> Affine:
    """A number as a symbolic tensor."""
    return Affine.constant(np.array(value, dtype=np.float64))


def is_list(value: Any) -> bool:
    """Whether a value is several."""
    return isinstance(value, (list, tuple))


def tensors_in(value: Any) -> Iterable[Affine]:
    """The symbolic tensors in nested arguments; ValueError for a condition."""
    _refuse_condition(value)
    if isinstance(value, Affine):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from tensors_in(part)


def replaced(value: Any, function: Callable[[Affine], Any]) -> Any:
    """The value with every symbolic tensor in it replaced."""
    if isinstance(value, Affine):
        return function(value)
    return [replaced(part, function) for part in value] if is_list(value) else value


def replaced_in(call: Call, function: Callable[[Affine], Any]) -> dict[str, Any]:
    """The arguments with every tensor of entries replaced."""
    for name in INDEX_ARGUMENTS & call.arguments.keys():
        if any(True for _ in tensors_in(call[name])):
            raise ValueError("which entries it takes depends on the inputs: that jumps")
    return {name: replaced(value, function) for name, value in call.arguments.items()}


def as_torch(tensor: Affine) -> Tensor:
    """The numbers of a constant."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(tensor.value))
