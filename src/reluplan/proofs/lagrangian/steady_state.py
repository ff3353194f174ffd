"""Move c: better multipliers of the state in which a plan stays: one repeated window, searched for itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.proofs.lagrangian.decomposition import Decomposition, DualEvaluation
from reluplan.proofs.lagrangian.iterate import DualAscent, Iterate, step_sizes
from reluplan.proofs.lagrangian.settings import SteadyStateSettings

Array = NDArray[np.float64]

DEFAULT = SteadyStateSettings()


def steady_state(ascent: DualAscent, iterate: Iterate) -> Iterate:
    """What is lost in the steady state counts many times, and its MILPs are small. Nothing is done if that is little,
    or if the boxes are still those of the last search."""
    settings, best = ascent.settings.steady_state, iterate.evaluation
    gap = ascent.gap(iterate)
    losses = ascent.losses(iterate.decomposition, best)
    steady = [i for i, span in enumerate(iterate.spans) if span.count > 1 and losses[i] > settings.much * gap]
    if not steady or not iterate.is_tighter:
        return iterate
    at = steady[0]
    found = _search(ascent, iterate, at)
    iterate = replace(iterate, is_tighter=False)
    multipliers = best.multipliers.copy()
    multipliers[at : at + 2] = found
    trial = ascent.evaluate(iterate.decomposition, multipliers, ascent.precision(gap))
    return iterate.accepting(trial) if trial.total < best.total else iterate


def _search(ascent: DualAscent, iterate: Iterate, at: int) -> Array:
    """λ (2n,) of the window with this index; the cuts that were found on the way are kept."""
    settings, best = ascent.settings.steady_state, iterate.evaluation
    span = iterate.spans[at]
    alone = ascent.decomposition(iterate.decomposition.subproblems[at : at + 1], free_ends=True)
    alone.inherit({span: iterate.decomposition.cuts[at]})
    of_plan = ascent.plan_multipliers[span.first]
    sizes = np.maximum(np.abs(best.multipliers[at]), np.abs(of_plan))
    until = clock.now() + settings.share * ascent.remaining
    candidates = [best.multipliers[at], of_plan]
    scale = step_sizes(sizes[None])[0]
    found = steady_multipliers(alone, candidates, scale, until, 0.1 * ascent.state.tolerance, settings)
    iterate.decomposition.inherit({span: alone.cuts[0]})
    return found


def steady_multipliers(
    alone: Decomposition,
    candidates: Sequence[Array],
    scale: Array,
    deadline: float,
    tolerance: float,
    settings: SteadyStateSettings = DEFAULT,
) -> Array:
    """The λ (2n,) with the smallest D(λ) of a window that ends where it begins, found by the bundle method.

    alone: the one subproblem, with free ends. candidates: λ to begin with. scale: the size of a step in each entry.
    tolerance: a loss of this much (over all windows) is none. Until the deadline, of clock.now.
    """
    earned = float(alone.weights[0] * alone.cuts[0].rewards[0])
    best = _best(alone, candidates, deadline, tolerance, settings)
    enough = max(tolerance, settings.enough * (best.total - earned))
    radius = settings.first_radius
    while best.total - earned > enough and radius >= settings.smallest_radius and clock.now() < deadline:
        proposals, promised = _propose(alone, best, radius * np.tile(scale, (2, 1)), settings.shorter)
        if not best.total - promised > tolerance:
            break
        precision = max(tolerance, 0.01 * (best.total - earned))
        trial = _best(alone, proposals, deadline, precision, settings)
        is_far = bool(np.array_equal(trial.multipliers[0], proposals[0]))
        if best.total - trial.total >= 0.1 * (best.total - promised):
            best = trial
            radius *= 1.5 if is_far else 2.0 * settings.shorter
        else:
            radius *= 0.5 * settings.shorter
    return np.asarray(best.multipliers[0])


def _propose(alone: Decomposition, best: DualEvaluation, radius: Array, shorter: float) -> tuple[list[Array], float]:
    """A proposal in the trust region and one closer by, and the smallest total that the cuts allow."""
    far, promised = alone.propose(best.multipliers, radius, best.total)
    near, _ = alone.propose(best.multipliers, shorter * radius, best.total)
    return [far[0], near[0]], promised


def _best(
    alone: Decomposition,
    candidates: Sequence[Array],
    deadline: float,
    tolerance: float,
    settings: SteadyStateSettings,
) -> DualEvaluation:
    """The best of some λ."""
    now = clock.now()
    limit = min(deadline, now + max(1.0, settings.longest_round * (deadline - now)))
    found = alone.evaluate_all([np.tile(multipliers, (2, 1)) for multipliers in candidates], limit, tolerance)
    return min(found, key=lambda evaluation: evaluation.total)
