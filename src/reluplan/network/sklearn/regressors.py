"""Linear models and perceptrons."""

from __future__ import annotations

from typing import Any

import numpy as np

from reluplan.network.affine import LARGEST_TENSOR, Affine, require_size
from reluplan.network.builder import NetworkBuilder
from reluplan.network.conversion import WAY_OUT
from reluplan.network.sklearn.estimators import SKLEARN_ESTIMATORS, Estimator, constant, outputs_of


def _linear(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """x coef' + intercept; one row of coefficients per target."""
    coefficients = model.coef_.toarray() if hasattr(model.coef_, "toarray") else np.asarray(model.coef_)
    return tensor @ constant(np.atleast_2d(coefficients).T) + constant(np.atleast_1d(model.intercept_))


def _linear_kernel(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    if model.kernel != "linear":
        raise ValueError(f"{type(model).__name__} with the kernel {model.kernel} is not piecewise linear; {WAY_OUT}")
    return _linear(model, tensor, builder)


def _by_evaluation(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """An affine model whose numbers stand in no public place: f(x) = f(0) + sum_j x_j (f(e_j) - f(0))."""
    count = tensor.size
    require_size(count * count)
    values = outputs_of(model, np.vstack([np.zeros(count), np.eye(count)]))
    return tensor @ Affine.constant(values[1:] - values[0]) + Affine.constant(values[0])


def _perceptron(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """Layers x W + b, with the activation between them."""
    for activation in (model.activation, model.out_activation_):
        if activation not in ("relu", "identity"):
            raise ValueError(f"the activation {activation} is not piecewise linear; fit with relu, or {WAY_OUT}")
    size = sum(weights.size for weights in model.coefs_)
    if size > LARGEST_TENSOR:
        raise ValueError(f"it has {size:,} weights; at most {LARGEST_TENSOR:,} are read")
    last = len(model.coefs_) - 1
    for index, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        tensor = tensor @ constant(weights) + constant(bias)
        if index < last and model.activation == "relu":
            tensor = builder.relu(tensor)
    return tensor


def _dummy(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    return constant(np.reshape(model.constant_, (1, -1)))


_ESTIMATORS: dict[str, Estimator] = {
    "BaseSGDRegressor": _linear,
    "DummyRegressor": _dummy,
    "FactorAnalysis": _by_evaluation,
    "LinearModel": _linear,
    "MLPRegressor": _perceptron,
    "PLSRegression": _by_evaluation,
    "SVR": _linear_kernel,
}
for _name, _estimator in _ESTIMATORS.items():
    SKLEARN_ESTIMATORS.register(_name, _estimator)
