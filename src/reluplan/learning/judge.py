"""Whether one network is as good as another, by validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions, follows_previous
from reluplan.learning.learning_data import LearningData
from reluplan.learning.predictor import Predictor, is_rounded
from reluplan.learning.rollout import roll_out
from reluplan.learning.settings import Predicts, SearchSettings, TrainingSettings
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scores:
    """Squared errors in units of the variance of the change: of single steps (N, k), and means of rollouts (W, k)."""

    steps: Array
    rollouts: Array

    @property
    def error(self) -> float:
        """The mean over rows and outputs, what training minimises."""
        return float(self.steps.mean())


@dataclass(frozen=True, eq=False)
class Judge:
    """Compares networks on the validation part.

    runs: the number of the run of consecutive rows that each row belongs to. rounded: outputs that are whole numbers.
    """

    data: LearningData
    validation: Transitions
    runs: Index
    rounded: NDArray[np.bool_]
    predicts: Predicts
    settings: SearchSettings

    @classmethod
    def of(cls, data: LearningData, variables: Sequence[Variable], settings: TrainingSettings) -> Judge:
        validation = data.transitions.select(data.split.validation)
        rounded = is_rounded(variables, data.output_names)
        runs = consecutive_runs(validation, settings.searching.run)
        return cls(data, validation, runs, rounded, settings.predicts, settings.searching)

    def scores(self, network: ReluNetwork) -> Scores:
        """How far the network, of raw values, is off."""
        data = self.data
        predictor = Predictor(network, data.input_columns, data.output_columns, self.predicts)
        after = self.validation.next_states[:, data.output_columns]
        with np.errstate(over="ignore", invalid="ignore"):  # a rollout may run away
            steps = predictor.next_values(self.validation.states, self.validation.actions) - after
            rollouts = roll_out(predictor, self.validation, self.settings.horizon, self.rounded)
            scale = data.target_scaling.scale
            return Scores((steps / scale) ** 2, np.mean((rollouts / scale) ** 2, axis=1))

    def is_negligible(self, scores: Scores) -> bool:
        """Whether the errors of every output are too small to matter."""
        return bool((scores.steps.mean(axis=0) <= self.settings.negligible).all())

    def as_good(self, scores: Scores, best: Scores) -> bool:
        """Whether errors exceed the best ones by too little to tell and to mind, or to matter at all, for every output.

        The excess of an output's mean squared error may be max(negligible, min(standard errors, share of the best)).
        With noise, the standard error of the difference is what guards a small effect; with few rows, the share is.
        """
        windows = np.arange(len(scores.rollouts))
        horizon = self.settings.horizon
        growth = (horizon + 1) * (2 * horizon + 1) / 6.0  # the mean of t²: what a bias of one step becomes
        return self._within(scores.steps, best.steps, self.runs, 1.0) and self._within(
            scores.rollouts, best.rollouts, windows, growth
        )

    def _within(self, errors: Array, best: Array, groups: Index, growth: float) -> bool:
        if not len(errors):
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            difference = errors - best
            excess = difference.mean(axis=0)
            limit = np.minimum(
                self.settings.standard_errors * standard_error(difference, groups),
                self.settings.excess * best.mean(axis=0),
            )
            within = excess <= np.maximum(limit, self.settings.negligible * growth)
        return bool((within | ~np.isfinite(best.mean(axis=0))).all())  # where the best runs away, anything is as good


def standard_error(values: Array, groups: Index) -> Array:
    """Of the mean of each column, shape (k,), where rows of one group depend on each other.

    sqrt(G/(G − 1) Σ_g (Σ_{i in g} (v_i − mean))²) / N; 0 with a single group, which cannot tell: nothing is excused.
    """
    count = int(groups.max()) + 1
    if count < 2:
        return np.zeros(values.shape[1])
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, groups, values - values.mean(axis=0))
    return np.asarray(np.sqrt(count / (count - 1) * np.sum(sums**2, axis=0)) / len(values))


def consecutive_runs(transitions: Transitions, length: int) -> Index:
    """The number 0, 1, ... of the run of at most `length` rows that follow each other, for each row."""
    begins = ~follows_previous(transitions)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))
    begins |= (np.arange(len(begins)) - first) % length == 0
    return np.asarray(np.cumsum(begins) - 1)
