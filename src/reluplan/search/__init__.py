"""Good plans in seconds, with numpy and linear programs only: no MILP, and no proof.

What the search maximises is the merit of a plan (`merit`): its reward less a penalty for violations. Every plan that it
passes on was rolled out in the network and keeps every constraint within the tolerance of the check. What runs when
(`schedule`, with the heuristics of `heuristics`):

1. A start, if one is given, is passed on and improved by local search.
2. Construction: a plan by receding horizon (`receding_horizon`), whose time is linear in the horizon.
3. Once each: local search from the best plan so far, from the best plan that repeats one action (`constant_actions`),
   and from what dynamic programming on a grid finds where there are few states (`dynamic_programming`).
4. Repair, if no plan keeps every constraint yet: local search with higher and higher penalties (`repair`).
5. In turn, until none has helped for a while or further starts are unlikely to find a better local optimum:
   perturbation of the best plan (`perturbation`), gradient ascent from many plans (`gradient_ascent`), and changes of
   single discrete decisions (`one_opt`), each followed by local search.

Local search (`local_search`) takes steps of linear programs in a trust region (`trust_region`) and walks from
activation pattern to activation pattern (`pattern_walk`), in turn, until neither gains. Where the horizon is too long
for one linear program, 2 makes a plan of the whole horizon, and 2 to 5 then run in windows that slide over it, each
between the states where the plan enters and leaves it, again and again while that helps (`sliding_window`).

All of it can be set (`settings`), and heuristics can be added (`heuristics`).
"""

from reluplan.search.context import Context, PlanSink
from reluplan.search.decisions import Decisions
from reluplan.search.heuristics import HEURISTICS, Heuristic, Phase
from reluplan.search.schedule import search_plans
from reluplan.search.settings import SearchSettings

__all__ = ["HEURISTICS", "Context", "Decisions", "Heuristic", "Phase", "PlanSink", "SearchSettings", "search_plans"]
