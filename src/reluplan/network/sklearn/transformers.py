"""Scalers, projections and selections of features, and the inverses of some."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from reluplan.network.affine import Affine
from reluplan.network.builder import NetworkBuilder
from reluplan.network.conversion import WAY_OUT
from reluplan.network.sklearn.estimators import SKLEARN_ESTIMATORS, SKLEARN_INVERSES, Estimator, columns, constant


def _standard(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """(x - mean) / scale."""
    shifted = tensor if scaler.mean_ is None or not scaler.with_mean else tensor - constant(scaler.mean_)
    return shifted if scaler.scale_ is None else shifted / constant(scaler.scale_)


def _standard_inverse(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    scaled = tensor if scaler.scale_ is None else tensor * constant(scaler.scale_)
    return scaled if scaler.mean_ is None or not scaler.with_mean else scaled + constant(scaler.mean_)


def _min_max(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """scale x + min, clipped to the range on request."""
    scaled = tensor * constant(scaler.scale_) + constant(scaler.min_)
    return builder.clip(scaled, *map(float, scaler.feature_range)) if scaler.clip else scaled


def _min_max_inverse(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    return (tensor - constant(scaler.min_)) / constant(scaler.scale_)


def _max_abs(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    scaled = tensor / constant(scaler.scale_)
    return builder.clip(scaled, -1.0, 1.0) if getattr(scaler, "clip", False) else scaled


def _max_abs_inverse(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    return tensor * constant(scaler.scale_)


def _robust(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """(x - median) / width of the quantiles."""
    shifted = tensor - constant(scaler.center_) if scaler.with_centering else tensor
    return shifted / constant(scaler.scale_) if scaler.with_scaling else shifted


def _robust_inverse(scaler: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    scaled = tensor * constant(scaler.scale_) if scaler.with_scaling else tensor
    return scaled + constant(scaler.center_) if scaler.with_centering else scaled


def _pca(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """(x - mean) components', each over the square root of its variance if it whitens."""
    centred = tensor if step.mean_ is None else tensor - constant(step.mean_)
    projected = centred @ constant(step.components_.T)
    if not getattr(step, "whiten", False):
        return projected
    deviations = np.sqrt(step.explained_variance_)
    return projected / Affine.constant(np.maximum(deviations, np.finfo(deviations.dtype).eps))


def _pca_inverse(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    scaled = tensor * Affine.constant(np.sqrt(step.explained_variance_)) if getattr(step, "whiten", False) else tensor
    return scaled @ constant(step.components_) + constant(step.mean_)


def _projection(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """x components'."""
    return tensor @ constant(step.components_.T)


def _independent_components(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    centred = tensor - constant(step.mean_) if step.whiten else tensor
    return centred @ constant(step.components_.T)


def _selected(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    return columns(tensor, step.get_support(indices=True))


def _polynomial(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """Of degree 1: a one, if asked for, and the features."""
    powers = step.powers_
    if (powers.sum(axis=1) > 1).any():
        raise ValueError(f"PolynomialFeatures of degree {step.degree} multiplies features; {WAY_OUT}")
    ones = (powers.sum(axis=1) == 0).astype(np.float64)
    return tensor @ Affine.constant(powers.T.astype(np.float64)) + Affine.constant(ones)


def _identity_function(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    if step.func is not None:
        raise ValueError(f"a FunctionTransformer of {getattr(step.func, '__name__', 'a function')} may do anything")
    return tensor


def _identity_inverse(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    if step.inverse_func is not None:
        raise ValueError("a FunctionTransformer of an inverse function may do anything")
    return tensor


def _imputed(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """Nothing: inputs of a network are numbers, never missing."""
    if getattr(step, "add_indicator", False) or np.isnan(np.asarray(step.statistics_, dtype=np.float64)).any():
        raise ValueError("a SimpleImputer that adds or drops columns is not supported")
    if not (isinstance(step.missing_values, float) and math.isnan(step.missing_values)):
        raise ValueError("a SimpleImputer that replaces numbers jumps")
    return tensor


_ESTIMATORS: dict[str, Estimator] = {
    "BaseRandomProjection": _projection,
    "FastICA": _independent_components,
    "FunctionTransformer": _identity_function,
    "IncrementalPCA": _pca,
    "MaxAbsScaler": _max_abs,
    "MinMaxScaler": _min_max,
    "PCA": _pca,
    "PolynomialFeatures": _polynomial,
    "RobustScaler": _robust,
    "SelectorMixin": _selected,
    "SimpleImputer": _imputed,
    "StandardScaler": _standard,
    "TruncatedSVD": _projection,
}
_INVERSES: dict[str, Estimator] = {
    "FunctionTransformer": _identity_inverse,
    "MaxAbsScaler": _max_abs_inverse,
    "MinMaxScaler": _min_max_inverse,
    "PCA": _pca_inverse,
    "RobustScaler": _robust_inverse,
    "StandardScaler": _standard_inverse,
}
for _name, _estimator in _ESTIMATORS.items():
    SKLEARN_ESTIMATORS.register(_name, _estimator)
for _name, _estimator in _INVERSES.items():
    SKLEARN_INVERSES.register(_name, _estimator)
