"""What is proven so far: values, and a bound of how far rewards may exceed them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.potentials.domain import StepDomain
from reluplan.potentials.subproblem import Violations
from reluplan.problem.rollout import step_vectors

Array = NDArray[np.float64]

INTERVAL_PROOF = "interval arithmetic"
MILP_PROOF = "MILP dual bound"


@dataclass(frozen=True, eq=False)
class Proof:
    """Values v and a bound D >= max(R − φ_v), with the margin that its proof may be wrong by.

    level: φ_v + D at the objective's pattern, what the smallest of all proofs is chosen by; −inf for the last one, of
    values that are optimal within the tolerance. source: what proved D.
    """

    values: Array
    bound: float
    margin: float
    source: str
    level: float

    @classmethod
    def by_intervals(cls, domain: StepDomain, values: Array) -> Proof:
        """max R over the box: a proof for potentials of zero, which costs nothing and gives way to any other."""
        bounds = domain.bounds
        lower = step_vectors(bounds.state_lower, bounds.action_lower, bounds.auxiliary_lower)
        upper = step_vectors(bounds.state_upper, bounds.action_upper, bounds.auxiliary_upper)
        most = float(domain.problem.reward.bounds(lower, upper)[1][0])
        return cls(values, most, 0.0, INTERVAL_PROOF, math.inf)

    @classmethod
    def by_milp(cls, values: Array, found: Violations, potential: float) -> Proof:
        """The dual bound of the subproblem; potential: φ of the values at the objective's pattern."""
        return cls(values, found.dual_bound, found.margin, MILP_PROOF, potential + found.dual_bound)

    @classmethod
    def of_optimum(cls, values: Array, found: Violations) -> Proof:
        """The dual bound that is within the tolerance: no other proof is better."""
        return cls(values, found.dual_bound, found.margin, MILP_PROOF, -math.inf)

    def or_better(self, other: Proof) -> Proof:
        """The one whose shifted potentials are smaller at the objective's pattern."""
        return other if other.level < self.level else self
