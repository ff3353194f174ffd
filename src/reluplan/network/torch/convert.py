"""Networks from PyTorch modules; torch itself is imported only when a module is converted."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from reluplan.errors import InputError, MissingExtraError
from reluplan.network.affine import LARGEST_TENSOR
from reluplan.network.conversion import one_line, require_same
from reluplan.network.relu_network import Array, ReluNetwork
from reluplan.network.torch.graph import GraphWalk, exported, named

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.export import ExportedProgram

Shape = tuple[int, ...]


def from_torch(
    module: nn.Module,
    *,
    input_shape: int | Sequence[int] | Sequence[Sequence[int]] | None = None,
    example_input: Any = None,
) -> ReluNetwork:
    """The function of the module in evaluation mode, with its weights converted to float64.

    The module is any whose outputs are a continuous, piecewise-linear function of its inputs. torch.export traces a
    copy of it for a batch of one sample, and what it calls is looked up in `ATEN_OPERATORS`, to which a user can add.
    The entries of a sample, row by row, are the inputs of the network, those of several inputs one after another;
    outputs likewise.

    input_shape: of one sample, without the batch: a number, a shape, or a list of shapes for several inputs.
    example_input: in place of it, what the module is called with: a tensor (batch, ...), or (n,) for a module that
    takes no batches, or a tuple of them. Neither is needed if the first Linear or BatchNorm1d fixes the size.
    """
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError("torch", "torch", "converting a PyTorch module") from None
    module = _unwrapped(module)
    _check_module(module)
    module = _evaluation_copy(module)
    shapes = _given_shapes(input_shape, example_input)
    shapes, program = (shapes, exported(module, _zeros(module, shapes))) if shapes else _found_program(module)
    network = GraphWalk(program).network().require_moderate()
    _require_faithful(network, module, shapes)
    return network


def _unwrapped(module: nn.Module) -> nn.Module:
    """The module inside torch.compile and DataParallel."""
    from torch import nn

    wrappers = (nn.DataParallel, nn.parallel.DistributedDataParallel)
    inner = module.module if isinstance(module, wrappers) else getattr(module, "_orig_mod", None)
    return _unwrapped(inner) if isinstance(inner, nn.Module) else module


def _check_module(module: nn.Module) -> None:
    from torch import nn

    if not isinstance(module, nn.Module):
        raise InputError(f"from_torch takes a torch.nn.Module; this is a {type(module).__name__}")
    size = sum(tensor.numel() for tensor in _stored(module))
    if size > LARGEST_TENSOR:
        raise InputError(f"the PyTorch network has {size:,} weights; at most {LARGEST_TENSOR:,} are read")
    for path, part in module.named_modules():
        _check_part(part, f"{named(path)} ({type(part).__name__}) of the PyTorch network")


def _stored(module: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers that are there; those of a lazy module have no size yet."""
    from torch.nn.parameter import is_lazy

    for tensor in (*module.parameters(), *module.buffers()):
        if not is_lazy(tensor):
            yield tensor


