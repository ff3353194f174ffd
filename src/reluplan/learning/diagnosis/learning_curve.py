"""Whether more data would help: training again, with half of them."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.learning.judge import Judge
from reluplan.learning.learning_data import LearningData
from reluplan.learning.predictor import Predictor
from reluplan.learning.settings import TrainingSettings
from reluplan.learning.stages import optimise

Array = NDArray[np.float64]


def learning_curve(
    data: LearningData, settings: TrainingSettings, box: tuple[Array, Array], judge: Judge, deadline: float
) -> Array:
    """Mean squared errors of each output on held-out rows, learned from all other rows and from half of them, (2, k).

    Whole episodes make a half; the mean over both halves. The networks are small and trained briefly, all alike. Not a
    number if the time is up before that.
    """
    brief = dataclasses.replace(
        settings, hidden=settings.diagnosing.hidden, search=False, epochs=settings.diagnosing.epochs,
        polish=settings.diagnosing.polish, prune=0.0, sparsity=0.0, stability=0.0,
    )  # fmt: skip
    training = data.split.training
    episodes = np.unique(data.transitions.episode[training])
    first = np.isin(data.transitions.episode[training], np.random.default_rng(0).permutation(episodes)[::2])
    if len(episodes) < settings.splitting.fewest_episodes:
        first = np.arange(len(training)) * 2 < len(training)
    errors = [
        _errors(data, rows, brief, box, judge, deadline) for rows in (training, training[first], training[~first])
    ]
    if clock.now() > deadline:
        return np.full((2, len(errors[0])), np.nan)
    return np.stack([errors[0], (errors[1] + errors[2]) / 2.0])


def _errors(
    data: LearningData, training: NDArray[np.int64], settings: TrainingSettings, box: tuple[Array, Array], judge: Judge,
    deadline: float,
) -> Array:  # fmt: skip
    """Mean squared errors on the validation and test parts of a network that learned from some rows."""
    part = dataclasses.replace(data, split=dataclasses.replace(data.split, training=training))
    network = optimise(part, settings, box, judge, deadline, None)[0]
    test = data.transitions.select(np.concatenate([data.split.validation, data.split.test]))
    predictor = Predictor(network, data.input_columns, data.output_columns, settings.predicts)
    missed = predictor.next_values(test.states, test.actions) - test.next_states[:, data.output_columns]
    return np.asarray(np.mean(missed**2, axis=0))
