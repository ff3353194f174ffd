"""A planning MILP written apart from the planner's, for tiny problems; its answer is only a source of plans.

Bounds by interval arithmetic, one big-M per neuron and step; columns, rows and the objective are scaled to one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from fuzz.expression import Absolute, Extreme, Name, Node, Number, Product, Row, Scaled, Sum, evaluate
from fuzz.problem import Array, Variable
from fuzz.simulate import BATCH, Machine, Plan

WIDEST = 1e11
"""Beyond it big-M means nothing."""

MOST_BINARIES = 150


class GiveUpError(Exception):
    """The model is too wide, too large or has no solution: no plan from here."""


@dataclass(frozen=True)
class Affine:
    """Σ coefficient · column + constant."""

    terms: Mapping[int, float]
    constant: float = 0.0

    def __add__(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for column, value in other.terms.items():
            terms[column] = terms.get(column, 0.0) + value
        return Affine(terms, self.constant + other.constant)

    def scaled(self, factor: float) -> Affine:
        return Affine({column: factor * value for column, value in self.terms.items()}, factor * self.constant)


@dataclass(eq=False)
class Model:
    """Columns, rows lo <= affine <= hi, and which rows may be moved inward."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[tuple[Affine, float, float, bool]] = field(default_factory=list)

    def column(self, lower: float, upper: float, integer: bool = False) -> Affine:
        if lower > upper:
            raise GiveUpError("an empty box")
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return Affine({len(self.lower) - 1: 1.0})

    def interval(self, affine: Affine) -> tuple[float, float]:
        low = high = affine.constant
        for column, value in affine.terms.items():
            if value:
                ends = value * self.lower[column], value * self.upper[column]
                low, high = low + min(ends), high + max(ends)
        if not (math.isfinite(low) and math.isfinite(high)) or max(abs(low), abs(high)) > WIDEST:
            raise GiveUpError("no bounds for a big-M")
        return low, high

    def at_most(self, affine: Affine, movable: bool = False) -> None:
        """affine <= 0."""
        self.rows.append((affine, -math.inf, 0.0, movable))

    def equal(self, affine: Affine) -> None:
        """affine == 0."""
        self.rows.append((affine, 0.0, 0.0, False))

    def largest(self, parts: list[Affine]) -> Affine:
        """A column that equals the maximum, with one binary for each part that may be it."""
        boxes = [self.interval(part) for part in parts]
        floor = max(low for low, _ in boxes)
        alive = [(part, box) for part, box in zip(parts, boxes, strict=True) if box[1] >= floor]
        top = max(high for _, (_, high) in alive)
        if len(alive) == 1:
            return alive[0][0]
        value = self.column(floor, top)
        chosen = Affine({}, -1.0)
        for part, (low, _) in alive:
            binary = self.column(0.0, 1.0, True)
            chosen = chosen + binary
            self.at_most(part + value.scaled(-1.0))
            self.at_most(value + part.scaled(-1.0) + binary.scaled(top - low) + Affine({}, low - top))
        self.equal(chosen)
        return value

    def relu(self, before: Affine) -> Affine:
        low, high = self.interval(before)
        if high <= 0.0:
            return Affine({})
        if low >= 0.0:
            return before
        after, binary = self.column(0.0, high), self.column(0.0, 1.0, True)
        self.at_most(before + after.scaled(-1.0))
        self.at_most(after + binary.scaled(-high))
        self.at_most(after + before.scaled(-1.0) + binary.scaled(-low) + Affine({}, low))
        return after

    def encode(self, node: Node, names: Mapping[str, Affine]) -> Affine:
        match node:
            case Number(value):
                return Affine({}, value)
            case Name(name):
                return names[name]
            case Sum(parts):
                total = Affine({})
                for part in parts:
                    total = total + self.encode(part, names)
                return total
            case Scaled(factor, inner):
                return self.encode(inner, names).scaled(factor)
            case Product(factor, inner, divides):
                known = {name: affine.constant for name, affine in names.items()}
                by = float(evaluate(factor, known, BATCH))
                return self.encode(inner, names).scaled(1.0 / by if divides else by)
            case Absolute(inner):
                inside = self.encode(inner, names)
                return self.largest([inside, inside.scaled(-1.0)])
            case Extreme(largest, parts):
                sign = 1.0 if largest else -1.0
                return self.largest([self.encode(part, names).scaled(sign) for part in parts]).scaled(sign)

    def solve(self, objective: Affine, margin: float, seconds: float) -> Array:
        """The maximiser; movable rows are tightened by the margin after scaling."""
        if sum(self.integer) > MOST_BINARIES:
            raise GiveUpError("too many integers")
        lower, upper, integer = np.array(self.lower), np.array(self.upper), np.array(self.integer)
        size = np.maximum(np.abs(lower), np.abs(upper))
        scale = np.where(integer | (size <= 0.0) | ~np.isfinite(size), 1.0, size)
        data, indices, starts, lows, highs = [], [], [0], [], []
        for affine, low, high, movable in self.rows:
            values = [(column, value * scale[column]) for column, value in affine.terms.items() if value]
            largest = max((abs(value) for _, value in values), default=1.0)
            data += [value / largest for _, value in values]
            indices += [column for column, _ in values]
            starts.append(len(data))
            lows.append((low - affine.constant) / largest)
            highs.append((high - affine.constant) / largest - (margin if movable else 0.0))
        costs = np.zeros(len(lower))
        for column, value in objective.terms.items():
            costs[column] = -value * scale[column]
        costs /= np.abs(costs).max(initial=0.0) or 1.0
        matrix = csr_matrix((data, indices, starts), shape=(len(lows), len(lower)))
        outcome = milp(
            costs,
            integrality=integer.astype(int),
            bounds=Bounds(lower / scale, upper / scale),
            constraints=LinearConstraint(matrix, lows, highs) if lows else None,
            options={"time_limit": seconds, "mip_rel_gap": 1e-9},
        )
        if outcome.x is None:
            raise GiveUpError(str(outcome.message))
        return np.asarray(outcome.x * scale)


