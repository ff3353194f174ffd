"""Good plans in seconds, by rollouts in numpy and linear programs only: no MILP, no bounds, and no proof.

What the search maximises is the merit of a plan (`merit`): its reward less a penalty for violations. Every plan that it
passes on was rolled out in the network in float64 and keeps every constraint within the tolerance of the check.

`PlanSearch` works in slices of time (`time_slice`): its work stands still when a slice is over and goes on where it was
in the next. The heuristics (`heuristics`) take turns (`turns`), each in proportion to what it gained lately:

- first plans: the best of a batch of simple ones (`simple_plans`), then a plan by receding horizon
  (`receding_horizon`), whose time is linear in the horizon;
- once each: local search from the best plan so far, from the best plan that repeats one action (`constant_actions`),
  and from what dynamic programming on a grid finds where there are few states (`dynamic_programming`);
- again and again: populations (`cross_entropy`, `path_integral`) that begin everywhere or around the best plan; beams
  of ways from the first state on (`beam_search`);
  perturbation of the best plan (`perturbation`), gradient ascent from many plans (`gradient_ascent`), and changes of
  single discrete decisions (`one_opt`), each followed by local search;
- if nothing keeps every constraint yet: local search with higher and higher penalties (`repair`).

Local search (`local_search`) takes steps of linear programs in a trust region (`trust_region`) and walks from
activation pattern to activation pattern (`pattern_walk`), in turn, until neither gains. Populations are sampled with
noise that is smooth over the steps (`noise`) and rolled out in float32 (`kernel`). Where the horizon is too long for
one linear program, local search and what rests on it run in windows that slide over it, each between the states where
the plan enters and leaves it, again and again while that helps (`sliding_window`).

When all of it has settled, everything begins anew with other random numbers, for as long as slices are given;
`search_plans` stops there. All of it can be set (`settings`), and heuristics can be added (`heuristics`).
"""

from reluplan.search.context import Context, PlanSink
from reluplan.search.decisions import Decisions
from reluplan.search.heuristics import HEURISTICS, Heuristic, Phase, Scope
from reluplan.search.plan_search import PlanSearch, search_plans
from reluplan.search.settings import SearchSettings

__all__ = [
    "HEURISTICS",
    "Context",
    "Decisions",
    "Heuristic",
    "Phase",
    "PlanSearch",
    "PlanSink",
    "Scope",
    "SearchSettings",
    "search_plans",
]
