"""Recognising the auxiliaries that HD-MILP-Plan files use to write |e − c| and max(0, e − c) in a linear reward.

With e a sum over states, auxiliaries p, m ≥ 0 and reward weights w_p, w_m ≤ 0, a plan of highest reward has

    e − p + m == c   →   p = max(0, e − c),  m = max(0, c − e)
    e − p <= c       →   p = max(0, e − c)
    e + m >= c       →   m = max(0, c − e)

because any larger p or m earns no more. So the reward can say w_p·max(0, e − c) + w_m·max(0, c − e) (with equal weights
w·|e − c|), and the auxiliary is not needed, provided that nothing else reads it.

The reward reads next-state auxiliaries up to the final state H+1, so the rows must hold there as well. The published
planner applies every row of the constraints file that reads no action to the final state too; this module follows it
and looks for the rows in the constraints file only, also when the goal file does not repeat them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reluplan.problem.hd_milp_plan.files import Instance, Row
from reluplan.problem.writer import format_sum, name_in_expression


@dataclass(frozen=True)
class Penalty:
    """What the auxiliaries `above` and `below` stand for: max(0, e − c) and max(0, c − e), e = Σ terms."""

    terms: Mapping[str, float]
    constant: float
    above: str | None
    below: str | None

    @property
    def auxiliaries(self) -> tuple[str, ...]:
        return tuple(name for name in (self.above, self.below) if name)

    def reward_terms(self, reward: Mapping[str, float]) -> Iterator[tuple[float, str]]:
        """(weight, expression) of every term that replaces the auxiliaries in the reward."""
        for prime in ("", "'"):
            above, below = (reward.get(f"{name}{prime}", 0.0) if name else 0.0 for name in (self.above, self.below))
            excess = [(c, name_in_expression(name + prime)) for name, c in self.terms.items()]
            difference = format_sum([*excess, (-self.constant, "")])
            if above == below:
                yield above, f"abs({difference})"
                continue
            yield below, f"max(0, {format_sum([(self.constant, ''), *((-c, name) for c, name in excess)])})"
            yield above, f"max(0, {difference})"


def recognise_penalties(instance: Instance) -> list[Penalty]:
    """The penalties that replace auxiliaries exactly, in the order of the rows that define them."""
    replaceable = {name for name in instance.names("auxiliary") if _is_replaceable(instance, name)}
    rows = {row.key: row for row in instance.constraints if len(row.terms) > 1}
    return [penalty for row in rows.values() if (penalty := _penalty(instance, row, replaceable)) is not None]


def _is_replaceable(instance: Instance, name: str) -> bool:
    """Continuous, never earning, and read by two rows alone: name >= 0 and one that may define it."""
    rows = {row.key: row for row in (*instance.constraints, *instance.goal) if name in row.terms}
    required = {row.key for row in instance.constraints}
    singles = [row.solved() for row in rows.values() if len(row.terms) == 1]
    return (
        instance.variables[name].kind == "continuous"
        and max(instance.reward.get(name, 0.0), instance.reward.get(f"{name}'", 0.0)) <= 0.0
        and not any(name in row.terms for row in (*instance.initial, *instance.transitions))
        and required.issuperset(rows)
        and len(rows) == 2
        and [(row.sign, row.constant) for row in singles] == [(">=", 0.0)]
    )


def _penalty(instance: Instance, row: Row, replaceable: set[str]) -> Penalty | None:
    """The penalty that the row defines, if it has one of the three forms."""
    states = [name for name in row.terms if instance.variables[name].role == "state"]
    others = [name for name in row.terms if name not in states]
    if not states or not replaceable.issuperset(others):
        return None
    if row.terms[states[0]] < 0.0:
        row = row.negated()
    above = [name for name in others if row.terms[name] == -1.0]
    below = [name for name in others if row.terms[name] == 1.0]
    expected = {"==": (1, 1), "<=": (1, 0), ">=": (0, 1)}[row.sign]
    if (len(above), len(below)) != expected or len(others) != sum(expected):
        return None
    terms = {name: row.terms[name] for name in states}
    return Penalty(terms, row.constant, above[0] if above else None, below[0] if below else None)
