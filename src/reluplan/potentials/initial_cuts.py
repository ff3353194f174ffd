"""Line 1 of Algorithm 1: patterns to begin with, from sampled steps."""

from __future__ import annotations

import numpy as np

from reluplan.potentials.enumeration import enumerate_patterns
from reluplan.potentials.pattern_store import PatternStore
from reluplan.potentials.settings import PotentialSettings
from reluplan.potentials.step_samples import StepSamples


def add_initial_patterns(
    store: PatternStore, samples: StepSamples, settings: PotentialSettings, sample_until: float, deadline: float
) -> None:
    """Sample steps, once, and solve the patterns of the best of them, or all patterns if these are few.

    The paper begins with no cut at all (heuristics off). sample_until: when sampling ends; both are of clock.now.
    """
    if len(samples) or not settings.heuristics:
        return
    nothing = np.zeros(store.features.shape)
    samples.sample(settings.samples, sample_until)
    samples.climb(nothing, settings.sampling.climbs, sample_until)
    _, entries = samples.violations(nothing)
    if samples.pattern_count <= settings.enumerate_up_to:
        enumerate_patterns(store, entries, settings.enumerate_up_to, deadline)
    for at in np.argsort(-samples.rewards)[: settings.cuts_per_round].tolist():
        store.solve(entries[at], deadline)
