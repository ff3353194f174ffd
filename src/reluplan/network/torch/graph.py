"""The graph of a PyTorch module, and its walk with symbolic tensors in place of numbers."""

from __future__ import annotations

import logging
import math
import operator
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from reluplan.errors import InputError
from reluplan.network.affine import Affine, NotPiecewiseLinearError, concatenated, require_size
from reluplan.network.builder import NetworkBuilder
from reluplan.network.choice import Comparison
from reluplan.network.conversion import WAY_OUT, one_line
from reluplan.network.relu_network import ReluNetwork
from reluplan.network.torch.call import INDEX_ARGUMENTS, Call, Operator
from reluplan.network.torch.operators import ATEN_OPERATORS

if TYPE_CHECKING:
    from torch import Tensor, fx, nn
    from torch._ops import OpOverload
    from torch.export import ExportedProgram

WITHOUT_EFFECT = ("aten._assert", "aten.sym_constrain", "aten._set_grad", "aten._functional_assert")
"""Operators, by how their names begin, that compute nothing."""


def exported(module: nn.Module, examples: Sequence[Tensor]) -> ExportedProgram:
    """The module as a graph of ATen operators without side effects, for inputs of the shapes of the examples.

    Nothing is computed with numbers, so that sizes can be looked at before memory is taken.
    """
    import torch

    entered: list[str] = []
    try:
        with _quietly(), torch.no_grad(), _noting_modules(module, entered):
            program = torch.export.export(module, tuple(examples), strict=False)
            if not all(_is_plain(node) for node in program.graph.nodes):
                _rewrite_softshrink(program)
                program = program.run_decompositions(_decompositions())
    except Exception as error:  # whatever the forward of a user's module raises
        place = entered[-1] if entered else f"module ({type(module).__name__})"
        shapes = ", ".join(str(tuple(example.shape)) for example in examples)
        raise InputError(
            f"{place} of the PyTorch network fails for inputs of shape {shapes}: {_reason(error)}"
        ) from None
    return program


def _reason(error: Exception) -> str:
    if "data-dependent" in str(error) or ".numpy()" in str(error) or "DataDependent" in type(error).__name__:
        return "it makes a Python number of a tensor (if, float(), numpy); say it by torch.where, relu or maximum"
    return one_line(error)


@contextmanager
def _quietly() -> Iterator[None]:
    """torch.export prints graphs and warnings where it fails; the error has what a user needs."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


@contextmanager
def _noting_modules(module: nn.Module, entered: list[str]) -> Iterator[None]:
    """Hooks that keep a list of the modules whose forward has begun and not ended."""
    hooks = []
    for path, part in module.named_modules():
        name = f"{named(path)} ({type(part).__name__})"
        hooks.append(part.register_forward_pre_hook(lambda *_, name=name: entered.append(name)))
        hooks.append(part.register_forward_hook(lambda *_: entered.pop() and None))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _is_plain(node: fx.Node) -> bool:
    """Whether the walk can do the node as it is: torch need not take it apart, nor make in-place operations pure."""
    from torch._ops import OpOverload

    if not isinstance(node.target, OpOverload):
        return node.op != "call_function" or node.target is operator.getitem
    return not node.target._schema.is_mutable and (_operator(node.target) is not None or _is_without_effect(node))


def _decompositions() -> dict[Any, Any]:
    """Torch's rules that take operators apart, but for operators that are registered."""
    import torch

    table: Any = torch.export.default_decompositions()
    return {target: rule for target, rule in table.items() if _operator(target) is None}


def _rewrite_softshrink(program: ExportedProgram) -> None:
    """As x - clamp(x, -l, l): torch would take it apart into signs, which jump, whatever the rules say."""
    import torch

    for node in program.graph.nodes:
        if node.target is torch.ops.aten.softshrink.default:
            tensor, width = (*node.args, 0.5)[:2]
            with program.graph.inserting_before(node):
                clamped = program.graph.call_function(torch.ops.aten.clamp.default, (tensor, -width, width))
            clamped.meta = dict(node.meta)
            node.target = torch.ops.aten.sub.Tensor
            node.args = (tensor, clamped)


