"""Settings of inspections."""

from __future__ import annotations

from dataclasses import dataclass, field

from reluplan.inspection.measured import OutlookSettings


@dataclass(frozen=True)
class InspectionSettings:
    """How much an inspection may look at.

    seconds: for everything; box_share, steps_share: of them for the bounds over the declared box, and for those of the
    steps; the rest is for the model, samples and derivatives. operations_per_second: of matrix products on one core, on
    the safe side. samples: points of the box; sample_operations: products at all of them together; derivatives: points
    at which derivatives are taken. jacobian_numbers: largest matrix of derivatives that is held; beyond it, row sums
    stand for it. spectral_numbers: largest block of weights whose spectral norm is computed. step_numbers: bounds of
    units that are held for all steps; most_steps: steps that are looked at; the others are taken to be like the last.
    step_entries: entries of a step's model that is really built to be counted. first_steps: those that are told one by
    one. with_trial: whether the planner is tried for a moment, beyond the seconds above; outlook: by which rule it is
    judged.
    """

    seconds: float = 5.0
    box_share: float = 0.2
    steps_share: float = 0.4
    operations_per_second: float = 5e9
    samples: int = 4_096
    sample_operations: float = 1e9
    derivatives: int = 200
    jacobian_numbers: int = 10_000_000
    spectral_numbers: int = 2**20
    step_numbers: int = 10_000_000
    most_steps: int = 10_000
    step_entries: int = 1_000_000
    first_steps: int = 5
    seed: int = 0
    with_trial: bool = True
    outlook: OutlookSettings = field(default_factory=OutlookSettings)
