"""The stages of training: fit, make sparse and fit again, polish."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reluplan.interrupts import interruptible
from reluplan.learning.compact import compact
from reluplan.learning.course import Course, OutOfTime
from reluplan.learning.dense_net import DenseNet
from reluplan.learning.fit import fit
from reluplan.learning.judge import Judge
from reluplan.learning.learning_data import LearningData
from reluplan.learning.objective import Objective
from reluplan.learning.polish import polish
from reluplan.learning.prune import prune_negligible, prune_share
from reluplan.learning.report import CurvePoint, Ending, LearningCurve
from reluplan.learning.scaling import fold
from reluplan.learning.search import Search
from reluplan.learning.settings import TrainingSettings
from reluplan.learning.trials import SearchReport
from reluplan.network.relu_network import ReluNetwork

Array = NDArray[np.float64]


def optimise(
    data: LearningData,
    settings: TrainingSettings,
    box: tuple[Array, Array],
    judge: Judge,
    deadline: float,
    on_progress: Callable[[CurvePoint], Any] | None,
) -> tuple[ReluNetwork, LearningCurve, SearchReport | None]:
    """The best network, of raw values, when the stages are done, the deadline passes or Ctrl-C is pressed."""
    rng = np.random.default_rng(settings.seed)
    ending: Ending = "finished"
    with _reproducible(settings.threads):
        course = _start(data, settings, box, rng)
        course.deadline = deadline
        course.on_progress = on_progress
        search = Search(course, judge, box, settings, rng) if settings.searches else None
        try:
            with interruptible():
                _run(course, settings, rng, search)
        except OutOfTime:
            ending = "time limit"
        except KeyboardInterrupt:
            ending = "interrupted"
        course.restore_best()
        return _outcome(course, data, search, ending)


def _outcome(
    course: Course, data: LearningData, search: Search | None, ending: Ending
) -> tuple[ReluNetwork, LearningCurve, SearchReport | None]:
    """The weights so far, or what the search has chosen among all that it tried."""
    if search is None:
        network = compact(fold(course.net.to_network(), data.input_scaling, data.target_scaling))
        return network, LearningCurve(tuple(course.curve), course.best_entry, ending), None
    if not search.is_complete:
        search.add("full")
    choice = search.choice
    return choice.network, LearningCurve(tuple(course.curve), choice.entry, ending), search.report


@contextmanager
def _reproducible(threads: int) -> Iterator[None]:
    """Fixed threads and deterministic algorithms, for as long as it takes."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def _start(
    data: LearningData, settings: TrainingSettings, box: tuple[Array, Array], rng: np.random.Generator
) -> Course:
    """A random network whose output layer fits the data as well as it can: no worse than linear dynamics."""
    inputs = torch.from_numpy(data.input_scaling.apply(data.inputs))
    targets = torch.from_numpy(data.target_scaling.apply(data.targets))
    training = torch.from_numpy(data.split.training)
    validation = torch.from_numpy(data.split.validation)
    lower, upper = (torch.from_numpy(data.input_scaling.apply(side)) for side in box)
    net = DenseNet.random(inputs.shape[1], settings.layers, targets.shape[1], settings.dense, rng)
    net.ignore_inputs(torch.from_numpy(data.input_scaling.constant))
    net.refit_output(inputs[training], targets[training])
    objective = Objective(0.0, 0.0, lower, upper)
    course = Course(
        net, objective, inputs[training], targets[training], inputs[validation], targets[validation]
    )  # fmt: skip
    course.record("start", 0, course.training_loss())
    return course


def _run(course: Course, settings: TrainingSettings, rng: np.random.Generator, search: Search | None) -> None:
    if search is not None and search.is_linear():
        return
    fit(course, settings, rng, exchange=settings.exchange and len(settings.layers) == 1)
    if settings.sparsity or settings.stability:
        course.objective = dataclasses.replace(
            course.objective, sparsity=settings.sparsity, stability=settings.stability
        )  # fmt: skip
        course.forget_best()
        fit(course, _retraining(settings), rng, "regularise")
    if settings.sparsity:
        course.objective = dataclasses.replace(course.objective, sparsity=0.0)  # the zeros stay; the rest may grow
        prune_negligible(course.net, course.inputs, settings.pruning.negligible)
        _begin_again(course)
    if settings.prune:
        prune_share(course.net, course.inputs, settings.prune)
        _begin_again(course)
        fit(course, _retraining(settings), rng, "retrain")
    polish(course, settings, rng)
    if search is not None:
        search.shrink()


def _begin_again(course: Course) -> None:
    """From pruned weights, with the best output layer for them."""
    course.forget_best()
    course.net.refit_output(course.inputs, course.targets)
    course.record("prune", 0, float("nan"))


def _retraining(settings: TrainingSettings) -> TrainingSettings:
    """Fewer epochs, at a lower rate: most of the work is done."""
    fitting = settings.fitting
    return dataclasses.replace(
        settings,
        epochs=max(1, int(fitting.retraining_share * settings.epochs)),
        learning_rate=settings.learning_rate / fitting.retraining_slowdown,
    )
