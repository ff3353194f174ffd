"""Operators that no ReLU network computes, each with the reason."""

from __future__ import annotations

SMOOTH = "it is smooth, not piecewise linear"
NORMALISING = "it divides by a size of its own input, which is not piecewise linear"
JUMPING = "it jumps, and a ReLU network cannot jump"
RECURRENT = "it multiplies signals by gates or by each other, which is not piecewise linear"
LOOPING = "loops are not unrolled: export the network without them"

REASONS: dict[str, str] = {
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Celu", "Cos", "Cosh", "Elu", "Erf"), SMOOTH),
    **dict.fromkeys(("Exp", "Gelu", "Log", "LogSoftmax", "Mish", "Selu", "Sigmoid", "Sin", "Sinh", "Softmax"), SMOOTH),
    **dict.fromkeys(("Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "Reciprocal"), SMOOTH),
    **dict.fromkeys(("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "LpPool"), SMOOTH),
    "HardSwish": "x max(0, min(1, x / 6 + 1 / 2)) is quadratic between -3 and 3, not piecewise linear",
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization", "LRN"), NORMALISING),
    **dict.fromkeys(("LpNormalization", "MeanVarianceNormalization", "RMSNormalization"), NORMALISING),
    **dict.fromkeys(("ArgMax", "ArgMin", "Ceil", "Floor", "Hardmax", "IsNaN", "Round", "Sign"), JUMPING),
    **dict.fromkeys(("Equal", "And", "Or", "Xor"), JUMPING),
    **dict.fromkeys(("QuantizeLinear", "DynamicQuantizeLinear"), JUMPING),
    **dict.fromkeys(("Attention", "GRU", "LSTM", "RNN"), RECURRENT),
    **dict.fromkeys(("Loop", "Scan"), LOOPING),
    "ai.onnx.ml.Binarizer": JUMPING,
    "ai.onnx.ml.Normalizer": NORMALISING,
    "ai.onnx.ml.SVMRegressor": SMOOTH,
    **dict.fromkeys(("ai.onnx.ml.TreeEnsemble", "ai.onnx.ml.TreeEnsembleRegressor"), JUMPING),
    **dict.fromkeys(("ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.LinearClassifier"), JUMPING),
}
"""By operator, with its domain unless that is ONNX's own."""
