"""What Algorithm 1 works with: the domain, its features, λ, known patterns and sampled steps."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.initial_cuts import add_initial_patterns
from reluplan.potentials.pattern_store import PatternStore
from reluplan.potentials.regulariser import default_regulariser, sampled_reward_size
from reluplan.potentials.reward_cutoff import tighten_by_reward_cutoff
from reluplan.potentials.rollouts import Rollouts, greedy_rollouts
from reluplan.potentials.settings import Objective, PotentialSettings, require_interval_count
from reluplan.potentials.step_samples import StepSamples
from reluplan.potentials.subproblem import Subproblem

Array = NDArray[np.float64]


class PotentialSearch:
    """One domain; patterns found for one objective serve the next.

    regulariser: λ as chosen. store and samples cover only the steps whose reward exceeds −K/(2λ), the smallest φ that
    the master can give (`tighten_by_reward_cutoff`): no other step can violate it by more than rounding errors, and
    these are counted in (`Subproblem`). deadline: of clock.now, for all that is done before the first objective.
    """

    def __init__(self, domain: StepDomain, settings: PotentialSettings, deadline: float = math.inf) -> None:
        require_interval_count(settings.interval_count)
        self.domain = domain
        self.settings = settings
        self.features = domain.features(settings.interval_count, settings.every_unit)
        self._setup_until = self._share_until(deadline)
        self.regulariser = self._choose_regulariser()
        relevant = self._relevant_steps(deadline)
        self.store = PatternStore(self.features, Subproblem(relevant, self.features))
        self.samples = StepSamples(relevant, self.features, np.random.default_rng(settings.seed), settings.sampling)

    def prepare(self, deadline: float = math.inf) -> None:
        """The first patterns, once for all objectives."""
        add_initial_patterns(self.store, self.samples, self.settings, self._share_until(deadline), deadline)

    def weights_at(self, objective: Objective) -> Array:
        """The pattern at which an objective wants φ to be small; the cube's centre where no steps are known."""
        if objective == "mean" and len(self.samples):
            return self.samples.mean_entries()
        if objective == "plans":
            inputs, _ = self.rollouts.from_step(self.domain.first, self.settings.rollouts.steps)
            units = self.domain.problem.dynamics.preactivations(inputs)
            if len(inputs):
                shape = (len(inputs), *self.features.shape)
                return np.asarray(self.features.one_hot(self.features.entries(units)).reshape(shape).mean(axis=0))
        return np.ones(self.features.shape)

    @cached_property
    def rollouts(self) -> Rollouts:
        """Greedy plans from the initial states to a few steps behind the domain's first one."""
        bounds = self.domain.bounds
        settings = self.settings.rollouts
        horizon = min(self.domain.last + 1, self.domain.first + settings.steps)
        rng = np.random.default_rng(self.settings.seed)
        box = bounds.action_lower[0], bounds.action_upper[0]
        return greedy_rollouts(self.domain.whole, *box, horizon, rng, self._setup_until, settings)

    def _choose_regulariser(self) -> float:
        settings = self.settings
        if settings.regulariser is not None:
            return settings.regulariser
        size = sampled_reward_size(self.domain, self.features, settings, self._setup_until)
        _, rewards = self.rollouts.from_step(self.domain.first, settings.rollouts.steps)
        return default_regulariser(size, rewards, self.features.unit_count, settings.reward_scale)

    def _relevant_steps(self, deadline: float) -> StepDomain:
        """The steps that some solution of the master may leave violated: all, where that is not worth knowing."""
        if not self.settings.heuristics or not self.features.unit_count:
            return self.domain
        cutoff = -self.features.unit_count / (2.0 * self.regulariser)
        until = self._share_until(deadline)
        return tighten_by_reward_cutoff(self.domain, cutoff, until, self.settings.cutoff_rounds) or self.domain

    def _share_until(self, deadline: float) -> float:
        """When the share of the time until a deadline is over that one part of the setup may take."""
        now = clock.now()
        return now + self.settings.setup_share * max(0.0, deadline - now)
