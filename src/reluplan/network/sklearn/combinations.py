"""Estimators made of others: one after another, side by side, or their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reluplan.network.affine import Affine
from reluplan.network.builder import NetworkBuilder
from reluplan.network.relu_network import Array
from reluplan.network.sklearn.estimators import (
    SKLEARN_ESTIMATORS,
    SKLEARN_INVERSES,
    Estimator,
    applied,
    columns,
    constant,
    inverted,
    side_by_side,
)


def _pipeline(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    for _, step in model.steps:
        tensor = tensor if step is None or step == "passthrough" else applied(step, tensor, builder)
    return tensor


def _pipeline_inverse(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    for _, step in reversed(model.steps):
        tensor = tensor if step is None or step == "passthrough" else inverted(step, tensor, builder)
    return tensor


def _column_transformer(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """What each transformer makes of its columns, side by side."""
    parts = []
    weights = model.transformer_weights or {}
    for name, step, chosen in model.transformers_:
        part = columns(tensor, _places(model, chosen))
        if not part.size or (isinstance(step, str) and step == "drop"):
            continue
        made = part if isinstance(step, str) else applied(step, part, builder)
        parts.append(made * constant(weights.get(name, 1.0)))
    return side_by_side(parts)


def _places(model: Any, chosen: Any) -> list[int]:
    """Positions of columns that are chosen by name, position, slice or mask."""
    names = [str(name) for name in getattr(model, "feature_names_in_", [])]
    everywhere = list(range(model.n_features_in_))
    if isinstance(chosen, slice):
        start, stop = (names.index(end) if isinstance(end, str) else end for end in (chosen.start, chosen.stop))
        last = stop + 1 if isinstance(chosen.stop, str) else stop  # a slice of names has its last one too
        return everywhere[start : last : chosen.step]
    listed = [chosen] if isinstance(chosen, (str, int)) else list(chosen)
    if _is_mask(listed):
        return [place for place, is_chosen in enumerate(listed) if is_chosen]
    return [names.index(column) if isinstance(column, str) else everywhere[column] for column in listed]


def _is_mask(columns: Sequence[Any]) -> bool:
    return bool(columns) and all(isinstance(column, (bool, np.bool_)) for column in columns)


def _union(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    weights = model.transformer_weights or {}
    return side_by_side(
        (tensor if step == "passthrough" else applied(step, tensor, builder)) * constant(weights.get(name, 1.0))
        for name, step in model.transformer_list
        if not (isinstance(step, str) and step == "drop")
    )


def _each_target(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    return side_by_side(applied(part, tensor, builder) for part in model.estimators_)


def _chain(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """Each regressor reads the features and the predictions before it; these come in another order than the targets."""
    predictions: list[Affine] = []
    for part in model.estimators_:
        predictions.append(applied(part, side_by_side([tensor, *predictions]), builder))
    return columns(side_by_side(predictions), np.argsort(model.order_))


def _vote(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """The mean, weighted on request."""
    shares = np.ones(len(model.estimators_)) if model._weights_not_none is None else np.array(model._weights_not_none)
    return _mean(model, [applied(part, tensor, builder) for part in model.estimators_], shares)


def _bag(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    parts = zip(model.estimators_, model.estimators_features_, strict=True)
    outputs = [applied(part, columns(tensor, features), builder) for part, features in parts]
    return _mean(model, outputs, np.ones(len(outputs)))


def _mean(model: Any, outputs: Sequence[Affine], shares: Array) -> Affine:
    terms = [output * constant(share / shares.sum()) for output, share in zip(outputs, shares, strict=True)]
    return sum(terms[1:], start=terms[0])


def _transformed_target(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    return inverted(model.transformer_, applied(model.regressor_, tensor, builder), builder)


def _searched(model: Any, tensor: Affine, builder: NetworkBuilder) -> Affine:
    """The best estimator of a search over settings, or of a consensus."""
    return applied(model.best_estimator_ if hasattr(model, "best_estimator_") else model.estimator_, tensor, builder)


_ESTIMATORS: dict[str, Estimator] = {
    "BaggingRegressor": _bag,
    "BaseSearchCV": _searched,
    "ColumnTransformer": _column_transformer,
    "FeatureUnion": _union,
    "MultiOutputRegressor": _each_target,
    "Pipeline": _pipeline,
    "RANSACRegressor": _searched,
    "RegressorChain": _chain,
    "TransformedTargetRegressor": _transformed_target,
    "VotingRegressor": _vote,
}
_INVERSES: dict[str, Estimator] = {
    "Pipeline": _pipeline_inverse,
}
for _name, _estimator in _ESTIMATORS.items():
    SKLEARN_ESTIMATORS.register(_name, _estimator)
for _name, _estimator in _INVERSES.items():
    SKLEARN_INVERSES.register(_name, _estimator)
