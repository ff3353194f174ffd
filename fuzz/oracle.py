"""The best plan that can be found without the planner, judged in exact arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fuzz.milp import GiveUpError, PlanModel
from fuzz.search import Search
from fuzz.simulate import ExactRun, Machine, Plan

MARGINS = (0.0, 1e-7, 1e-5)
"""How far the MILP keeps off rows, least first, until its plan holds when simulated."""

MILP_SECONDS = 0.4


@dataclass(frozen=True, eq=False)
class Witness:
    """A plan that is strictly feasible in exact arithmetic."""

    plan: Plan
    run: ExactRun

    @property
    def reward(self) -> float:
        return float(self.run.reward)


class Oracle:
    """Candidate plans of a problem from every source; `best` is judged exactly only when it is asked for."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.search = Search(machine, np.random.default_rng([seed, 23]))

    def look(self, use_milp: bool, starts: Sequence[Plan] = ()) -> None:
        """Search, helped by the MILP's plans if wanted."""
        found = list(self._milp_plans()) if use_milp else []
        self.search.run([*starts, *found])

    def add(self, plans: Sequence[Plan]) -> None:
        """Plans of others (the planner's own, under another configuration) and what lies near them."""
        if plans:
            self.search.polish(3, plans)

    @property
    def estimate(self) -> float:
        """The best reward in float64, minus infinity if there is no plan."""
        return self.search.best_reward

    def best(self) -> Witness | None:
        """The best plan that holds in exact arithmetic."""
        for plan in self.search.plans():
            run = self.machine.exact(plan)
            if run.is_strict:
                return Witness(plan, run)
        return None

    def _milp_plans(self) -> list[Plan]:
        plans: list[Plan] = []
        try:
            model = PlanModel(self.machine)
            for margin in MARGINS:
                plan = model.plan(margin, MILP_SECONDS)
                plans.append(plan)
                run = self.machine.rollout(plan.initial[None], plan.actions[None], plan.auxiliaries[None])
                if run.violations[0] <= 0.0 and run.clear[0]:
                    break
        except GiveUpError:
            pass
        return plans