def _operator(target: OpOverload) -> Operator | None:
    """The operator registered for this overload, or for all overloads of its name."""
    overload = str(target)
    for name in (overload, overload.rpartition(".")[0]):
        if name in ATEN_OPERATORS:
            return ATEN_OPERATORS[name]
    return None


def _is_without_effect(node: fx.Node) -> bool:
    return str(node.target).startswith(WITHOUT_EFFECT)


class GraphWalk:
    """Evaluates the nodes of an exported program in order.

    A value is a torch tensor if it is constant, and symbolic otherwise, so that constants are computed by torch itself,
    in double precision.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._values: dict[str, Any] = {}
        self._builder = NetworkBuilder(0)

    def network(self) -> ReluNetwork:
        self._refuse_mutation()
        self._program.graph.eliminate_dead_code()
        self._place_inputs()
        for node in self._program.graph.nodes:
            if node.op in ("call_function", "get_attr"):
                self._values[node.name] = self._evaluated(node)
                self._forget(node)
        outputs = list(self._outputs())
        if not outputs:
            raise InputError("the PyTorch network has no output tensor")
        return self._builder.finish(concatenated([output.reshaped((-1,)) for output in outputs], 0))

    def _refuse_mutation(self) -> None:
        signature = self._program.graph_signature
        changed = [*signature.buffers_to_mutate.values(), *getattr(signature, "parameters_to_mutate", {}).values()]
        if changed:
            raise InputError(
                f"the PyTorch network changes its buffer '{changed[0]}' with every call, so that it is no function of "
                f"its inputs: leave that out in evaluation mode"
            )

    def _place_inputs(self) -> None:
        """Constants as they are, and the inputs of the network one after another as columns."""
        from torch.export.graph_signature import InputKind

        nodes = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        stored = {**self._program.constants, **self._program.state_dict}
        count = 0
        for spec in self._program.graph_signature.input_specs:
            if spec.kind == InputKind.USER_INPUT:
                value = nodes[spec.arg.name].meta["val"]
                self._values[spec.arg.name] = Affine.columns(count, tuple(value.shape))
                count += value.numel()
            else:
                self._values[spec.arg.name] = _in_double(stored.get(spec.target))
        self._builder = NetworkBuilder(count)

    def _evaluated(self, node: fx.Node) -> Any:
        try:
            _require_sizes(node)
            with np.errstate(all="ignore"):  # an overflow shows up as infinity, and is reported as such
                value = self._applied(node)
            if not all(tensor.is_finite for tensor in _symbolic(value)):
                raise ValueError("it gives a weight that is NaN or infinite")
        except ValueError as error:
            way_out = f"; {WAY_OUT}" if isinstance(error, NotPiecewiseLinearError) else ""
            raise InputError(f"{_place(node)}: {_operator_name(node)}: {error}{way_out}") from None
        return value

    def _applied(self, node: fx.Node) -> Any:
        if node.op == "get_attr":
            return _in_double(operator.attrgetter(str(node.target))(self._program.graph_module))
        if _is_without_effect(node):
            return None
        args = _looked_up(node.args, self._values)
        kwargs = _looked_up(node.kwargs, self._values)
        if node.target is operator.getitem:
            return args[0][args[1]]
        if not any(True for _ in _symbolic([args, kwargs])):
            return self._constant(node.target, args, kwargs)
        target: Any = node.target
        known = _operator(target)
        if known is None:
            raise ValueError("this operator is not supported; a function of it can be registered in ATEN_OPERATORS")
        return known(Call(target, _by_name(target, args, kwargs), self._builder))

    def _constant(self, target: Any, args: Any, kwargs: Any) -> Any:
        """What depends on no input, computed by torch."""
        import torch

        if torch.Tag.nondeterministic_seeded in getattr(target, "tags", ()):
            raise ValueError("it is random")
        try:
            return _in_double(target(*args, **kwargs))
        except RuntimeError as error:
            raise ValueError(one_line(error)) from None

    def _forget(self, node: fx.Node) -> None:
        """What is not read again need not be held."""
        for read in node.all_input_nodes:
            if all(user.name in self._values for user in read.users):
                self._values[read.name] = None

    def _outputs(self) -> Iterator[Affine]:
        from torch.export.graph_signature import ConstantArgument, OutputKind

        for spec in self._program.graph_signature.output_specs:
            if spec.kind != OutputKind.USER_OUTPUT:
                continue
            if isinstance(spec.arg, ConstantArgument):
                if spec.arg.value is None:
                    continue
                raise InputError(f"the PyTorch network returns {spec.arg.value!r}, which is not a tensor")
            value = _as_affine(self._values[spec.arg.name])
            if not isinstance(value, Affine) or isinstance(value, Comparison):
                raise InputError("the PyTorch network returns a comparison or positions, which jump")
            yield value


def _in_double(value: Any) -> Any:
    """Tensors of floats in double precision."""
    import torch

    if isinstance(value, (list, tuple)):
        return [_in_double(part) for part in value]
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return value.to(torch.float64) if value.is_floating_point() else value
    return value


def _symbolic(value: Any) -> Iterator[Affine]:
    """The symbolic tensors in nested arguments."""
    if isinstance(value, Affine):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _symbolic(part)
    elif isinstance(value, dict):
        yield from _symbolic(list(value.values()))


def _looked_up(argument: Any, values: dict[str, Any]) -> Any:
    """The argument with the values of nodes in place of nodes."""
    from torch import fx

    if isinstance(argument, fx.Node):
        if argument.name in values and values[argument.name] is None:
            raise ValueError("it reads something that is no tensor, or the positions of largest entries, which jump")
        return values[argument.name]
    if isinstance(argument, dict):
        return {key: _looked_up(part, values) for key, part in argument.items()}
    if isinstance(argument, (list, tuple)):
        return [_looked_up(part, values) for part in argument]
    return argument


def _by_name(target: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by their names in the schema, defaults filled in, constants as symbolic tensors.

    Constants that say which entries are meant stay as they are: masks and positions are told apart by their type.
    """
    named = {}
    for position, argument in enumerate(target._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name, argument.default_value)
        named[argument.name] = value if argument.name in INDEX_ARGUMENTS else _as_affine(value)
    return named


