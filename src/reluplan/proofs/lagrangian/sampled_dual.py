"""Multipliers without a MILP: the dual function, with maxima that are searched for by sampling.

    Σ_i weight_i · d_i(λ),        d_i(λ) = the Lagrangian of the best window that is found (`window_population`)

is at most the dual function (`decomposition`), and close to it where the search is good. It proves nothing, but a λ
that makes it small is a good one, and dozens of λ can be looked at in the time of one round of MILPs. That of windows
of single steps costs least, and its λ serve windows of any length. It is lowered by the same bundle method, whose cuts
are the windows found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.lagrangian.decomposition import Decomposition
from reluplan.proofs.lagrangian.samples import plan_windows
from reluplan.proofs.lagrangian.settings import SampledDualSettings
from reluplan.proofs.lagrangian.subproblem import WindowSubproblem
from reluplan.proofs.lagrangian.window_population import WindowPopulation

Array = NDArray[np.float64]

DEFAULT = SampledDualSettings()

FEWEST = 10
"""Multipliers that are looked at, or it is not worth the time."""


def sampled_multipliers(
    decomposition: Decomposition,
    multipliers: Array,
    scale: Array,
    deadline: float,
    tolerance: float,
    settings: SampledDualSettings = DEFAULT,
) -> Array:
    """λ at the boundaries, (windows + 1, 2n), for which the sampled dual function is smaller than at those given.

    A window that is repeated is not searched for, and should keep its λ. scale: the size of the first step in each λ,
    zero where it is to stay. tolerance: of the total; what promises less ends the search. Until the deadline, of
    clock.now.
    """
    best, radius = decomposition.tied(multipliers), 1.0
    windows = [subproblem for subproblem in decomposition.subproblems if subproblem.span.count == 1]
    if not windows or not is_affordable(windows, settings, deadline):
        return best
    found = _Search(decomposition, settings, deadline)
    total, earned = found.total(best), found.earned(best)
    while clock.now() < deadline and radius >= settings.smallest_radius:
        proposal, promised = decomposition.propose(best, radius * scale, total, separates=False)
        if not min(total - promised, total - earned) > tolerance:
            break
        trial = found.total(proposal)
        total = max(total, found.known(best))  # what was found meanwhile counts for the best one too
        if total - trial >= settings.enough * (total - promised):
            radius *= settings.growth
        else:
            radius *= settings.shrinkage
        if trial < total:
            best, total = proposal, trial
    return best


def is_affordable(windows: Sequence[WindowSubproblem], settings: SampledDualSettings, deadline: float) -> bool:
    """Whether a few λ can be looked at by the deadline."""
    population = settings.population
    changes = FEWEST * (population.generations + 3)
    steps = sum(window.span.length for window in windows)
    work = changes * steps * population.size * windows[0].problem.dynamics.operations
    return clock.now() + clock.expected(work) <= deadline


@dataclass(eq=False)
class _Search:
    """The windows that are worth most so far; repeated ones are not searched for."""

    decomposition: Decomposition
    settings: SampledDualSettings
    deadline: float
    populations: list[WindowPopulation] = field(init=False)

    def __post_init__(self) -> None:
        decomposition, by_length = self.decomposition, dict[int, list[int]]()
        for i, subproblem in enumerate(decomposition.subproblems):
            if subproblem.span.count == 1:
                by_length.setdefault(subproblem.span.length, []).append(i)
        self.populations = [
            WindowPopulation(
                [decomposition.subproblems[i] for i in which],
                decomposition.plan,
                decomposition.rng,
                self.settings.population,
                which,
            )
            for which in by_length.values()
        ]

    def known(self, multipliers: Array) -> float:
        """The largest total of windows that were found before."""
        decomposition = self.decomposition
        worth = [cuts.lagrangian(multipliers[i], multipliers[i + 1]).max() for i, cuts in enumerate(decomposition.cuts)]
        return float(decomposition.weights @ worth)

    def earned(self, multipliers: Array) -> float:
        """What the plan's own windows are worth together: no total can be less."""
        decomposition, plan = self.decomposition, self.decomposition.plan
        worth = [
            plan_windows(subproblem, plan).lagrangian(multipliers[i], multipliers[i + 1]).min()
            for i, subproblem in enumerate(decomposition.subproblems)
        ]
        return float(decomposition.weights @ worth)

    def total(self, multipliers: Array) -> float:
        """What `known` says, after a search for better ones, which are cuts from then on."""
        cuts = self.decomposition.cuts
        for population in self.populations:
            population.climb(multipliers, self.deadline)
            for at, i in enumerate(population.which):
                cuts[i] = cuts[i].joined(population.best(at, multipliers))
        return self.known(multipliers)
