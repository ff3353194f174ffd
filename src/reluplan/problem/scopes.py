"""The names that the expressions of a problem file may use, and where their values stand in w."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reluplan.problem.expression import Scope
from reluplan.problem.problem import StepLayout, Variable


@dataclass(frozen=True)
class Scopes:
    """The names that each kind of expression may use; the last auxiliaries are series."""

    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    layout: StepLayout
    constants: Mapping[str, float]
    series: tuple[str, ...] = ()

    def step(self) -> Scope:
        """Everything of one step: rewards and constraints."""
        names = {**self._current(), **self._primed()}
        primed = {f"{v.name}'": "actions have no next value" for v in self.actions}
        return self._scope(names, primed)

    def transition(self) -> Scope:
        """Before the step, and next values of continuous states: known transitions.

        A next value that is rounded is no piecewise-linear function of the step.
        """
        discrete = {f"{v.name}'" for v in self.states if v.is_discrete}
        chosen = {f"{v.name}'" for v in self.auxiliaries}
        known = {f"{name}'" for name in self.series}
        reasons = {
            **dict.fromkeys(discrete, "a transition cannot read the next value of an integer or boolean state"),
            **dict.fromkeys(chosen, "a transition cannot read the next value of an auxiliary, which is free"),
            **dict.fromkeys(known, "a transition reads series as they are before the step; shift the series by a row"),
            **{f"{v.name}'": "actions have no next value" for v in self.actions},
        }
        primed = {name: at for name, at in self._primed().items() if name not in reasons}
        return self._scope({**self._current(), **primed}, reasons, may_multiply=False)

    def state(self, which: str) -> Scope:
        """One state alone: initial and goal rows."""
        actions = {v.name for v in self.actions}
        names = {name: at for name, at in self._current().items() if name not in actions}
        reason = f"these rows are about {which} only"
        return self._scope(names, dict.fromkeys([*actions, *self._primed()], reason))

    def _scope(self, names: Mapping[str, int], elsewhere: Mapping[str, str], may_multiply: bool = True) -> Scope:
        places = {**self._current(), **self._primed()}
        known = [places[name + prime] for name in self.series for prime in ("", "'")] if may_multiply else []
        return Scope(names, self.constants, self.layout.width, elsewhere, frozenset(known))

    def _current(self) -> dict[str, int]:
        return {v.name: at for at, v in enumerate((*self.states, *self.actions, *self.auxiliaries))}

    def _primed(self) -> dict[str, int]:
        start = self.layout.input_count
        return {f"{v.name}'": start + at for at, v in enumerate((*self.states, *self.auxiliaries))}
