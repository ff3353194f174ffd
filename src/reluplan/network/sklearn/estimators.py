"""Which function an estimator is.

Such a function takes the fitted object, the symbolic tensor (1, features) that it would transform or predict from, and
the builder, and returns the symbolic tensor of what it gives. It raises ValueError with the reason.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from reluplan.network.affine import Affine, concatenated, require_size
from reluplan.network.builder import NetworkBuilder
from reluplan.network.conversion import WAY_OUT
from reluplan.network.relu_network import Array
from reluplan.registry import Registry

Estimator = Callable[[Any, Affine, NetworkBuilder], Affine]

SKLEARN_ESTIMATORS: Registry[Estimator] = Registry("scikit-learn estimator", "reluplan.sklearn_estimators")
"""By the name of the class; a subclass that has no function of its own counts as the nearest base that has one."""
SKLEARN_INVERSES: Registry[Estimator] = Registry("scikit-learn inverse", "reluplan.sklearn_inverses")
"""The inverse transforms that a TransformedTargetRegressor needs, by the same names."""


def applied(estimator: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """The estimator as a function of the tensor."""
    result = _function(SKLEARN_ESTIMATORS, estimator)(estimator, tensor, builder)
    if not result.is_finite:
        raise ValueError(f"{type(estimator).__name__} has a number that is NaN or infinite")
    return result


def inverted(step: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """The inverse transform of a step as a function of the tensor."""
    return _function(SKLEARN_INVERSES, step)(step, tensor, builder)


def _function(registry: Registry[Estimator], estimator: Any) -> Estimator:
    """That of the class itself or of the nearest base."""
    for kind in type(estimator).__mro__:
        if kind.__name__ in registry:
            return registry[kind.__name__]
    name = type(estimator).__name__
    if registry is SKLEARN_INVERSES:
        raise ValueError(f"the inverse of {name} is not supported; supported are: {', '.join(registry.names())}")
    raise ValueError(
        f"{name} is not supported: it is not known to be continuous and piecewise linear; {WAY_OUT}, or train one from "
        f"the data: reluplan train"
    )


def outputs_of(estimator: Any, inputs: Array) -> Array:
    """What the estimator itself gives for these rows, which have no names of columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = estimator.predict if hasattr(estimator, "predict") else estimator.transform
        result = function(_as_fitted(estimator, inputs))
    result = result.toarray() if hasattr(result, "toarray") else result
    return np.asarray(result, dtype=np.float64).reshape(len(inputs), -1)


def _as_fitted(estimator: Any, inputs: Array) -> Any:
    """A table with named columns if the estimator was fitted to one, by whichever library is there."""
    names: Any = getattr(estimator, "feature_names_in_", None)
    for library in () if names is None else ("pandas", "polars"):
        with suppress(ImportError):
            return import_module(library).DataFrame(dict(zip(names, inputs.T, strict=True)))
    return inputs


def constant(value: Any) -> Affine:
    """Numbers of an estimator; a sparse matrix is written out."""
    size = math.prod(getattr(value, "shape", ()))
    require_size(size)
    dense = value.toarray() if hasattr(value, "toarray") else value
    return Affine.constant(np.asarray(dense, dtype=np.float64))


def columns(tensor: Affine, places: Any) -> Affine:
    """Some of the columns of (1, features): positions, a slice or a mask."""
    return tensor.rearranged(lambda entries: entries[:, places])


def side_by_side(tensors: Iterable[Affine]) -> Affine:
    """All columns in one tensor (1, features)."""
    found = [tensor for tensor in tensors if tensor.size]
    if not found:
        raise ValueError("it gives no output")
    return concatenated(found, 1)
