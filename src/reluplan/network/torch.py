"""Networks from PyTorch modules; torch itself is imported only when a module is converted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from reluplan.errors import InputError, MissingExtraError
from reluplan.network.affine import Affine, batch_normalised
from reluplan.network.builder import NetworkBuilder
from reluplan.network.relu_network import ReluNetwork

if TYPE_CHECKING:
    from torch import Tensor, nn


def from_torch(module: nn.Module) -> ReluNetwork:
    """The function of the module in evaluation mode, with its weights converted to float64.

    The module is a torch.nn.Sequential (nested at will) of Linear, ReLU, Identity, Dropout, Flatten and
    BatchNorm1d, or one of these. It maps vectors: (batch, n) to (batch, m). With a Flatten in front, the
    inputs of the network are the entries of a sample row by row.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "torch", "converting a PyTorch module") from None
    steps = list(_steps(module, "module"))
    input_count = _input_count([step for _, step in steps])
    builder = NetworkBuilder(input_count)
    tensor = Affine.columns(0, (1, input_count))
    for name, step in steps:
        try:
            with np.errstate(all="ignore"):  # an overflow shows up as infinity, and is reported as such
                tensor = _apply(step, tensor, builder)
            _check_finite(tensor)
        except ValueError as error:
            raise InputError(f"{name} ({type(step).__name__}) of the PyTorch network: {error}") from None
    return builder.finish(tensor)


def _steps(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """The modules inside nested Sequentials, in order, each with a name such as module[2][0]."""
    from torch import nn

    _check_supported(module, name)
    if not isinstance(module, nn.Sequential):
        yield name, module
        return
    for index, part in enumerate(module):
        yield from _steps(part, f"{name}[{index}]")


def _check_supported(module: nn.Module, name: str) -> None:
    """A subclass is fine as long as it computes like its base: no forward or hook of its own."""
    from torch import nn

    supported = (nn.Sequential, nn.Linear, nn.ReLU, nn.Identity, nn.Dropout, nn.Flatten, nn.BatchNorm1d)
    bases = [kind for kind in supported if isinstance(module, kind)]
    named = f"{name} of the PyTorch network is a {type(module).__name__}"
    if not bases:
        raise InputError(f"{named}; supported are: {', '.join(kind.__name__ for kind in supported)}")
    if getattr(module.forward, "__func__", None) is not bases[0].forward:
        raise InputError(f"{named} with another forward than {bases[0].__name__}, which is not supported")
    if module._forward_hooks or module._forward_pre_hooks:
        raise InputError(
            f"{named} with forward hooks, which may change what it computes: remove them first "
            f"(a lazy module loses them at its first use)"
        )


def _input_count(steps: list[nn.Module]) -> int:
    """The size that the first module with a fixed size takes; nothing before it changes the size."""
    from torch import nn

    for step in steps:
        if isinstance(step, nn.Linear):
            return int(step.in_features)
        if isinstance(step, nn.BatchNorm1d):
            return int(step.num_features)
    raise InputError("the PyTorch network has no Linear module, so its number of inputs is unknown")


def _apply(step: nn.Module, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """The step applied to the symbolic tensor of shape (1, n)."""
    from torch import nn

    if isinstance(step, nn.Linear):
        product = tensor @ _constant(step.weight).transposed()
        return product if step.bias is None else product + _constant(step.bias)
    if isinstance(step, nn.ReLU):
        return builder.relu(tensor)
    if isinstance(step, nn.BatchNorm1d):
        return _batch_norm(step, tensor)
    if isinstance(step, nn.Flatten) and not {step.start_dim, step.end_dim} <= {1, -1}:
        raise ValueError("only a Flatten of each sample, from axis 1 to the last, is supported")
    return tensor  # Identity, Dropout in evaluation mode, Flatten of a vector


def _batch_norm(step: nn.BatchNorm1d, tensor: Affine) -> Affine:
    if step.running_mean is None or step.running_var is None:
        raise ValueError("it keeps no running statistics, so that its outputs depend on the whole batch")
    ones = Affine.constant(np.ones(step.num_features))
    scale = ones if step.weight is None else _constant(step.weight)
    shift = ones - ones if step.bias is None else _constant(step.bias)
    return batch_normalised(tensor, scale, shift, _constant(step.running_mean), _constant(step.running_var), step.eps)


def _constant(tensor: Tensor) -> Affine:
    import torch

    if not tensor.is_floating_point() or tensor.is_meta:
        raise ValueError(f"its weights are {tensor.dtype} on {tensor.device}, not real numbers in memory")
    return Affine.constant(tensor.detach().to("cpu", torch.float64).numpy())


def _check_finite(tensor: Affine) -> None:
    if not tensor.is_finite:
        raise ValueError("it gives a weight that is NaN or infinite")
