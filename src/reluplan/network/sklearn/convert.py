"""The front door: what an estimator must be, and a look at the result."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from reluplan.errors import InputError, MissingExtraError
from reluplan.network.affine import Affine
from reluplan.network.builder import NetworkBuilder
from reluplan.network.conversion import require_same
from reluplan.network.relu_network import ReluNetwork
from reluplan.network.sklearn.estimators import applied, outputs_of


def from_sklearn(estimator: Any) -> ReluNetwork:
    """The function of a fitted estimator: what its predict gives, or its transform if it has no predict.

    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> inputs = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0]])
    >>> model = make_pipeline(StandardScaler(), LinearRegression()).fit(inputs, inputs.sum(axis=1))
    >>> from_sklearn(model).forward([4.0, 5.0]).round(9)
    array([9.])

    Pipelines, ColumnTransformers and FeatureUnions of scalers, PCA and feature selectors, linear regressors,
    MLPRegressor with relu or identity, and what combines several of them: `SKLEARN_ESTIMATORS`, to which a user can
    add. Inputs are the features, in their order; outputs the targets.
    """
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise MissingExtraError("scikit-learn", "sklearn", "converting a scikit-learn estimator") from None
    _check_fitted(estimator)
    count = _feature_count(estimator)
    builder = NetworkBuilder(count)
    try:
        with np.errstate(all="ignore"):  # an overflow shows up as infinity, and is reported as such
            network = builder.finish(applied(estimator, Affine.columns(0, (1, count)), builder)).require_moderate()
    except ValueError as error:
        raise InputError(f"{type(estimator).__name__} of scikit-learn: {error}") from None
    return require_same(network, partial(outputs_of, estimator), f"the {type(estimator).__name__}", tolerance=1e-3)


def _check_fitted(estimator: Any) -> None:
    from sklearn.base import BaseEstimator, is_classifier
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    name = type(estimator).__name__
    if not isinstance(estimator, BaseEstimator):
        raise InputError(f"from_sklearn takes an estimator of scikit-learn; this is a {name}")
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise InputError(f"this {name} is not fitted: call its fit first") from None
    except TypeError as error:
        raise InputError(f"{name} cannot be used: {error}") from None
    if is_classifier(estimator):
        raise InputError(f"{name} is a classifier, whose classes jump: give a regressor")


def _feature_count(estimator: Any) -> int:
    try:
        return int(estimator.n_features_in_)
    except AttributeError:
        raise InputError(
            f"this {type(estimator).__name__} does not know its number of features: fit it first"
        ) from None