def _check_part(part: nn.Module, name: str) -> None:
    from torch import jit, nn
    from torch.nn.parameter import is_lazy

    if isinstance(part, jit.ScriptModule):
        raise InputError(f"{name} is TorchScript: give the nn.Module that it was made from, or an ONNX file")
    for tensor in (*part.parameters(recurse=False), *part.buffers(recurse=False)):
        if is_lazy(tensor):
            raise InputError(f"{name} is lazy and has no weights yet: call the module once first")
        if tensor.is_complex() or tensor.is_quantized or tensor.is_meta:
            raise InputError(f"{name}: its weights are {tensor.dtype} on {tensor.device}, not real numbers in memory")
        if isinstance(tensor, nn.Parameter) and tensor.is_floating_point() and not tensor.isfinite().all():
            raise InputError(f"{name} has a weight that is NaN or infinite")
    if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
        raise InputError(f"{name} keeps no running statistics, so that its outputs depend on the whole batch")
    hooks = (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    if not all(_is_of_torch(hook) for hook in hooks):
        raise InputError(f"{name} has forward hooks, which may change what it computes: remove them first")


def _is_of_torch(hook: Any) -> bool:
    """Such as those of torch.nn.utils.weight_norm, which compute a weight."""
    return str(getattr(hook, "__module__", type(hook).__module__)).startswith("torch.")


def _evaluation_copy(module: nn.Module) -> nn.Module:
    """The module on the CPU in evaluation mode; the user's own stays as it is, whatever a forward does to it."""
    from torch import Tensor

    computed = [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]
    memo = {id(tensor): tensor.detach().clone() for tensor in computed if not tensor.is_leaf}  # not copied by torch
    try:
        return copy.deepcopy(module, memo).to("cpu").eval()
    except Exception as error:  # whatever the parts of a user's module raise
        raise InputError(f"the PyTorch network cannot be copied: {one_line(error)}") from None


def _dtype(module: nn.Module) -> Any:
    import torch

    floats = (tensor.dtype for tensor in _stored(module) if tensor.is_floating_point())
    return next(floats, torch.float64)


def _given_shapes(input_shape: Any, example_input: Any) -> list[Shape]:
    """The shapes of the tensors that the module is called with, for a batch of one sample."""
    if input_shape is not None and example_input is not None:
        raise InputError("give from_torch an input_shape or an example_input, not both")
    if input_shape is None and example_input is None:
        return []
    try:
        shapes = _sample_shapes(input_shape) if example_input is None else _example_shapes(example_input)
    except (TypeError, ValueError):
        raise InputError(
            f"input_shape is the shape of a sample, as in (4,), or a list of these (not {input_shape!r}), and "
            f"example_input a tensor or a tuple of them"
        ) from None
    if not shapes or any(min(shape, default=0) < 1 for shape in shapes):
        raise InputError(f"the inputs of the PyTorch network must have at least one entry each, not shapes {shapes}")
    return shapes


def _sample_shapes(input_shape: Any) -> list[Shape]:
    given = input_shape if isinstance(input_shape, Sequence) else (input_shape,)
    several = any(isinstance(part, Sequence) for part in given)
    return [(1, *map(index, shape)) for shape in (given if several else [given])]


def _example_shapes(example_input: Any) -> list[Shape]:
    """The first of several axes counts samples, and is taken as 1."""
    examples = example_input if isinstance(example_input, (tuple, list)) else (example_input,)
    shapes = [tuple(map(int, np.shape(example))) for example in examples]
    return [(1, *shape[1:]) if len(shape) > 1 else shape for shape in shapes]


def _found_program(module: nn.Module) -> tuple[list[Shape], ExportedProgram]:
    """The module for inputs (1, n), with the first size n that fits of those that its Linears and BatchNorm1ds ask for.

    The module must run with n entries and not with n + 1: a forward that takes the entries apart may leave some unread.
    """
    first_failure: InputError | None = None
    for size in _sizes(module):
        try:
            program = exported(module, _zeros(module, [(1, size)]))
        except InputError as failure:
            first_failure = first_failure or failure
            continue
        if _runs(module, [(1, size + 1)]):
            break
        return [(1, size)], program
    if first_failure is not None:
        raise InputError(f"{first_failure}; or say the number of inputs: from_torch(module, input_shape=(4,))")
    raise InputError(
        "no Linear or BatchNorm1d of the PyTorch network fixes its number of inputs: say it, as in "
        "from_torch(module, input_shape=(4,))"
    )


def _sizes(module: nn.Module) -> list[int]:
    from torch import nn

    sizes = [
        int(part.in_features if isinstance(part, nn.Linear) else part.num_features)
        for part in module.modules()
        if isinstance(part, (nn.Linear, nn.BatchNorm1d))
    ]
    return list(dict.fromkeys(sizes))


def _runs(module: nn.Module, shapes: Sequence[Shape]) -> bool:
    try:
        exported(module, _zeros(module, shapes))
    except InputError:
        return False
    return True


def _zeros(module: nn.Module, shapes: Sequence[Shape]) -> list[Tensor]:
    import torch

    return [torch.zeros(shape, dtype=_dtype(module)) for shape in shapes]


def _require_faithful(network: ReluNetwork, module: nn.Module, shapes: Sequence[Shape]) -> None:
    """InputError if the module itself, called with numbers, gives other outputs than the network.

    It computes in double precision, or as it is if that does not go together with casts in its forward.
    """
    reason = ""
    for called, tolerance in ((copy.deepcopy(module).double(), 1e-6), (module, 1e-2)):
        try:
            require_same(network, partial(_sample_outputs, called, shapes), "the PyTorch network", tolerance)
        except InputError:
            raise
        except Exception as error:  # whatever the forward of a user's module raises
            reason = one_line(error)
            continue
        return
    raise InputError(f"the PyTorch network can be traced, but fails when it is called with numbers: {reason}")


def _sample_outputs(module: nn.Module, shapes: Sequence[Shape], inputs: Array) -> Array:
    """What the module gives, sample by sample; InputError if it is another thing the next time, or in a batch."""
    rows = np.stack([np.concatenate(_outputs(module, shapes, sample[None]), axis=None) for sample in inputs])
    again = np.concatenate(_outputs(module, shapes, inputs[:1]), axis=None)
    if not np.array_equal(again, rows[0], equal_nan=True):
        raise InputError("the PyTorch network gives other outputs each time: it is random, or keeps a state")
    try:
        both = _outputs(module, shapes, inputs[:2]) if min(map(len, shapes)) > 1 else None
    except Exception:  # a module for single samples, whatever it raises
        both = None
    if both is not None and not _are_rows(both, rows[:2]):
        raise InputError(
            "the PyTorch network gives a sample other outputs in a batch than alone, where each must have its own row; "
            "if it takes no batches, give an example_input of shape (n,)"
        )
    return rows


def _are_rows(outputs: Sequence[Array], rows: Array) -> bool:
    """Whether the outputs of a batch are those of its samples."""
    if any(output.ndim == 0 or len(output) != len(rows) for output in outputs):
        return False
    together = np.concatenate([output.reshape(len(rows), -1) for output in outputs], axis=1)
    return together.shape == rows.shape and np.allclose(together, rows, rtol=1e-2, atol=1e-2, equal_nan=True)


def _outputs(module: nn.Module, shapes: Sequence[Shape], inputs: Array) -> list[Array]:
    """The output tensors for these samples."""
    import torch

    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    sizes = [(len(inputs), *shape[1:]) if len(shape) > 1 else shape for shape in shapes]
    parts = zip(np.split(inputs, ends, axis=1), sizes, strict=True)
    tensors = [torch.tensor(part.reshape(size), dtype=_dtype(module)) for part, size in parts]
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(module(*tensors))
    return [leaf.double().numpy() for leaf in leaves if leaf is not None]
