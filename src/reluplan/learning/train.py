"""Training, top to bottom: data, stages, network, report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.errors import MissingExtraError
from reluplan.learning.assess import assess
from reluplan.learning.diagnosis.diagnose import diagnose
from reluplan.learning.judge import Judge
from reluplan.learning.learning_data import input_box, learning_data
from reluplan.learning.predictor import Predictor
from reluplan.learning.report import CurvePoint, TrainingResult
from reluplan.learning.settings import TrainingSettings
from reluplan.problem.problem import Variable

Array = NDArray[np.float64]


def train(
    transitions: Transitions,
    inputs: Sequence[str],
    outputs: Sequence[str],
    settings: TrainingSettings | None = None,
    *,
    variables: Sequence[Variable] = (),
    deadline: float = math.inf,
    on_progress: Callable[[CurvePoint], Any] | None = None,
) -> TrainingResult:
    """Fit a network f(inputs) = outputs to transitions; raw physical values go in and come out.

    inputs: names of states and actions, in the network's order. outputs: names of the states it predicts.
    variables: declared bounds (what `stability` and the count of unstable ReLUs are about) and whole-number states.
    deadline: of clock.now. After it, or at Ctrl-C, the best network so far is returned; the report says so.

    >>> import numpy as np
    >>> from reluplan.data import Transitions
    >>> rng = np.random.default_rng(0)
    >>> level, pump = rng.uniform(0, 10, (500, 1)), rng.uniform(0, 3, (500, 1))
    >>> after = np.maximum(level - 1, 0) + pump
    >>> data = Transitions(("level",), ("pump",), np.zeros(500, int), np.arange(500), level, pump, after)
    >>> result = train(data, ["level", "pump"], ["level"], TrainingSettings(hidden=(4,), epochs=50))
    >>> result.report.states[0].r2_change > 0.999
    True
    >>> result.network.forward([[5.0, 2.0]]).round(2)
    array([[6.]])
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "train", "training a network")
    from reluplan.learning.diagnosis.learning_curve import learning_curve
    from reluplan.learning.stages import optimise

    settings = settings or TrainingSettings()
    data = learning_data(transitions, inputs, outputs, settings)
    box = input_box(data, variables)
    judge = Judge.of(data, variables, settings)
    network, learning, search = optimise(data, settings, box, judge, deadline, on_progress)
    report = assess(network, data, settings, learning, search, box, variables)
    predictor = Predictor(network, data.input_columns, data.output_columns, settings.predicts)

    def curve() -> Array:
        return learning_curve(data, settings, box, judge, deadline)

    finished = learning.ending == "finished"
    troubles = diagnose(data, predictor, report.states, curve, settings.diagnosing, finished=finished)
    return TrainingResult(network, replace(report, troubles=troubles))
