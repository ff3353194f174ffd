"""Rows that are left out of the data, by conditions on their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reluplan.data.transitions import Transitions
from reluplan.problem.condition import Condition, parse_condition
from reluplan.problem.expression import Scope

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RowFilter:
    """Conditions such as "abs(x' - x) > 5" or "crashed == 1"; a row for which one of them holds is left out.

    constants: numbers that they may use by name.
    """

    conditions: tuple[str, ...] = ()
    constants: Mapping[str, float] = field(default_factory=dict)

    def hits(
        self, transitions: Transitions, source: str, others: Sequence[str], read: Callable[[str], Array]
    ) -> dict[str, Mask]:
        """For each condition, by its text, the rows for which it holds.

        They may read the states, the actions, next states with a prime, episode and step, and the other columns of the
        source, which are read when they are needed.
        """
        known = _numbers(transitions)
        names = [*known, *(name for name in others if name not in known)]
        conditions = self._parse(source, names, transitions.action_names)
        needed = np.any([_support(condition) for condition in conditions], axis=0)
        absent = np.zeros(len(transitions))
        columns = [
            known[name] if name in known else read(name) if is_needed else absent
            for name, is_needed in zip(names, needed, strict=True)
        ]
        table = np.column_stack(columns)
        return {condition.text: condition.holds(table) for condition in conditions}

    def _parse(self, source: str, names: Sequence[str], action_names: Sequence[str]) -> list[Condition]:
        positions = {name: at for at, name in enumerate(names)}
        primed = {f"{name}'": "actions have no next value" for name in action_names}
        constants = {name: value for name, value in self.constants.items() if name not in positions}
        scope = Scope(positions, constants, len(names), primed)
        where = f"{source}: the condition for leaving out rows"
        return [parse_condition(text, scope, where) for text in self.conditions]


def _numbers(transitions: Transitions) -> dict[str, Array]:
    """The numbers of a transition by the names that conditions use; a variable's name comes before a label's."""
    states = dict(zip(transitions.state_names, transitions.states.T, strict=True))
    actions = dict(zip(transitions.action_names, transitions.actions.T, strict=True))
    after = {
        f"{name}'": column for name, column in zip(transitions.state_names, transitions.next_states.T, strict=True)
    }
    labels = {"episode": transitions.episode, "step": transitions.step}
    return {**labels, **after, **actions, **states}


def _support(condition: Condition) -> Mask:
    """Which numbers of a row a condition depends on."""
    parts = [comparison.difference.support() for clause in condition.clauses for comparison in clause]
    return np.asarray(np.any(parts, axis=0))
