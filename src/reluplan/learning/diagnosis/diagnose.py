"""From a poor fit to what it looks like, by measurements on the data.

The order matters, since one trouble looks like another: crashes make everything else uncertain; a column that explains
the errors is more than noise; with too little data, rows are too far apart to tell noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reluplan.learning.diagnosis.noise import irreducible_share, memory
from reluplan.learning.diagnosis.outliers import Outliers, find_outliers
from reluplan.learning.diagnosis.residuals import Residuals
from reluplan.learning.diagnosis.trouble import Kind, Trouble
from reluplan.learning.diagnosis.unread import most_telling
from reluplan.learning.errors import StateError
from reluplan.learning.learning_data import LearningData
from reluplan.learning.predictor import Predictor
from reluplan.learning.settings import DiagnosisSettings
from reluplan.problem.expression import quote

Array = NDArray[np.float64]
LearningCurve = Callable[[], Array]
"""Mean squared errors of each output with all data and with half of them, (2, k), by training a small network again."""


def diagnose(
    data: LearningData,
    predictor: Predictor,
    states: tuple[StateError, ...],
    curve: LearningCurve,
    settings: DiagnosisSettings,
    *,
    finished: bool = True,
) -> tuple[Trouble, ...]:
    """What is wrong with each state whose change is poorly explained, the worst ones first.

    finished: whether the training came to its end; if not, that is the first thing to look at.
    """
    r2 = np.array([np.inf if state.r2_change is None else state.r2_change for state in states])
    poor = [int(at) for at in np.argsort(r2, kind="stable") if r2[at] < settings.poor][: settings.most_states]
    curves: list[Array] = []

    def errors(output: int) -> tuple[float, float]:
        if not curves:
            curves.append(curve())
        return float(curves[0][0, output]), float(curves[0][1, output])

    found = []
    for at in poor:
        one = _Diagnosis(Residuals.of(data, predictor, at), float(r2[at]), data.input_names, settings)
        found.append(one.trouble(partial(errors, at)) if finished else one.unfinished())
    return tuple(found)


class _Diagnosis:
    """Of one predicted state."""

    def __init__(self, found: Residuals, r2: float, inputs: tuple[str, ...], settings: DiagnosisSettings) -> None:
        self._found = found
        self._r2 = r2
        self._inputs = inputs
        self._settings = settings

    def trouble(self, curve: Callable[[], tuple[float, float]]) -> Trouble:
        """The first that is found; curve: squared errors of small networks with all data and with half of them."""
        outliers = find_outliers(self._found, self._settings)
        if outliers is not None:
            return self._outliers(outliers)
        telling = most_telling(self._found, self._inputs)
        if telling is not None and telling[1] >= self._settings.telling:
            return self._missing(*telling)
        full, half = curve()
        missed = float(np.mean(self._found.missed[self._found.held_out] ** 2))
        if full < self._settings.better * missed:
            return self._weak_network(full / missed)
        ratio = half / max(full, 1e-300)
        if ratio >= self._settings.steep or len(self._found.missed) < self._settings.few_rows:
            return self._little_data(ratio)
        share = irreducible_share(self._found, self._settings)
        if share is None or share < self._settings.irreducible:
            return self._small_network(ratio, share)
        lag = memory(self._found)
        return self._hidden(lag) if lag >= self._settings.memory else self._noise(share, lag)

    def unfinished(self) -> Trouble:
        return self._trouble("unfinished", 0.0, "the training was ended before it was done", "give it more time")

    def _trouble(self, kind: Kind, evidence: float, looks: str, advice: str) -> Trouble:
        name = self._found.state
        head = f"the network explains {max(self._r2, 0.0):.0%} of the change of '{name}' (R² {self._r2:.3f})"
        return Trouble(name, self._r2, kind, evidence, f"{head}: {looks}. To do: {advice}")

    def _outliers(self, outliers: Outliers) -> Trouble:
        name = self._found.state
        ends = f", {outliers.at_ends} of them at the end of an episode" if outliers.at_ends else ""
        current, after = quote(name), f"{quote(name)}'"
        limit = outliers.threshold
        advice = "if these are crashes or resets, leave them out by --drop-if; no size of the change tells them apart"
        if limit is not None:
            advice = (
                f'if these are crashes or resets, leave them out by --drop-if "abs({after} - {current}) > {limit:g}"'
            )
        return self._trouble(
            "outliers", outliers.error_share,
            f"{_rows(outliers.rows)} unlike all others hold{'s' * (outliers.rows == 1)} {outliers.error_share:.0%} of "
            f"the squared error{ends}", advice,
        )  # fmt: skip

    def _missing(self, column: str, share: float) -> Trouble:
        what = (
            "the step within the episode"
            if column == "step"
            else f"the column '{column}', which the network does not read,"
        )
        advice = (
            "make time, or what changes with it, a state"
            if column == "step"
            else ("if it is known before the step, declare it and add it to network.inputs")
        )
        return self._trouble("missing input", share, f"{what} explains {share:.0%} of the error", advice)

    def _little_data(self, ratio: float) -> Trouble:
        looks = f"{len(self._found.missed)} rows are few"
        if ratio >= self._settings.steep:
            looks = (
                f"with half of the data the squared error is {ratio:.1f} times as large, so it still falls with more"
            )
        return self._trouble("little data", ratio, looks, "collect more data (collect --exploration latin covers best)")

    def _hidden(self, lag: float) -> Trouble:
        return self._trouble(
            "hidden state", lag,
            f"errors of consecutive steps are alike (correlation {lag:.2f}), and rows alike in all inputs change "
            "differently: something that lasts is missing",
            "add what was not recorded (a speed, a load, the weather), or values of the step before, as states",
        )  # fmt: skip

    def _noise(self, share: float, lag: float) -> Trouble:
        share = min(share, 1.0)
        looks = f"rows that are alike in all inputs change differently, so that {share:.0%} of the error is noise"
        advice = (
            "plan anew at every step (control) and check plans with --repeat; no network of these inputs does better"
        )
        if lag <= -self._settings.memory:
            looks += f"; errors alternate (correlation {lag:.2f}), as sensor noise does"
            advice = "filter the measurements"
        return self._trouble("noise", share, looks, advice)

    def _weak_network(self, share: float) -> Trouble:
        units = " + ".join(map(str, self._settings.hidden))
        return self._trouble(
            "small network", share,
            f"a network of {units} units that is trained for a few seconds has {share:.0%} of this squared error",
            "leave out --hidden, or use more units, more --epochs or a smaller --learning-rate",
        )  # fmt: skip

    def _small_network(self, ratio: float, share: float | None) -> Trouble:
        reasons = []
        if not math.isnan(ratio):
            reasons.append(f"more data would hardly help (with half of them, the squared error is {ratio:.1f} times)")
        if share is not None:
            reasons.append(f"rows that are alike change alike (noise is {share:.0%} of the error)")
        return self._trouble(
            "small network", 0.0 if share is None else share,
            " and ".join(reasons) or "neither crashes nor an unread column explain it",
            "try more units or layers (--hidden 64 64 --search) or more --epochs",
        )  # fmt: skip


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
