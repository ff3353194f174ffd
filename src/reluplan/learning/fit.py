"""The first stage: AdamW on mini-batches."""

from __future__ import annotations

import math

import numpy as np
import torch

from reluplan.learning.course import Course
from reluplan.learning.exchange import exchange_units
from reluplan.learning.settings import FitSettings, TrainingSettings


def fit(
    course: Course, settings: TrainingSettings, rng: np.random.Generator, stage: str = "fit", exchange: bool = False
) -> None:
    """AdamW, its rate falling as a cosine; ends at the best weights, early if nothing gets better."""
    net = course.net
    count = len(course.inputs)
    size = settings.batch_size or _batch_size(count, settings.fitting)
    optimiser = torch.optim.AdamW(
        net.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True
    )
    idle = 0
    for epoch in range(settings.epochs):
        order = torch.from_numpy(rng.permutation(count))
        total = torch.zeros((), dtype=torch.float64)
        for step, rows in enumerate(torch.split(order, size)):
            course.check_time()
            _set_rate(optimiser, settings, (epoch + step * size / count) / settings.epochs)
            optimiser.zero_grad()
            loss = course.objective.loss(net, course.inputs[rows], course.targets[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            net.mask_gradients()
            optimiser.step()
            total += loss.detach() * len(rows)
        idle = 0 if course.record(stage, epoch + 1, float(total) / count) else idle + 1
        if exchange and epoch < settings.exchanging.until * settings.epochs:
            idle = 0  # what was exchanged needs time to pay
            if epoch % settings.exchanging.every == 0:
                exchange_units(net, course.inputs, course.targets, rng, settings.exchanging)
        if idle >= settings.patience:
            break
    course.restore_best()


def _batch_size(count: int, settings: FitSettings) -> int:
    """The power of two that gives about so many steps per epoch, within its limits."""
    exponent = round(math.log2(count / settings.steps_per_epoch))
    return min(max(settings.smallest_batch, int(2.0**exponent)), settings.largest_batch)


def _set_rate(optimiser: torch.optim.Optimizer, settings: TrainingSettings, done: float) -> None:
    """½ (1 + cos π·done) of the learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = settings.learning_rate * 0.5 * (1.0 + math.cos(math.pi * done))
