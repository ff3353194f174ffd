"""The heuristics of the search, in the order in which they have their first turn, and how to add one.

A heuristic is a function of one argument, the `Context` of a search, that offers the plans it finds:

    def hold_still(context: Context) -> Paused[None]:
        yield from context.pause()
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

How it knows the time. A heuristic is a generator that stands still when its slice of time is over: it says
`yield from context.pause()` between pieces of work, and `yield from` of what it calls (`local_search`, `sample`). So it
goes on where it was in its next turn, however short the turns. A plain function may look at `context.expired` instead
and return. Rollouts in float64 raise OutOfTimeError if they outlast the slice by far; then the heuristic begins anew in
its next turn, and nobody need catch it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from reluplan.registry import Registry
from reluplan.search.beam_search import beam_search
from reluplan.search.constant_actions import constant_actions
from reluplan.search.context import Context
from reluplan.search.cross_entropy import cross_entropy
from reluplan.search.dynamic_programming import dynamic_programming
from reluplan.search.gradient_ascent import gradient_ascent
from reluplan.search.local_search import improve_best
from reluplan.search.one_opt import one_opt
from reluplan.search.path_integral import path_integral
from reluplan.search.perturbation import perturbation
from reluplan.search.receding_horizon import receding_horizon
from reluplan.search.repair import repair
from reluplan.search.simple_plans import simple_plans
from reluplan.search.time_slice import Paused


class Phase(Enum):
    """When a heuristic runs."""

    CONSTRUCTION = "construction"
    """Once, and before the others where the horizon is too long for one linear program; its time grows no faster than
    the horizon, so that it runs on the whole of any horizon."""
    ONCE = "once"
    """Once."""
    REPAIR = "repair"
    """Once, if no plan that keeps every constraint was found until then."""
    REPEATED = "repeated"
    """Again and again: it uses randomness. It rests when it was in vain for a while, until another gains."""


class Scope(Enum):
    """Where a heuristic runs."""

    LOCAL = "local"
    """On the whole horizon if that fits into one linear program, otherwise in windows."""
    WHOLE = "whole"
    """On the whole horizon, however long, and never in windows."""


class HeuristicFunction(Protocol):
    """Offers plans to the context of a search, as described above."""

    def __call__(self, context: Context, /) -> Paused[None] | None: ...


@dataclass(frozen=True)
class Heuristic:
    """One way to find or to improve plans: when it runs, where, and how much of the time it gets, compared with others,
    before its gains are counted in."""

    run: HeuristicFunction
    phase: Phase = Phase.REPEATED
    scope: Scope = Scope.LOCAL
    weight: float = 1.0

    def begin(self, context: Context) -> Paused[None]:
        """The heuristic at work; nothing has happened before the first `next`."""
        work = self.run(context)
        if work is not None:
            yield from work


HEURISTICS: Registry[Heuristic] = Registry("heuristic", "reluplan.heuristics")
"""By name; in each phase they run in the order of registration, quickest first."""

HEURISTICS.register("simple-plans", Heuristic(simple_plans, Phase.CONSTRUCTION, weight=100.0))
HEURISTICS.register("receding-horizon", Heuristic(receding_horizon, Phase.CONSTRUCTION, weight=10.0))
HEURISTICS.register("local-search", Heuristic(improve_best, weight=4.0))
HEURISTICS.register("constant-actions", Heuristic(constant_actions, Phase.ONCE))
HEURISTICS.register("dynamic-programming", Heuristic(dynamic_programming, Phase.ONCE))
HEURISTICS.register("beam-search", Heuristic(beam_search, scope=Scope.WHOLE))
HEURISTICS.register("cross-entropy", Heuristic(cross_entropy, scope=Scope.WHOLE, weight=3.0))
HEURISTICS.register("path-integral", Heuristic(path_integral, scope=Scope.WHOLE))
HEURISTICS.register("repair", Heuristic(repair, Phase.REPAIR))
HEURISTICS.register("perturbation", Heuristic(perturbation))
HEURISTICS.register("gradient-ascent", Heuristic(gradient_ascent))
HEURISTICS.register("one-opt", Heuristic(one_opt))
