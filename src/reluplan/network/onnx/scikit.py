"""Operators of ai.onnx.ml, in which scikit-learn's pipelines are written."""

from __future__ import annotations

import numpy as np

from reluplan.network.affine import Affine, concatenated
from reluplan.network.onnx.call import Call, Operator


def _scaler(call: Call) -> Affine:
    """(x - offset) scale."""
    offset, scale = (np.array(call.attribute(name, default)) for name, default in (("offset", [0.0]), ("scale", [1.0])))
    return (call[0] - Affine.constant(offset.astype(np.float64))) * Affine.constant(scale.astype(np.float64))


def _linear_regressor(call: Call) -> Affine:
    """x coefficients' + intercepts."""
    call.check_attribute("post_transform", "NONE", "a transformation of the result")
    targets = int(call.attribute("targets", 1))
    coefficients = np.array(call.attribute("coefficients", []), dtype=np.float64)
    intercepts = np.array(call.attribute("intercepts", [0.0] * targets), dtype=np.float64)
    if targets < 1 or len(intercepts) != targets or len(coefficients) % targets:
        raise ValueError("its coefficients and intercepts do not fit its targets")
    return call[0] @ Affine.constant(coefficients.reshape(targets, -1).T) + Affine.constant(intercepts)


def _array_feature_extractor(call: Call) -> Affine:
    """Some entries of the last axis."""
    indices = call[1].value.ravel()
    size = call[0].shape[-1] if call[0].shape else 0
    if not call[1].is_integer or ((indices < 0) | (indices >= size)).any():
        raise ValueError(f"its indices must be integers from 0 to {size - 1}")
    taken = call[0].rearranged(lambda entries: entries[..., indices], call[0].size // max(1, size) * indices.size)
    return taken.reshaped((1, -1)) if len(call[0].shape) == 1 else taken


def _imputer(call: Call) -> Affine:
    """Numbers in place of missing ones; here nothing is missing."""
    if not np.isnan(call.attribute("replaced_value_float", 0.0)):
        raise ValueError("it replaces a number by another one, which is a jump; only NaN may be replaced")
    return call[0]


def _feature_vectorizer(call: Call) -> Affine:
    return concatenated(call.given, -1)


OPERATORS: dict[str, Operator] = {
    "ArrayFeatureExtractor": _array_feature_extractor,
    "FeatureVectorizer": _feature_vectorizer,
    "Imputer": _imputer,
    "LinearRegressor": _linear_regressor,
    "Scaler": _scaler,
}
