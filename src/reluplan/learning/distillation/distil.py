"""Distilling, top to bottom: samples, training, errors and where they are worst, rollouts, report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.data.transitions import Transitions
from reluplan.learning.distillation.names import Names
from reluplan.learning.distillation.region import Points, Region
from reluplan.learning.distillation.report import DistilReport, DistilResult, OutputDistance
from reluplan.learning.distillation.rollout import compare_rollouts
from reluplan.learning.distillation.settings import DistilSettings
from reluplan.learning.distillation.teacher import Teacher
from reluplan.learning.distillation.worst_case import AscentSettings, worst_points
from reluplan.learning.report import CurvePoint
from reluplan.learning.settings import Predicts, TrainingSettings
from reluplan.learning.train import train
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
SOME = 500
"""Points that the teacher is asked about at a time."""


def distil(
    teacher: Teacher,
    names: Names,
    region: Region,
    training: TrainingSettings,
    settings: DistilSettings,
    *,
    as_problem: Callable[[ReluNetwork], Problem] | None = None,
    deadline: float = math.inf,
    on_progress: Callable[[CurvePoint], Any] | None = None,
) -> DistilResult:
    """A ReLU network that is like the teacher over a region of inputs: samples of it are learned as transitions are.

    as_problem: the problem with a network in it, to compare rollouts. deadline: of clock.now; after it, or at Ctrl-C,
    the best weights so far are the result, judged like any other.
    """
    began = clock.now()
    rng = np.random.default_rng(training.seed)
    points, targets = _taught(teacher, region.draw(settings.samples, rng), _share(deadline, settings.teaching_share))
    data = sampled_transitions(names, points.values, targets, training.predicts)
    result = train(
        data, names.inputs, names.outputs, training,
        variables=region.variables, deadline=deadline, on_progress=on_progress,
    )  # fmt: skip
    until = max(deadline, clock.now() + settings.judging_seconds)
    judged, taught = _taught(teacher, region.draw(settings.judging, rng), _share(until, 0.5))
    outputs = _distances(result.network, teacher, names, judged, taught, region, rng, settings.ascent, until)
    learned = result.report
    report = DistilReport(
        teacher=str(teacher.path),
        inputs=names.inputs,
        region="box" if region.rows is None else "data",
        samples=len(points),
        judged=len(judged),
        outputs=outputs,
        rollouts=()
        if as_problem is None
        else compare_rollouts(as_problem(result.network), teacher, names, training.predicts, region, rng, settings),
        ending=learned.learning.ending,
        relus=learned.relus,
        unstable_relus=learned.unstable_relus,
        weights=learned.weights,
        nonzero_weights=learned.nonzero_weights,
        seconds=clock.now() - began,
        training=training,
        settings=settings,
        notes=tuple(_notes(outputs, settings)),
        versions=learned.versions,
        fingerprint=learned.fingerprint,
    )
    return DistilResult(result.network, report)


def sampled_transitions(names: Names, points: Array, targets: Array, predicts: Predicts) -> Transitions:
    """Samples as transitions, each an episode of its own; a state that is no input counts as zero.

    points (N, inputs), targets (N, outputs): what the network is to make of them.
    """
    states = tuple(dict.fromkeys(name for name in (*names.inputs, *names.outputs) if name in names.states))
    actions = tuple(name for name in names.inputs if name not in names.states)
    columns = dict(zip(names.inputs, points.T, strict=True))
    nothing = np.zeros((len(points), 0))
    before = np.column_stack([columns.get(name, np.zeros(len(points))) for name in states])
    after = before.copy()
    places = [states.index(name) for name in names.outputs]
    after[:, places] = targets + before[:, places] if predicts == "delta" else targets
    acted = np.column_stack([nothing, *(columns[name] for name in actions)])
    episode = np.arange(len(points))
    return Transitions(states, actions, episode, np.zeros_like(episode), before, acted, after)


def _share(deadline: float, share: float) -> float:
    """The moment when this share of the time that is left is used up."""
    now = clock.now()
    return now + share * max(0.0, deadline - now)


def _taught(teacher: Teacher, points: Points, deadline: float) -> tuple[Points, Array]:
    """The points with what the teacher says, as many as it has time for, SOME at least."""
    parts: list[Array] = []
    count = 0
    while count < len(points) and (count < SOME or clock.now() <= deadline):
        parts.append(teacher(points.values[count : count + SOME]))
        count += len(parts[-1])
    return points.select(np.arange(count)), np.concatenate(parts)


def _notes(outputs: Sequence[OutputDistance], settings: DistilSettings) -> Iterator[str]:
    """What the reader of the report must know."""
    far = [output.name for output in outputs if output.percentile_99 > settings.far * max(output.spread, 1e-300)]
    if far:
        yield (
            f"{', '.join(map(repr, far))}: one error in a hundred is above {settings.far:.0%} of the spread; take more "
            "units (--hidden), more samples or narrower bounds"
        )


def _distances(
    network: ReluNetwork,
    teacher: Teacher,
    names: Names,
    fresh: Points,
    taught: Array,
    region: Region,
    rng: np.random.Generator,
    ascent: AscentSettings,
    deadline: float,
) -> tuple[OutputDistance, ...]:
    """Errors at points that it has never seen, and the worst that ascent finds from them, output by output."""

    def error(points: Array) -> Array:
        return np.asarray(network.forward(points) - teacher(points))

    sizes = np.abs(network.forward(fresh.values) - taught)
    found = []
    for output, name in enumerate(names.outputs):
        worst, heights = worst_points(error, fresh, sizes[:, output], output, region, rng, ascent, deadline)
        point = worst.values[:1]
        found.append(
            OutputDistance(
                name=name,
                mean=float(sizes[:, output].mean()),
                percentile_99=float(np.quantile(sizes[:, output], 0.99)),
                sampled_worst=float(sizes[:, output].max()),
                worst=float(heights[0]),
                worst_at=dict(zip(names.inputs, point[0].tolist(), strict=True)),
                teacher_there=float(teacher(point)[0, output]),
                student_there=float(network.forward(point)[0, output]),
                spread=float(taught[:, output].std()),
            )
        )
    return tuple(found)
