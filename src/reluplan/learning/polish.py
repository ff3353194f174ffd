"""The last stage: L-BFGS on all rows at once."""

from __future__ import annotations

import numpy as np
import torch

from reluplan.learning.course import Course
from reluplan.learning.settings import TrainingSettings


def polish(course: Course, settings: TrainingSettings, rng: np.random.Generator, stage: str = "polish") -> None:
    """Quasi-Newton steps to the bottom of the valley that the mini-batches found."""
    chosen = settings.polishing
    net, inputs, targets = course.net, course.inputs, course.targets
    if len(inputs) > chosen.most_rows:
        rows = torch.from_numpy(np.sort(rng.choice(len(inputs), chosen.most_rows, replace=False)))
        inputs, targets = inputs[rows], targets[rows]
    optimiser = torch.optim.LBFGS(
        net.parameters(), max_iter=chosen.chunk, max_eval=2 * chosen.chunk, history_size=chosen.history,
        line_search_fn="strong_wolfe", tolerance_grad=1e-14, tolerance_change=1e-16,
    )  # fmt: skip

    with torch.no_grad():
        # torch drops curvature below 1e-10, which is all there is once the loss is small.
        unit = float(course.objective.loss(net, inputs, targets)) or 1.0

    def closure() -> float:
        course.check_time()
        optimiser.zero_grad()
        loss = course.objective.loss(net, inputs, targets) / unit
        loss.backward()  # type: ignore[no-untyped-call]
        net.mask_gradients()
        return float(loss.detach())

    idle = 0
    for done in range(chosen.chunk, settings.polish + 1, chosen.chunk):
        loss = unit * float(optimiser.step(closure))  # type: ignore[no-untyped-call]
        idle = 0 if course.record(stage, done, loss) else idle + 1
        if idle >= chosen.patience:
            break
    course.restore_best()
