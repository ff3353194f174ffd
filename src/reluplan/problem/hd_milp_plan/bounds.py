"""Rows of one variable in an HD-MILP-Plan instance, as bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reluplan.errors import InputError
from reluplan.problem.hd_milp_plan.files import Instance, Row
from reluplan.problem.writer import number


@dataclass(frozen=True)
class Box:
    """An interval of values."""

    lower: float = -math.inf
    upper: float = math.inf

    @property
    def is_point(self) -> bool:
        return self.lower == self.upper

    def narrowed(self, other: Box) -> Box:
        return Box(max(self.lower, other.lower), min(self.upper, other.upper))


def variable_boxes(
    instance: Instance, constraints: Sequence[Row], goal: Sequence[Row], action_bounds: tuple[float, float] | None
) -> dict[str, Box]:
    """The bounds of each variable; a side of a state's box counts only if the goal is at least as tight there."""
    boxes = {}
    for name, declared in instance.variables.items():
        box = _box(name, constraints)
        if declared.role == "state":
            final = _box(name, goal)
            box = Box(
                box.lower if final.lower >= box.lower else -math.inf,
                box.upper if final.upper <= box.upper else math.inf,
            )
        if declared.role == "action" and action_bounds is not None:
            box = _narrow_action(name, box, Box(*action_bounds))
        boxes[name] = box
    return boxes


def initial_boxes(instance: Instance) -> dict[str, Box]:
    """The first value, or interval of values, of every state that the initial rows bound."""
    boxes = {name: _box(name, instance.initial) for name in instance.names("state")}
    return {name: box for name, box in boxes.items() if box != Box()}


def is_implied(row: Row, boxes: Mapping[str, Box]) -> bool:
    """Whether the row only repeats bounds."""
    if len(row.terms) > 1:
        return False
    (name,) = row.terms
    box = boxes[name]
    allowed = _allowed(row)
    return allowed.lower <= box.lower and box.upper <= allowed.upper


def _allowed(row: Row) -> Box:
    """The values that a row of one variable allows."""
    row = row.solved()
    return Box(-math.inf if row.sign == "<=" else row.constant, math.inf if row.sign == ">=" else row.constant)


def _box(name: str, rows: Iterable[Row]) -> Box:
    """The values that all rows of this variable alone allow."""
    box = Box()
    for row in rows:
        if list(row.terms) == [name]:
            box = box.narrowed(_allowed(row))
            if box.lower > box.upper:
                raise row.line.error(f"no value of '{name}' satisfies both this row and the ones before it")
    return box


def _narrow_action(name: str, box: Box, bounds: Box) -> Box:
    narrow = box.narrowed(bounds)
    if not bounds.lower <= bounds.upper or narrow.lower > narrow.upper:
        raise InputError(
            f"the action bounds [{number(bounds.lower)}, {number(bounds.upper)}] leave no value for the action "
            f"'{name}', which the instance keeps in [{number(box.lower)}, {number(box.upper)}]: "
            f"choose an interval that meets it"
        )
    return narrow
