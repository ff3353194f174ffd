"""The report on a trained network."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata

import numpy as np
from numpy.typing import NDArray

from reluplan.learning.errors import state_errors
from reluplan.learning.learning_data import LearningData
from reluplan.learning.planning_cost import unstable_in_box
from reluplan.learning.predictor import Predictor, is_rounded
from reluplan.learning.report import LearningCurve, TrainingReport
from reluplan.learning.rollout import RolloutError, drift, rollout_errors
from reluplan.learning.settings import TrainingSettings
from reluplan.learning.trials import SearchReport
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]


def assess(
    network: ReluNetwork,
    data: LearningData,
    settings: TrainingSettings,
    learning: LearningCurve,
    search: SearchReport | None,
    box: tuple[Array, Array],
    variables: Sequence[Variable],
) -> TrainingReport:
    """Judge the network by the test part, and by how many ReLUs a planner would have to branch on in the box."""
    predictor = Predictor(network, data.input_columns, data.output_columns, settings.predicts)
    test = data.transitions.select(data.split.test)
    rounded = is_rounded(variables, data.output_names)
    rollouts = rollout_errors(predictor, test, rounded, settings.rollouts)
    layers = (*network.hidden, network.output)
    return TrainingReport(
        inputs=data.input_names,
        outputs=data.output_names,
        rows={part: len(getattr(data.split, part)) for part in ("training", "validation", "test")},
        dropped=dict(data.transitions.dropped),
        split_by=data.split.by,
        states=state_errors(predictor, data),
        rollouts=rollouts,
        drift=drift(predictor, test, rollouts[-1].steps, rounded) if rollouts else None,
        relus=network.relu_count,
        unstable_relus=unstable_in_box(network, *box),
        weights=sum(layer.weights.size for layer in layers),
        nonzero_weights=sum(int(np.count_nonzero(layer.weights)) for layer in layers),
        learning=learning,
        search=search,
        settings=settings,
        notes=tuple(_notes(data, rollouts, settings.rollouts.horizons)),
        troubles=(),
        versions=_versions(),
        fingerprint=network.fingerprint(),
    )


def _notes(data: LearningData, rollouts: Sequence[RolloutError], horizons: Sequence[int]) -> list[str]:
    """What the reader of the report must know."""
    constant = [
        name for name, is_constant in zip(data.input_names, data.input_scaling.constant, strict=True) if is_constant
    ]
    notes = [f"'{name}' never varies in the data: the network ignores it" for name in constant]
    if not rollouts:
        notes.append(f"no held-out episode has {horizons[0]} consecutive steps: nothing is known about longer rollouts")
    return notes


def _versions() -> dict[str, str]:
    found = {name: metadata.version(name) for name in ("reluplan", "torch", "numpy")}
    return {**found, "python": platform.python_version()}
