"""Random ONNX graphs, a few nodes each, for every operator: shapes and attributes are drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Rng = np.random.Generator
Weights = dict[str, NDArray[Any]]


@dataclass
class Case:
    """A graph from "x" to "y", in double or single precision.

    function: what it computes, where neither onnxruntime nor ONNX's reference knows. is_single: onnxruntime computes
    doubles in single precision.
    """

    nodes: list[onnx.NodeProto]
    shape: Sequence[int]
    weights: Weights = field(default_factory=dict)
    opset: int = 17
    ml: int = 3
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    is_single: bool = False

    def model(self, single: bool = False) -> onnx.ModelProto:
        kind = TensorProto.FLOAT if single else TensorProto.DOUBLE
        ends = [helper.make_tensor_value_info("x", kind, self.shape), helper.make_tensor_value_info("y", kind, None)]
        weights = [numpy_helper.from_array(_typed(value, single), name) for name, value in self.weights.items()]
        graph = helper.make_graph(self.nodes, "case", ends[:1], ends[1:], weights)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("ai.onnx.ml", self.ml)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _typed(value: NDArray[Any], single: bool) -> NDArray[Any]:
    array = np.asarray(value)
    return array.astype(np.float32) if single and array.dtype == np.float64 else array


def node(operator: str, inputs: str, outputs: str = "y", /, **attributes: Any) -> onnx.NodeProto:
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(operator, names, outputs.split(), **attributes)


def ints(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def shape_of(rng: Rng, low: int = 2, high: int = 4, largest: int = 4) -> list[int]:
    """(1, ...) of a random rank from low to high."""
    return [1, *(int(size) for size in rng.integers(1, largest + 1, size=rng.integers(low, high + 1) - 1))]


def part_of(rng: Rng, shape: Sequence[int]) -> list[int]:
    """A shape that broadcasts to that one."""
    kept = [int(rng.choice([1, size])) for size in shape]
    return kept[int(rng.integers(0, len(shape) + 1)) :]


def rounded(rng: Rng, shape: Sequence[int]) -> NDArray[np.float64]:
    return np.asarray(rng.normal(size=shape)).round(2)


def leaky_relu(rng: Rng) -> Case:
    return Case([node("LeakyRelu", "x", alpha=float(rng.choice([0.0, 0.1, 1.0, 3.0, -0.5])))], shape_of(rng))


def prelu(rng: Rng) -> Case:
    shape = shape_of(rng)
    return Case([node("PRelu", "x s")], shape, {"s": rounded(rng, part_of(rng, shape))}, opset=int(rng.choice([9, 17])))


def clip(rng: Rng) -> Case:
    low, high = (float(value) for value in np.sort(rng.normal(size=2)))
    if rng.random() < 0.3:
        return Case([node("Clip", "x", min=low, max=high)], shape_of(rng), opset=int(rng.choice([6, 9])))
    inputs = str(rng.choice(["x a b", "x a", "x _ b", "x"]))
    return Case([node("Clip", inputs)], shape_of(rng), {"a": np.array(low), "b": np.array(high)})


def extreme(operator: str) -> Callable[[Rng], Case]:
    def drawn(rng: Rng) -> Case:
        shape = shape_of(rng, 2, 3)
        size = shape[-1]
        weights = {f"w{i}": rounded(rng, (size, size)) for i in range(rng.integers(0, 5))}
        parts = [node("MatMul", f"x {name}", f"{name}x") for name in weights]
        names = " ".join(f"{name}x" for name in weights)
        return Case([*parts, node(operator, f"x {names} b".strip())], shape, {**weights, "b": rounded(rng, (size,))})

    return drawn


def plain(operator: str, **attributes: Any) -> Callable[[Rng], Case]:
    return lambda rng: Case([node(operator, "x", **attributes)], shape_of(rng))


def hard_sigmoid(rng: Rng) -> Case:
    return Case([node("HardSigmoid", "x", alpha=float(rng.normal()), beta=float(rng.normal()))], shape_of(rng))


def shrink(rng: Rng) -> Case:
    bound = float(rng.random())
    return Case([node("Shrink", "x", lambd=bound, bias=bound)], shape_of(rng), is_single=True)


def reduction(operator: str, input_from: int) -> Callable[[Rng], Case]:
    """Axes are an attribute before the operator set `input_from`, and an input since."""

    def drawn(rng: Rng) -> Case:
        shape = shape_of(rng, 2, 4)
        chosen = rng.choice(len(shape), size=rng.integers(1, len(shape) + 1), replace=False)
        axes = [int(axis - len(shape) * rng.integers(0, 2)) for axis in chosen]
        kept: dict[str, Any] = {"keepdims": int(rng.integers(0, 2))}
        kind = rng.integers(0, 4)
        if kind == 0:
            return Case([node(operator, "x", axes=axes, **kept)], shape, opset=int(rng.choice([9, 11])))
        if kind == 1:
            return Case([node(operator, "x", **kept)], shape, opset=input_from)
        if kind == 2:
            return Case([node(operator, "x", noop_with_empty_axes=1, **kept)], shape, opset=input_from)
        return Case([node(operator, "x a", **kept)], shape, {"a": ints(*axes)}, opset=input_from)

    return drawn


def _sliding(rng: Rng, rank: int, transposed: bool = False) -> tuple[list[int], list[int], dict[str, Any]]:
    """Space, kernel and attributes that fit each other."""
    kernel = [int(k) for k in rng.integers(1, 4, size=rank)]
    dilations = [int(d) for d in rng.integers(1, 3, size=rank)]
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    space = [int(span + extra) for span, extra in zip(spans, rng.integers(0, 4, size=rank), strict=True)]
    strides = [int(s) for s in rng.integers(1, 4, size=rank)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    mode = "NOTSET" if transposed else str(rng.choice(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if mode == "NOTSET":
        attributes["pads"] = [int(rng.integers(0, max(1, k))) for k in kernel * 2]
    else:
        attributes["auto_pad"] = mode
        attributes["dilations"] = [1] * rank  # onnxruntime knows no other here
    return space, kernel, attributes


def convolution(rng: Rng) -> Case:
    groups, per_group, results = (int(n) for n in rng.integers(1, 3, size=3))
    space, kernel, attributes = _sliding(rng, int(rng.integers(1, 4)))
    weights = {"w": rounded(rng, (groups * results, per_group, *kernel))}
    names = "x w"
    if rng.random() < 0.6:
        weights["b"] = rounded(rng, (groups * results,))
        names = "x w b"
    shape = [1, groups * per_group, *space]
    nodes = [node("Relu", "x", "h"), node("Conv", names.replace("x", "h"), group=groups, **attributes)]
    return Case(nodes, shape, weights)


def transposed_convolution(rng: Rng) -> Case:
    groups, per_group, results = (int(n) for n in rng.integers(1, 3, size=3))
    space, kernel, attributes = _sliding(rng, int(rng.integers(1, 3)), transposed=True)
    attributes["pads"] = (
        [0] * len(attributes["pads"])
        if rng.random() < 0.3
        else [min(pad, (k - 1) // 2) for pad, k in zip(attributes["pads"], kernel * 2, strict=True)]
    )
    weights = {"w": rounded(rng, (groups * per_group, results, *kernel)), "b": rounded(rng, (groups * results,))}
    return Case([node("ConvTranspose", "x w b", group=groups, **attributes)], [1, groups * per_group, *space], weights)


def pool(operator: str) -> Callable[[Rng], Case]:
    def drawn(rng: Rng) -> Case:
        space, kernel, attributes = _sliding(rng, int(rng.integers(1, 3)))
        if operator == "AveragePool":
            attributes["count_include_pad"] = int(rng.integers(0, 2))
            attributes["dilations"] = [1] * len(kernel)
        if "pads" in attributes:
            attributes["pads"] = [min(p, k // 2) for p, k in zip(attributes["pads"], kernel * 2, strict=True)]
            attributes["ceil_mode"] = int(rng.integers(0, 2))
        return Case([node(operator, "x", **attributes)], [1, int(rng.integers(1, 3)), *space], opset=19)

    return drawn


def whole_pool(operator: str) -> Callable[[Rng], Case]:
    return lambda rng: Case([node(operator, "x")], shape_of(rng, 3, 5))


def gather_elements(rng: Rng) -> Case:
    shape = shape_of(rng, 2, 3)
    axis = int(rng.integers(0, len(shape)))
    sizes = [int(rng.integers(1, size + 1)) for size in shape]
    sizes[axis] = int(rng.integers(1, 6))
    indices = rng.integers(-shape[axis], shape[axis], size=sizes)
    return Case([node("GatherElements", "x i", axis=axis)], shape, {"i": indices})


def gather_nd(rng: Rng) -> Case:
    shape = shape_of(rng, 2, 4)
    depth = int(rng.integers(1, len(shape) + 1))
    indices = np.stack([rng.integers(-size, size, size=(3, 2)) for size in shape[:depth]], axis=-1)
    return Case([node("GatherND", "x i")], shape, {"i": indices})


def gather(rng: Rng) -> Case:
    shape = shape_of(rng)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Case([node("Gather", "x i", axis=axis)], shape, {"i": rng.integers(-shape[axis], shape[axis], size=(2, 2))})


def pad(rng: Rng) -> Case:
    shape = [1, *(int(size) for size in rng.integers(3, 5, size=rng.integers(1, 4)))]
    mode = str(rng.choice(["constant", "reflect", "edge"]))
    widths = [0, *rng.integers(0, 3, size=len(shape) - 1), 0, *rng.integers(0, 3, size=len(shape) - 1)]
    if mode == "constant" and rng.random() < 0.5:
        widths[-1] = -1
    if rng.random() < 0.3:
        return Case([node("Pad", "x", mode=mode, pads=[int(w) for w in widths], value=0.5)], shape, opset=9)
    weights: Weights = {"p": ints(*(int(w) for w in widths)), "v": np.array(1.5)}
    if rng.random() < 0.4:
        weights = {"p": ints(1, 2), "v": np.array(-1.5), "a": ints(-1)}
        return Case([node("Pad", "x p v a", mode=mode)], shape, weights, opset=18)
    return Case([node("Pad", "x p v", mode=mode)], shape, weights)


def expand(rng: Rng) -> Case:
    shape = [1, int(rng.integers(1, 4)), 1]
    return Case([node("Expand", "x s")], shape, {"s": ints(2, 1, 3) if rng.random() < 0.5 else ints(2, 1, 1, 1)})


def tile(rng: Rng) -> Case:
    shape = shape_of(rng)
    return Case([node("Tile", "x r")], shape, {"r": rng.integers(1, 4, size=len(shape))})


def where(rng: Rng) -> Case:
    shape = shape_of(rng)
    condition = rng.random(part_of(rng, shape)) < 0.5
    return Case([node("Where", "c x o")], shape, {"c": condition, "o": rounded(rng, part_of(rng, shape))})


def choice(rng: Rng) -> Case:
    """x - c or slope (x - c), by a comparison, written in one of several ways."""
    size = int(rng.integers(1, 5))
    operator = str(rng.choice(["Greater", "GreaterOrEqual", "Less", "LessOrEqual"]))
    condition = [node(operator, "x c" if rng.random() < 0.5 else "c x", "b")]
    if rng.random() < 0.3:
        condition = [node(operator, "x c", "n"), node("Not", "n", "b")]
    values = [node("Sub", "x c", "d"), node("Mul", "d s", "e")]
    weights = {"c": rounded(rng, (size,)), "s": rounded(rng, (size,))}
    return Case([*condition, *values, node("Where", "b d e")], [1, size], weights)


def einsum(rng: Rng) -> Case:
    equation, wide = [("bi,ij->bj", 2), ("bi,jik->bkj", 3), ("bi,i->b", 1), ("bi,ij->ji", 2)][int(rng.integers(0, 4))]
    size = int(rng.integers(1, 5))
    weights = rounded(rng, {1: (size,), 2: (size, 3), 3: (2, size, 3)}[wide])
    if rng.random() < 0.3:
        left, _, right = equation.partition("->")
        first, _, second = left.partition(",")
        return Case([node("Einsum", "w x", equation=f"{second},{first}->{right}")], [1, size], {"w": weights})
    return Case([node("Einsum", "x w", equation=equation)], [1, size], {"w": weights})


def einsum_of_one(rng: Rng) -> Case:
    equation = str(rng.choice(["bij->bji", "bij->b", "bii->bi", "bii->b", "bij->ijb"]))
    return Case([node("Einsum", "x", equation=equation)], [1, 3, 3])


def matmul(rng: Rng) -> Case:
    inner, rows, columns = (int(n) for n in rng.integers(1, 4, size=3))
    if rng.random() < 0.5:
        return Case([node("MatMul", "x w")], [1, 2, rows, inner], {"w": rounded(rng, (2, inner, columns))})
    return Case(
        [node("MatMul", "w x")], [1, 2, inner, columns], {"w": rounded(rng, (int(rng.integers(1, 3)), 1, rows, inner))}
    )


def mean(rng: Rng) -> Case:
    shape = shape_of(rng)
    return Case([node("Mean", "x b x")], shape, {"b": rounded(rng, part_of(rng, shape))})


def power(rng: Rng) -> Case:
    nodes = [node("Pow", "x one", "p"), node("Pow", "b two", "q"), node("Mul", "p q")]
    return Case(nodes, [1, 3], {"one": np.array(1.0), "two": np.array([2.0, 0.5, -1.0]), "b": rng.random(3) + 0.5})


def constants(operator: str, count: int = 1) -> Callable[[Rng], Case]:
    """A function of constants, added to the input."""

    def drawn(rng: Rng) -> Case:
        weights = {f"c{i}": rng.random((2, 3)).round(1) * 0.8 + 0.1 for i in range(count)}
        nodes = [node(operator, " ".join(weights), "f"), node("Cast", "f", "g", to=TensorProto.DOUBLE)]
        return Case([*nodes, node("Add", "x g")], [1, 2, 3], weights)

    return drawn


def logic(operator: str, count: int = 2) -> Callable[[Rng], Case]:
    def drawn(rng: Rng) -> Case:
        weights: Weights = {f"c{i}": rng.random((2, 3)) < 0.5 for i in range(count)}
        nodes = [node(operator, " ".join(weights), "f"), node("Cast", "f", "g", to=TensorProto.DOUBLE)]
        return Case([*nodes, node("Add", "x g")], [1, 2, 3], weights)

    return drawn


def whole_numbers(operator: str) -> Callable[[Rng], Case]:
    def drawn(rng: Rng) -> Case:
        signs = rng.choice([-1, 1], size=5)
        weights = {"a": rng.integers(-9, 9, size=5), "b": signs * rng.integers(1, 4, size=5)}
        nodes = [node(operator, "a b", "f"), node("Cast", "f", "g", to=TensorProto.DOUBLE)]
        return Case([*nodes, node("Add", "x g")], [1, 5], weights)

    return drawn


def float_mod(rng: Rng) -> Case:
    weights = {"a": rounded(rng, (5,)), "b": rng.random(5) + 0.5}
    return Case([node("Mod", "a b", "f", fmod=1), node("Add", "x f")], [1, 5], weights)


def constant_of_shape(rng: Rng) -> Case:
    value = numpy_helper.from_array(np.array([2.5]))
    nodes = [node("Shape", "x", "s"), node("ConstantOfShape", "s", "c", value=value), node("Sub", "c x")]
    return Case(nodes, shape_of(rng))


def counted(rng: Rng) -> Case:
    """Range and Size: x + (0, 1, ..., n - 1)."""
    nodes = [
        node("Size", "x", "n"),
        node("Range", "zero n one", "r"),
        node("Cast", "r", "f", to=TensorProto.DOUBLE),
        node("Add", "x f"),
    ]
    return Case(nodes, [1, int(rng.integers(1, 5))], {"zero": np.array(0), "one": np.array(1)})


def cast_like(rng: Rng) -> Case:
    nodes = [node("CastLike", "c x", "d"), node("CastLike", "x d", "e"), node("Add", "e d")]
    return Case(nodes, [1, 3], {"c": ints(1, 2, 3)}, opset=19)


def old_arithmetic(operator: str) -> Callable[[Rng], Case]:
    """Operator set 6: the second operand is aligned at an axis of the first."""

    def drawn(rng: Rng) -> Case:
        shape = [1, *(int(size) for size in rng.integers(2, 4, size=3))]
        axis = int(rng.integers(0, 4))
        end = int(rng.integers(axis + 1, 5))
        other = rng.random(shape[axis:end]) + 0.5
        spread = other.reshape(*other.shape, *([1] * (4 - end)))
        function = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}[operator]
        nodes = [node(operator, "x b", broadcast=1, axis=axis)]
        return Case(nodes, shape, {"b": other}, opset=6, function=lambda x: np.asarray(function(x, spread)))

    return drawn


def conditional(rng: Rng) -> Case:
    """If, by a constant: the branches read what stands outside."""
    branches = {}
    for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg")):
        end = helper.make_tensor_value_info(f"{name}_y", TensorProto.DOUBLE, None)
        branches[name] = helper.make_graph([node(operator, "h", f"{name}_y")], name, [], [end])
    nodes = [node("MatMul", "x w", "h"), node("If", "c", **branches)]
    return Case(nodes, [1, 3], {"w": rounded(rng, (3, 2)), "c": np.array(bool(rng.integers(0, 2)))})


def scaler(rng: Rng) -> Case:
    size = int(rng.integers(1, 5))
    numbers = {name: rng.random(size).tolist() for name in ("offset", "scale")}
    return Case([node("Scaler", "x", domain="ai.onnx.ml", **numbers)], [1, size])


def linear_regressor(rng: Rng) -> Case:
    size, targets = (int(n) for n in rng.integers(1, 5, size=2))
    numbers = {
        "coefficients": rng.normal(size=size * targets).tolist(),
        "intercepts": rng.normal(size=targets).tolist(),
    }
    return Case([node("LinearRegressor", "x", domain="ai.onnx.ml", targets=targets, **numbers)], [1, size])


def feature_extractor(rng: Rng) -> Case:
    size = int(rng.integers(1, 5))
    return Case(
        [node("ArrayFeatureExtractor", "x i", domain="ai.onnx.ml")], [1, size], {"i": rng.integers(0, size, size=3)}
    )


def imputer(rng: Rng) -> Case:
    numbers: dict[str, Any] = {"imputed_value_floats": [1.0], "replaced_value_float": float("nan")}
    return Case([node("Imputer", "x", domain="ai.onnx.ml", **numbers)], [1, 3])


def vectorizer(rng: Rng) -> Case:
    return Case([node("FeatureVectorizer", "x x", domain="ai.onnx.ml", inputdimensions=[3, 3])], [1, 3])


CASES: dict[str, Callable[[Rng], Case]] = {
    "Abs": plain("Abs"),
    "AveragePool": pool("AveragePool"),
    "Clip": clip,
    "CastLike": cast_like,
    "ConstantOfShape": constant_of_shape,
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Div of whole numbers": whole_numbers("Div"),
    "Einsum": einsum,
    "Einsum of one": einsum_of_one,
    "Expand": expand,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "GlobalAveragePool": whole_pool("GlobalAveragePool"),
    "GlobalMaxPool": whole_pool("GlobalMaxPool"),
    "HardSigmoid": hard_sigmoid,
    "If": conditional,
    "LeakyRelu": leaky_relu,
    "MatMul": matmul,
    "Max": extreme("Max"),
    "MaxPool": pool("MaxPool"),
    "Mean": mean,
    "Min": extreme("Min"),
    "Mod": whole_numbers("Mod"),
    "Mod of floats": float_mod,
    "PRelu": prelu,
    "Pad": pad,
    "Pow": power,
    "Range": counted,
    "ReduceL1": reduction("ReduceL1", 18),
    "ReduceMax": reduction("ReduceMax", 18),
    "ReduceMean": reduction("ReduceMean", 18),
    "ReduceMin": reduction("ReduceMin", 18),
    "ReduceSum": reduction("ReduceSum", 13),
    "Shrink": shrink,
    "Size": counted,
    "ThresholdedRelu": plain("ThresholdedRelu", alpha=0.0),
    "Tile": tile,
    "Where": where,
    "Where by a comparison": choice,
    **{f"{name} in set 6": old_arithmetic(name) for name in ("Add", "Sub", "Mul", "Div")},
    **{name: constants(name) for name in ("Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sign")},
    **{name: constants(name) for name in ("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Tanh")},
    **{name: constants(name, 2) for name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{name: logic(name) for name in ("And", "Or", "Xor")},
    "Not": logic("Not", 1),
    "ReduceProd": lambda rng: Case(
        [node("ReduceProd", "c", "p", axes=[1]), node("Add", "x p")], [1, 2, 1], {"c": rounded(rng, (2, 3))}, opset=11
    ),
    "Scaler": scaler,
    "LinearRegressor": linear_regressor,
    "ArrayFeatureExtractor": feature_extractor,
    "Imputer": imputer,
    "FeatureVectorizer": vectorizer,
}
