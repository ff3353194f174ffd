"""What an operator gets: a node of the graph with its arguments evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reluplan.network.affine import Affine
from reluplan.network.builder import NetworkBuilder

if TYPE_CHECKING:
    from torch import Tensor
    from torch._ops import OpOverload

INDEX_ARGUMENTS = {"index", "indices", "condition", "mask"}
"""Tensors that say which entries are meant; all others hold entries."""


@dataclass(frozen=True)
class Condition:
    """True where an affine tensor is above zero."""

    difference: Affine

    @property
    def shape(self) -> tuple[int, ...]:
        return self.difference.shape


@dataclass(frozen=True)
class Call:
    """One node of the graph with its arguments evaluated.

    arguments: by their names in ATen's schema, with defaults; tensors are `Affine`, or a `Condition`.
    """

    target: OpOverload
    arguments: Mapping[str, Any]
    builder: NetworkBuilder

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str) -> Any:
        """An argument that only some overloads have."""
        return self.arguments.get(name)

    def tensor(self, name: str) -> Affine:
        """A tensor, or a number as one."""
        value = self.arguments[name]
        if isinstance(value, Condition):
            raise ValueError("it computes with a comparison, which jumps")
        return value if isinstance(value, Affine) else Affine.constant(np.array(value, dtype=np.float64))


Result = Affine | Condition | int | list[Any]
Operator = Callable[[Call], Result]


def number(value: float) -> Affine:
    """A number as a symbolic tensor."""
    return Affine.constant(np.array(value, dtype=np.float64))


def is_list(value: Any) -> bool:
    """Whether a value is several."""
    return isinstance(value, (list, tuple))


def tensors_in(value: Any) -> Iterable[Affine]:
    """The symbolic tensors in nested arguments; ValueError for a condition."""
    if isinstance(value, Condition):
        raise ValueError("it computes with a comparison, which jumps")
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