def _as_affine(value: Any) -> Any:
    """Constant tensors as symbolic ones."""
    import torch

    if isinstance(value, (list, tuple)):
        return [_as_affine(part) for part in value]
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            raise ValueError("complex numbers are not supported")
        return Affine.constant(value.to("cpu").numpy())
    return value


def _require_sizes(node: fx.Node) -> None:
    """The sizes of the results, before memory is taken."""
    results = node.meta.get("val")
    for result in results if isinstance(results, (list, tuple)) else [results]:
        sizes = getattr(result, "shape", ())
        if all(isinstance(size, int) for size in sizes):  # the size of x[mask] is known only when it is computed
            require_size(math.prod(sizes))


def _operator_name(node: fx.Node) -> str:
    return str(node.target) if node.target is not operator.getitem else "a part of a result"


def _place(node: fx.Node) -> str:
    """The module that the node belongs to, and the line of Python that made it if the module is not torch's own."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, kind = stack[-1] if stack else ("", "")
    kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    name = f"{named(path)} ({kind.rpartition('.')[2]}) of the PyTorch network"
    line = "" if kind.startswith("torch.nn.") else _line(node)
    return f"{name}, at '{line}'" if line else name


def _line(node: fx.Node) -> str:
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").strip().splitlines()]
    code = [line for line in lines if line and not line.startswith("File ")]
    return code[-1] if code else ""


def named(path: str) -> str:
    """A path such as 0.linear as module[0].linear."""
    parts = [part for part in path.split(".") if part]
    return "module" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)
