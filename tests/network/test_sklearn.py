"""scikit-learn estimators: the converted network against predict or transform."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reluplan
from reluplan.errors import InputError, MissingExtraError
from reluplan.network.affine import Affine
from reluplan.network.relu_network import Array, ReluNetwork
from reluplan.network.sklearn import SKLEARN_ESTIMATORS, from_sklearn

pytest.importorskip("sklearn", reason="scikit-learn is an optional package")

from sklearn import (
    compose,
    decomposition,
    dummy,
    ensemble,
    feature_selection,
    impute,
    linear_model,
    multioutput,
    neural_network,
    pipeline,
    preprocessing,
    random_projection,
    svm,
)
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cross_decomposition import PLSRegression
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

FEATURES = np.random.default_rng(0).normal(size=(60, 5)) * [1.0, 3.0, 0.2, 10.0, 1.0] + [0.0, 5.0, -1.0, 2.0, 0.0]
TARGETS = FEATURES @ np.random.default_rng(1).normal(size=(5, 3)) + np.abs(FEATURES[:, :3])


def perceptron(**options: Any) -> Any:
    return neural_network.MLPRegressor(hidden_layer_sizes=(8, 6), max_iter=5, random_state=0, **options)


def outputs(model: Any, features: Array) -> Array:
    result = model.predict(features) if hasattr(model, "predict") else model.transform(features)
    return np.asarray(result).reshape(len(features), -1)


def largest_error(model: Any, network: ReluNetwork, scale: float = 2.0) -> float:
    """At points around the data, relative to the largest output."""
    features = FEATURES.mean(axis=0) + scale * np.random.default_rng(2).normal(size=(40, 5)) * FEATURES.std(axis=0)
    expected = outputs(model, features)
    return float(np.abs(network.forward(features) - expected).max() / (1.0 + np.abs(expected).max()))


SCALERS: dict[str, Callable[[], Any]] = {
    "StandardScaler": preprocessing.StandardScaler,
    "StandardScaler without mean": lambda: preprocessing.StandardScaler(with_mean=False),
    "StandardScaler without scale": lambda: preprocessing.StandardScaler(with_std=False),
    "MinMaxScaler": lambda: preprocessing.MinMaxScaler((-1, 2)),
    "MinMaxScaler that clips": lambda: preprocessing.MinMaxScaler((-1, 2), clip=True),
    "MaxAbsScaler": preprocessing.MaxAbsScaler,
    "RobustScaler": preprocessing.RobustScaler,
    "PCA": lambda: decomposition.PCA(3),
    "PCA that whitens": lambda: decomposition.PCA(3, whiten=True),
    "IncrementalPCA": lambda: decomposition.IncrementalPCA(3),
    "TruncatedSVD": lambda: decomposition.TruncatedSVD(3, random_state=0),
    "FastICA": lambda: decomposition.FastICA(3, random_state=0, tol=0.1),
    "FactorAnalysis": lambda: decomposition.FactorAnalysis(2),
    "random projection": lambda: random_projection.SparseRandomProjection(3, random_state=0),
    "VarianceThreshold": lambda: feature_selection.VarianceThreshold(0.5),
    "SelectKBest": lambda: feature_selection.SelectKBest(feature_selection.f_regression, k=2),
    "PolynomialFeatures": lambda: preprocessing.PolynomialFeatures(1),
    "FunctionTransformer": preprocessing.FunctionTransformer,
    "SimpleImputer": impute.SimpleImputer,
    "FeatureUnion": lambda: pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)),
    "ColumnTransformer": lambda: compose.ColumnTransformer(
        [
            ("scaled", preprocessing.StandardScaler(), [3, 0]),
            ("kept", "passthrough", slice(1, 2)),
            ("gone", "drop", [2]),
            ("clipped", preprocessing.MinMaxScaler(clip=True), [False, True, False, False, True]),
        ]
    ),
    "ColumnTransformer with a rest": lambda: compose.ColumnTransformer(
        [("scaled", preprocessing.StandardScaler(), [3])], remainder=preprocessing.MaxAbsScaler()
    ),
}


@pytest.mark.parametrize("build", SCALERS.values(), ids=SCALERS.keys())
def test_transformers(build: Callable[[], Any]) -> None:
    model = build().fit(FEATURES, TARGETS[:, 0])
    assert largest_error(model, from_sklearn(model)) < 1e-13


def standardised(model: Any) -> Any:
    return pipeline.make_pipeline(preprocessing.StandardScaler(), model)


REGRESSORS: dict[str, Callable[[], Any]] = {
    "LinearRegression": linear_model.LinearRegression,
    "Ridge": linear_model.Ridge,
    "Lasso": linear_model.Lasso,
    "ElasticNet": lambda: linear_model.ElasticNet(fit_intercept=False),
    "BayesianRidge": linear_model.BayesianRidge,
    "HuberRegressor": linear_model.HuberRegressor,
    "SGDRegressor": lambda: standardised(linear_model.SGDRegressor(random_state=0)),
    "LinearSVR": lambda: svm.LinearSVR(random_state=0, max_iter=100000),
    "SVR, linear": lambda: svm.SVR(kernel="linear"),
    "RANSAC": lambda: linear_model.RANSACRegressor(random_state=0),
    "DummyRegressor": dummy.DummyRegressor,
    "MLPRegressor": lambda: standardised(perceptron()),
    "MLPRegressor, identity": lambda: standardised(perceptron(activation="identity")),
    "pipeline": lambda: pipeline.make_pipeline(
        preprocessing.MinMaxScaler(clip=True), "passthrough", decomposition.PCA(3, whiten=True), perceptron()
    ),
    "TransformedTargetRegressor": lambda: compose.TransformedTargetRegressor(
        standardised(perceptron()), transformer=preprocessing.StandardScaler()
    ),
    "target without a transformer": lambda: compose.TransformedTargetRegressor(linear_model.Ridge()),
    "target through a pipeline": lambda: compose.TransformedTargetRegressor(
        linear_model.Ridge(),
        transformer=pipeline.make_pipeline(preprocessing.RobustScaler(), preprocessing.MinMaxScaler()),
    ),
    "VotingRegressor": lambda: ensemble.VotingRegressor(
        [("a", linear_model.Ridge()), ("b", perceptron()), ("c", "drop")], weights=[1, 3, 5]
    ),
    "BaggingRegressor": lambda: ensemble.BaggingRegressor(perceptron(), 3, max_features=0.6, random_state=0),
    "GridSearchCV": lambda: GridSearchCV(linear_model.Ridge(), {"alpha": [0.1, 1.0]}, cv=2),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("build", REGRESSORS.values(), ids=REGRESSORS.keys())
def test_regressors_of_one_target(build: Callable[[], Any]) -> None:
    model = build().fit(FEATURES, TARGETS[:, 0])
    network = from_sklearn(model)
    assert network.output_count == 1
    assert largest_error(model, network) < 1e-13


SEVERAL: dict[str, Callable[[], Any]] = {
    "LinearRegression": linear_model.LinearRegression,
    "MLPRegressor": lambda: standardised(perceptron()),
    "PLSRegression": PLSRegression,
    "MultiOutputRegressor": lambda: multioutput.MultiOutputRegressor(perceptron()),
    "RegressorChain": lambda: multioutput.RegressorChain(perceptron(), order=[2, 0, 1]),
    "TransformedTargetRegressor": lambda: compose.TransformedTargetRegressor(
        perceptron(), transformer=decomposition.PCA(whiten=True)
    ),
    "DummyRegressor": lambda: dummy.DummyRegressor(strategy="median"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("build", SEVERAL.values(), ids=SEVERAL.keys())
def test_regressors_of_several_targets(build: Callable[[], Any]) -> None:
    model = build().fit(FEATURES, TARGETS)
    network = from_sklearn(model)
    assert network.output_count == 3
    assert largest_error(model, network) < 1e-13


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_single_precision_is_converted_exactly() -> None:
    model = perceptron().fit(FEATURES.astype(np.float32), TARGETS.astype(np.float32))
    assert model.coefs_[0].dtype == np.float32
    assert np.array_equal(from_sklearn(model).hidden[0].weights, model.coefs_[0].T.astype(np.float64))


STEPS: list[Callable[[], Any]] = [
    preprocessing.StandardScaler,
    preprocessing.RobustScaler,
    preprocessing.MaxAbsScaler,
    lambda: preprocessing.MinMaxScaler((-1, 2), clip=True),
    lambda: decomposition.PCA(0.99, whiten=True),
    lambda: preprocessing.PolynomialFeatures(1),
    lambda: feature_selection.SelectPercentile(feature_selection.f_regression, percentile=80),
    lambda: pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(1)),
    lambda: compose.ColumnTransformer([("a", preprocessing.RobustScaler(), [0])], remainder="passthrough"),
]


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=20)
@given(st.lists(st.integers(0, len(STEPS) - 1), max_size=4), st.booleans(), st.integers(0, 100))
def test_pipelines_composed_at_random(steps: list[int], deep: bool, seed: int) -> None:
    last = perceptron().set_params(random_state=seed) if deep else linear_model.Ridge()
    model = pipeline.make_pipeline(*(STEPS[step]() for step in steps), last).fit(FEATURES, TARGETS[:, 0])
    assert largest_error(model, from_sklearn(model)) < 1e-12


class Doubling(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    def fit(self, features: Array, targets: Any = None) -> Doubling:
        self.n_features_in_ = features.shape[1]
        return self

    def transform(self, features: Array) -> Array:
        return 2.0 * features


class Louder(preprocessing.StandardScaler):  # type: ignore[misc]
    def transform(self, features: Array, copy: Any = None) -> Array:
        result: Array = 3.0 * super().transform(features)
        return result


def with_nan() -> Any:
    model = linear_model.Ridge().fit(FEATURES, TARGETS)
    model.coef_[0, 0] = np.nan
    return model


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no estimator": (lambda: 3, "is a int"),
    "not fitted": (lambda: standardised(linear_model.Ridge()), "this Pipeline is not fitted"),
    "class": (lambda: linear_model.Ridge, "takes an estimator|cannot be used"),
    "classifier": (
        lambda: linear_model.LogisticRegression().fit(FEATURES, FEATURES[:, 0] > 0),
        "LogisticRegression is a classifier",
    ),
    "tanh": (
        lambda: standardised(perceptron(activation="tanh")).fit(FEATURES, TARGETS),
        "activation tanh is not piecewise linear; fit with relu, or .* reluplan distil",
    ),
    "kernel": (lambda: svm.SVR().fit(FEATURES, TARGETS[:, 0]), "SVR with the kernel rbf"),
    "kernel ridge": (lambda: KernelRidge().fit(FEATURES, TARGETS), "KernelRidge is not supported"),
    "trees": (lambda: ensemble.RandomForestRegressor(3).fit(FEATURES, TARGETS), "RandomForestRegressor is not supp"),
    "Poisson": (
        lambda: linear_model.PoissonRegressor().fit(FEATURES, np.abs(TARGETS[:, 0])),
        "PoissonRegressor is not supported",
    ),
    "products": (lambda: preprocessing.PolynomialFeatures(2).fit(FEATURES), "degree 2 multiplies"),
    "function": (lambda: preprocessing.FunctionTransformer(np.log).fit(FEATURES), "FunctionTransformer of log"),
    "inside a pipeline": (
        lambda: pipeline.make_pipeline(preprocessing.PowerTransformer(), linear_model.Ridge()).fit(FEATURES, TARGETS),
        "PowerTransformer is not supported",
    ),
    "inverse": (
        lambda: compose.TransformedTargetRegressor(
            linear_model.Ridge(), transformer=preprocessing.PowerTransformer()
        ).fit(FEATURES, TARGETS),
        "the inverse of PowerTransformer is not supported; supported are: .*StandardScaler",
    ),
    "class of the user's": (lambda: Doubling().fit(FEATURES), "Doubling is not supported"),
    "subclass that does more": (lambda: Louder().fit(FEATURES), "the Louder gives other outputs"),
    "nan": (with_nan, "Ridge has a number that is NaN"),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("build", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refusals_say_what_and_why_in_one_line(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        from_sklearn(build())
    assert "\n" not in str(caught.value)


def test_an_estimator_is_added_without_a_fork() -> None:
    model = pipeline.make_pipeline(Doubling(), linear_model.Ridge()).fit(FEATURES, TARGETS)
    SKLEARN_ESTIMATORS.register("Doubling", lambda step, tensor, builder: tensor * Affine.constant(2.0))
    try:
        assert largest_error(model, from_sklearn(model)) < 1e-13
    finally:
        SKLEARN_ESTIMATORS.remove("Doubling")


def test_without_scikit_learn_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'reluplan\[sklearn\]'"):
        from_sklearn(None)


def test_public_name() -> None:
    assert reluplan.from_sklearn is from_sklearn