class PlanModel:
    """The whole horizon of a problem as a model; `plan` gives its best plan."""

    def __init__(self, machine: Machine, tie: float = 2e-5) -> None:
        self.machine, self.problem, self.tie, self.model = machine, machine.problem, tie, Model()
        self.total = Affine({})
        self.factor = 1.0
        self.actions: list[list[int]] = []
        self.auxiliaries: list[list[int]] = []
        self.track: list[dict[str, Affine]] = []
        problem = self.problem
        names = {v.name: self._column(v.start, v.is_discrete) for v in problem.states}
        self.initial = [self._index(names[v.name]) for v in problem.states]
        names |= self._auxiliaries() | self._given()
        for row in machine.initial:
            self._row(row, names)
        for _ in range(problem.horizon):
            names = self._step(names)
        for row in machine.goal:
            self._row(row, names)
        self._pay(machine.final_reward, names)

    def plan(self, margin: float, seconds: float) -> Plan:
        """The best plan by the solver; the caller simulates it."""
        x = self.model.solve(self.total, margin, seconds)
        shape = self.problem.horizon + 1, len(self.problem.auxiliaries)
        auxiliaries = np.array([x[columns] for columns in self.auxiliaries]).reshape(shape)
        first = [Variable(v.name, v.kind, *v.start) for v in self.problem.states]
        return Plan(
            _into(x[self.initial], first),
            _into(np.array([x[columns] for columns in self.actions]), self.problem.actions),
            _into(auxiliaries, self.problem.auxiliaries),
        )

    def _column(self, box: tuple[float, float], integer: bool) -> Affine:
        return self.model.column(box[0], box[1], integer)

    def _index(self, affine: Affine) -> int:
        return next(iter(affine.terms))

    def _auxiliaries(self) -> dict[str, Affine]:
        found = {v.name: self._column(v.domain, v.is_discrete) for v in self.problem.auxiliaries}
        self.auxiliaries.append([self._index(affine) for affine in found.values()])
        return found

    def _given(self) -> dict[str, Affine]:
        """Series and lags of the step behind those of the track."""
        t = len(self.track)
        known = {name: Affine({}, value) for name, value in self.machine.known(t).items()}
        return known | self.machine.lagged(t, self.track, lambda value: Affine({}, value))

    def _step(self, names: dict[str, Affine]) -> dict[str, Affine]:
        """One step: its action columns, its rows and reward; returns the names of the next step."""
        acting = {v.name: self._column(v.domain, v.is_discrete) for v in self.problem.actions}
        self.actions.append([self._index(affine) for affine in acting.values()])
        names = {**names, **acting}
        self.track.append(names)
        following = self._next_states(names) | self._auxiliaries() | self._given()
        everything = names | {f"{name}'": affine for name, affine in following.items()}
        for row in self.machine.rows:
            self._row(row, everything)
        self._pay(self.machine.reward, everything)
        return following

    def _pay(self, reward: Node, names: dict[str, Affine]) -> None:
        """Add a reward to the objective, discounted by the steps before it."""
        self.total = self.total + self.model.encode(reward, names).scaled(self.factor)
        self.factor *= self.problem.discount

    def _next_states(self, names: dict[str, Affine]) -> dict[str, Affine]:
        predicted: dict[str, Affine] = {}
        network = self.problem.network
        if network is not None:
            units = [names[name] for name in network.inputs]
            for number, (weights, bias) in enumerate(network.layers):
                outputs = [_weighted(row, units, constant) for row, constant in zip(weights, bias, strict=True)]
                if number < len(network.layers) - 1:
                    units = units + [self.model.relu(output) for output in outputs]
            for name, output in zip(network.outputs, outputs, strict=True):
                predicted[name] = output + names[name] if network.delta else output
        for name, node in self.machine.transitions.items():
            primed = {f"{other}'": affine for other, affine in predicted.items()}
            predicted[name] = self.model.encode(node, names | primed)
        return {v.name: self._state(v, predicted[v.name]) for v in self.problem.states}

    def _state(self, variable: Variable, p: Affine) -> Affine:
        low, high = self.model.interval(p)
        first, last = variable.domain
        if variable.kind == "continuous":
            state = self.model.column(max(low, first), min(high, last))
            self.model.equal(p + state.scaled(-1.0))
            return state
        below = min(self.tie * max(1.0, abs(low), abs(high)), 0.3)
        if variable.kind == "boolean":
            state = self.model.column(first, last, True)
            self.model.at_most(p.scaled(-1.0) + state.scaled(0.5 - low) + Affine({}, low))
            self.model.at_most(p + state.scaled(0.5 - below - high) + Affine({}, below - 0.5))
            return state
        state = self.model.column(max(math.floor(low + 0.5), first), min(math.floor(high + 0.5), last), True)
        self.model.at_most(state + p.scaled(-1.0) + Affine({}, -0.5))
        self.model.at_most(p + state.scaled(-1.0) + Affine({}, below - 0.5))
        return state

    def _row(self, row: Row, names: dict[str, Affine]) -> None:
        affine = self.model.encode(row.node, names)
        if row.equality:
            self.model.equal(affine)
        else:
            self.model.at_most(affine, movable=True)


def _weighted(row: Array, units: list[Affine], constant: float) -> Affine:
    total = Affine({}, float(constant))
    for weight, unit in zip(row, units, strict=True):
        if weight:
            total = total + unit.scaled(float(weight))
    return total


def _into(values: Array, variables: list[Variable] | tuple[Variable, ...]) -> Array:
    """Exactly into the domains."""
    discrete = np.array([v.is_discrete for v in variables], dtype=bool)
    lower, upper = (np.array([v.domain[side] for v in variables]) for side in (0, 1))
    return np.clip(np.where(discrete, np.round(values), values), lower, upper)
