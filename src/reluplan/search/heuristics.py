"""The heuristics of the search, in the order in which they run, and how to add one.

A heuristic is a function of one argument, the `Context` of a search, that offers the plans it finds:

    def hold_still(context: Context) -> None:
        actions = np.zeros((1, context.problem.horizon, len(context.problem.actions)))
        ...
        context.offer(context.box.into(Decisions(initial, actions, auxiliaries)), "hold still")

    HEURISTICS.register("hold-still", Heuristic(hold_still, Phase.CONSTRUCTION))

What it gets. `context.problem` is the problem to plan for: the whole one or, where the horizon is long, a window of it
as a problem of its own, between the states where the plan enters and leaves it. `context.box` says where decisions may
be, `context.best` is the best plan so far (`context.found`: it keeps every constraint), `context.rng` the only
randomness to use, so that the same seed finds the same plan, `context.settings` what is set.

What it may do. `offer` rolls out one plan and takes it, `take` takes a plan that is rolled out already; both pass it on
if it keeps every constraint and is the best so far, and otherwise forget it. The decisions of a plan have to be in
their box (`context.box.into` moves them there); all else is checked. `evaluate` and `gradient` score a batch of plans,
and `local_search` improves one. A heuristic returns nothing, and leaves all else of the context as it is; one that has
nothing to do just returns.

How it knows the time. It looks at `context.expired` (or `context.remaining`, in seconds) between pieces of work, and
returns once the time is up. Rollouts raise OutOfTimeError a little later, which ends the search; nobody need catch it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from reluplan.registry import Registry
from reluplan.search.constant_actions import constant_actions
from reluplan.search.context import Context
from reluplan.search.dynamic_programming import dynamic_programming
from reluplan.search.gradient_ascent import gradient_ascent
from reluplan.search.local_search import improve_best
from reluplan.search.one_opt import one_opt
from reluplan.search.perturbation import perturbation
from reluplan.search.receding_horizon import receding_horizon
from reluplan.search.repair import repair


class Phase(Enum):
    """When a heuristic runs."""

    CONSTRUCTION = "construction"
    """Once, first; its time grows no faster than the horizon, so that it runs on the whole of any horizon."""
    ONCE = "once"
    """Once, after the first plan."""
    REPAIR = "repair"
    """Once, if no plan that keeps every constraint was found until then."""
    REPEATED = "repeated"
    """In turn with the others of this kind, until none of them has helped for a while: it uses randomness."""


class HeuristicFunction(Protocol):
    """Offers plans to the context of a search, as described above."""

    def __call__(self, context: Context, /) -> None: ...


@dataclass(frozen=True)
class Heuristic:
    """One way to find or to improve plans, and when it runs."""

    run: HeuristicFunction
    phase: Phase = Phase.REPEATED


HEURISTICS: Registry[Heuristic] = Registry("heuristic", "reluplan.heuristics")
"""By name; in each phase they run in the order of registration, quickest first."""

HEURISTICS.register("receding-horizon", Heuristic(receding_horizon, Phase.CONSTRUCTION))
HEURISTICS.register("local-search", Heuristic(improve_best, Phase.ONCE))
HEURISTICS.register("constant-actions", Heuristic(constant_actions, Phase.ONCE))
HEURISTICS.register("dynamic-programming", Heuristic(dynamic_programming, Phase.ONCE))
HEURISTICS.register("repair", Heuristic(repair, Phase.REPAIR))
HEURISTICS.register("perturbation", Heuristic(perturbation))
HEURISTICS.register("gradient-ascent", Heuristic(gradient_ascent))
HEURISTICS.register("one-opt", Heuristic(one_opt))
