"""PyTorch's own operators (ATen), each as a function of a `Call`.

An operator raises ValueError with the reason alone; the walk of the graph adds the module and the line.
"""

from __future__ import annotations

from reluplan.network.affine import Affine, NotPiecewiseLinearError
from reluplan.network.torch import arithmetic, linear_maps, moving, piecewise, reductions, sliding, sorting
from reluplan.network.torch.call import Call, Operator
from reluplan.registry import Registry

ATEN_OPERATORS: Registry[Operator] = Registry("ATen operator", "reluplan.aten_operators")
"""By name, for all overloads ("aten.relu") or for one ("aten.max.dim"). What is not here torch takes apart first."""


def _refused(reason: str) -> Operator:
    def refused(call: Call) -> Affine:
        raise NotPiecewiseLinearError(reason)

    return refused


SMOOTH = "it is not piecewise linear"
JUMPS = "it jumps, and a ReLU network cannot jump"

_PLAIN: dict[str, Operator] = {
    "_native_batch_norm_legit_no_training": lambda call: [arithmetic.normalised(call), None, None],
    "abs": lambda call: call.builder.absolute(call["self"]),
    "adaptive_max_pool1d": linear_maps.adaptive_max_pooled,
    "adaptive_max_pool2d": linear_maps.adaptive_max_pooled,
    "adaptive_max_pool3d": linear_maps.adaptive_max_pooled,
    "add": arithmetic.added,
    "addmm": arithmetic.added_product("mat1", "mat2"),
    "addmv": arithmetic.added_product("mat", "vec"),
    "amax": reductions.largest,
    "amin": reductions.smallest,
    "baddbmm": arithmetic.added_product("batch1", "batch2"),
    "batch_norm": arithmetic.normalised,
    "bmm": arithmetic.product("self", "mat2"),
    "clamp": piecewise.clamped,
    "clamp_max": piecewise.clamped,
    "clamp_min": piecewise.clamped,
    "constant_pad_nd": moving.padded,
    "copy": moving.copied,
    "div": arithmetic.divided,
    "dot": arithmetic.product("self", "tensor"),
    "ge": piecewise.compared(above=True),
    "gt": piecewise.compared(above=True),
    "hardsigmoid": lambda call: call.builder.hard_sigmoid(call["self"], 1 / 6, 0.5),
    "hardtanh": piecewise.hard_tanh,
    "le": piecewise.compared(above=False),
    "leaky_relu": lambda call: call.builder.leaky_relu(call["self"], float(call["negative_slope"])),
    "lerp": arithmetic.interpolated,
    "linalg_vector_norm": reductions.norm,
    "linear": arithmetic.linear,
    "logical_not": piecewise.negated,
    "bitwise_not": piecewise.negated,
    "lt": piecewise.compared(above=False),
    "matmul": arithmetic.product("self", "other"),
    "max.default": reductions.largest,
    "max.dim": reductions.with_positions(reductions.largest),
    "max.other": lambda call: call.builder.maximum(call.tensor("self"), call.tensor("other")),
    "max_pool1d": sliding.max_pooling,
    "max_pool2d": sliding.max_pooling,
    "max_pool3d": sliding.max_pooling,
    "maximum": lambda call: call.builder.maximum(call.tensor("self"), call.tensor("other")),
    "mean": reductions.averaged,
    "median.dim": sorting.median,
    "min.default": reductions.smallest,
    "min.dim": reductions.with_positions(reductions.smallest),
    "min.other": lambda call: call.builder.minimum(call.tensor("self"), call.tensor("other")),
    "minimum": lambda call: call.builder.minimum(call.tensor("self"), call.tensor("other")),
    "mm": arithmetic.product("self", "mat2"),
    "mul": arithmetic.multiplied,
    "mv": arithmetic.product("self", "vec"),
    "neg": lambda call: -call["self"],
    "pad": moving.padded,
    "pow": arithmetic.power,
    "prelu": piecewise.prelu,
    "relu": lambda call: call.builder.relu(call["self"]),
    "relu6": lambda call: call.builder.clip(call["self"], 0.0, 6.0),
    "rrelu": piecewise.randomised_relu,
    "rsub": arithmetic.subtracted_from,
    "softshrink": piecewise.soft_shrunk,
    "sort": sorting.in_order,
    "sub": arithmetic.subtracted,
    "sum": reductions.summed,
    "sym_size": lambda call: call["self"].shape[call["dim"]],
    "threshold": piecewise.threshold,
    "topk": sorting.largest_k,
    "where": piecewise.where,
}
_MOVING = (
    "cat", "chunk", "diagonal", "expand", "flatten", "flip", "gather", "index", "index_put", "index_select", "movedim",
    "narrow", "permute", "pixel_shuffle", "pixel_unshuffle", "repeat", "reshape", "roll", "rot90", "select",
    "select_scatter", "slice", "slice_scatter", "split", "split_with_sizes", "squeeze", "stack", "t", "take", "tile",
    "transpose", "unbind", "unflatten", "unfold", "unsqueeze", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "view",
)  # fmt: skip
_FILLED = ("empty_like", "full_like", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like")
_KEPT = ("_to_copy", "alias", "clone", "contiguous", "detach", "lift_fresh_copy", "to", "type_as")
_DROPOUT = ("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout")
_LINEAR = (
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "cumsum", "upsample_bicubic2d", "upsample_bilinear2d",
    "upsample_linear1d", "upsample_trilinear3d",
)  # fmt: skip
_CONVOLUTION = ("conv1d", "conv2d", "conv3d")
_OTHER_CONVOLUTION = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution")
_SMOOTH = (
    "_softmax", "acos", "asin", "atan", "atan2", "bilinear", "celu", "cos", "cosh", "elu", "erf", "exp", "expm1",
    "gelu", "glu", "group_norm", "hardswish", "instance_norm", "layer_norm", "log", "log1p", "log_sigmoid",
    "log_softmax", "logsumexp", "mish", "norm", "prod", "reciprocal", "rsqrt", "scaled_dot_product_attention", "selu",
    "sigmoid", "silu", "sin", "sinh", "softmax", "softplus", "sqrt", "square", "std", "tan", "tanh", "var",
)  # fmt: skip
_JUMPING = (
    "argmax", "argmin", "ceil", "floor", "fmod", "frac", "hardshrink", "heaviside", "remainder", "round", "sign",
    "trunc", "view.dtype",
)  # fmt: skip
_GROUPS: dict[Operator, tuple[str, ...]] = {
    moving.moved: _MOVING,
    moving.filled: _FILLED,
    moving.kept: _KEPT,
    moving.dropout: _DROPOUT,
    linear_maps.linear_map: _LINEAR,
    linear_maps.unit_convolution: _OTHER_CONVOLUTION,
    sliding.convolution: _CONVOLUTION,
    _refused(SMOOTH): _SMOOTH,
    _refused(JUMPS): _JUMPING,
}

for _name, _operator in _PLAIN.items():
    ATEN_OPERATORS.register(f"aten.{_name}", _operator)
for _operator, _names in _GROUPS.items():
    for _name in _names:
        ATEN_OPERATORS.register(f"aten.{_name}", _operator)
