"""The fuzzer's own simulator: many plans at once in float64, or one plan in exact fractions.

Nothing here is shared with the planner. s' is the network's output (plus s if it predicts differences) or the known
transition, which may read next values of continuous states. Integer states take the nearest integer, halves up; boolean
states are 1 if the prediction is at least 1/2. lag(x, k) is looked up in what was k steps ago.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fuzz.expression import (
    Absolute,
    Algebra,
    Extreme,
    Node,
    Number,
    Row,
    Scaled,
    Sum,
    evaluate,
    lag_of,
    names,
    parse,
    parse_row,
)
from fuzz.problem import STILL, Array, Problem, Variable

TIE_DISTANCE = 1e-5
"""A plan is a counterexample only if no prediction of a discrete state lies closer below a tie, times max(1, |p|)."""

WIDEST_TIE_DISTANCE = 0.25
"""However large the prediction, one in the middle between two ties is no tie."""

EQUALITY = 1e-15
"""What an equality row may miss, relative to the size of its terms."""

EPSILON = 2.0**-52
NOISE_FACTOR = 16.0
"""Roundings per operation that another order of the same sums may take."""


@dataclass(frozen=True, eq=False)
class Plan:
    """First state (n,), actions (H, m) and auxiliaries (H+1, k)."""

    initial: Array
    actions: Array
    auxiliaries: Array

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return {key: getattr(self, key).tolist() for key in ("initial", "actions", "auxiliaries")}

    @classmethod
    def of_record(cls, record: Mapping[str, Any], auxiliary_count: int) -> Plan:
        actions = np.array(record["actions"], dtype=np.float64)
        auxiliaries = np.array(record["auxiliaries"], dtype=np.float64).reshape(len(actions) + 1, auxiliary_count)
        return cls(np.array(record["initial"], dtype=np.float64), actions, auxiliaries)


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Many simulated plans: the plans as simulated (definitions filled in), rewards, largest relative violations."""

    initial: Array
    actions: Array
    auxiliaries: Array
    states: Array
    rewards: Array
    violations: Array
    clear: NDArray[np.bool_]

    def plan(self, index: int) -> Plan:
        return Plan(self.initial[index], self.actions[index], self.auxiliaries[index])


@dataclass(frozen=True)
class Amount:
    """By how much a row is exceeded at a step (negative: slack), the size of its terms, and float64's share in it.

    scale: the size that its terms can have at all, by the bounds of its variables.
    """

    text: str
    step: int
    amount: Fraction
    size: float
    scale: float
    noise: float
    equality: bool

    @property
    def relative(self) -> float:
        return float(self.amount) / self.size if self.size else float(self.amount)

    @property
    def holds(self) -> bool:
        """Exactly, if it is an inequality; within 1e-15 of the size of its terms, if it is an equality."""
        return abs(self.amount) <= EQUALITY * self.size if self.equality else self.amount <= 0


@dataclass(frozen=True, eq=False)
class ExactRun:
    """One plan in exact arithmetic.

    noise: how far a float64 simulation may be from the reward. tie: the smallest distance of a discrete prediction
    below a tie, relative to what is asked (>= 1 is clear). margin: the smallest distance from any tie, over its noise.
    """

    reward: Fraction
    noise: float
    amounts: tuple[Amount, ...]
    states: tuple[tuple[Fraction, ...], ...]
    tie: float
    tie_margin: float

    @property
    def is_strict(self) -> bool:
        """Whether the plan counts against a bound: every row holds and no discrete prediction is close below a tie."""
        return self.tie >= 1.0 and all(amount.holds for amount in self.amounts)

    @property
    def is_exact(self) -> bool:
        """Whether every equality holds exactly, so that tolerance has no part in the reward."""
        return all(not amount.equality or amount.amount == 0 for amount in self.amounts)

    @property
    def worst(self) -> Amount | None:
        return max(self.amounts, key=lambda a: abs(a.relative) if a.equality else a.relative, default=None)


@dataclass(frozen=True)
class Noisy:
    """A float with a bound on the error that rounding may have put into it."""

    value: float
    noise: float

    def __add__(self, other: Noisy) -> Noisy:
        value = self.value + other.value
        size = abs(self.value) + abs(other.value)
        return Noisy(value, self.noise + other.noise + NOISE_FACTOR * EPSILON * size)

    def __mul__(self, other: Noisy) -> Noisy:
        value = self.value * other.value
        noise = self.noise * abs(other.value) + other.noise * (abs(self.value) + self.noise)
        return Noisy(value, noise + NOISE_FACTOR * EPSILON * abs(value))

    def __truediv__(self, other: Noisy) -> Noisy:
        value = self.value / other.value
        noise = (self.noise + other.noise * abs(value)) / max(abs(other.value) - other.noise, math.ulp(0.0))
        return Noisy(value, noise + NOISE_FACTOR * EPSILON * abs(value))


BATCH = Algebra(float, lambda values: np.maximum.reduce(np.broadcast_arrays(*values)))
SIZE = Algebra(abs, lambda values: np.maximum.reduce(np.broadcast_arrays(*values)))
EXACT = Algebra(Fraction, max)
NOISY = Algebra(
    lambda value: Noisy(value, 0.0),
    lambda values: Noisy(max(v.value for v in values), max(v.noise for v in values)),
)


class Machine:
    """A problem made ready to run."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.reward = _with_penalties(parse(problem.reward), problem.soft)
        self.rows = [parse_row(text) for text in (*problem.constraints, *problem.step_rows)]
        self.goal = [parse_row(text) for text in (*problem.goal, *problem.state_rows)]
        self.initial = [parse_row(text) for text in problem.initial]
        self.final_reward = Number(0.0) if problem.final_reward is None else parse(problem.final_reward)
        self.transitions = _in_order({name: parse(text) for name, text in problem.transitions.items()})
        free = {v.name for v in (*problem.actions, *problem.auxiliaries) if not v.is_discrete}
        self.definitions = _definitions(self.rows, free)
        self.final_definitions = _definitions(self.goal, {v.name for v in problem.auxiliaries if not v.is_discrete})
        self.series = {series.name: series for series in problem.series}
        self.lags = _lags(problem)

    def known(self, t: int) -> dict[str, float]:
        """Series and their lags at a step (from 0)."""
        found = {name: series.at(t) for name, series in self.series.items()}
        return found | {
            name: self.series[of].at(t - steps) for name, (of, steps) in self.lags.items() if of in self.series
        }

    def lagged(self, t: int, track: Sequence[Mapping[str, Any]], number: Callable[[float], Any]) -> dict[str, Any]:
        """Lags of states and actions at a step; track: all values of the steps before it."""
        variables = {v.name: v for v in self.problem.variables}
        return {
            name: track[t - steps][of] if t >= steps else number(variables[of].before(steps - t))
            for name, (of, steps) in self.lags.items()
            if of in variables
        }

    def rollout(self, initial: Array, actions: Array, auxiliaries: Array) -> Rollouts:
        """Simulate a batch: initial (B, n), actions (B, H, m), auxiliaries (B, H+1, k)."""
        problem = self.problem
        actions, auxiliaries = actions.copy(), auxiliaries.copy()
        states = np.empty((len(initial), problem.horizon + 1, len(problem.states)))
        predictions = np.empty((len(initial), problem.horizon, len(problem.states)))
        states[:, 0] = initial
        track: list[dict[str, Any]] = []
        with np.errstate(all="ignore"):
            for t in range(problem.horizon):
                values = self._named(states[:, t], actions[:, t], auxiliaries[:, t], track)
                self._define(self.definitions, values, actions[:, t], auxiliaries[:, t])
                track.append(values)
                predictions[:, t] = self._predict(values)
                states[:, t + 1] = self._round(predictions[:, t])
            last = self._named(states[:, -1], actions[:, -1], auxiliaries[:, -1], track)
            self._define(self.final_definitions, last, actions[:, -1], auxiliaries[:, -1])
            steps = _steps([*track, last], {v.name for v in problem.actions})
            rewards = np.broadcast_to(evaluate(self.reward, steps, BATCH), actions.shape[:2])
            rewards = rewards @ problem.discount ** np.arange(float(problem.horizon))
            rewards = rewards + problem.discount**problem.horizon * evaluate(self.final_reward, last, BATCH)
            violations = self._violations(states, actions, auxiliaries, steps)
            clear = self._clear(predictions, states[:, 1:])
        rewards = np.where(np.isfinite(rewards), rewards, -np.inf)
        violations = np.where(np.isfinite(violations) & np.isfinite(rewards), violations, np.inf)
        return Rollouts(initial, actions, auxiliaries, states, rewards, violations, clear)

    def exact(self, plan: Plan, define: bool = True) -> ExactRun:
        """Run one plan in fractions; `define`: auxiliaries and actions that a row defines take its exact value."""
        return _ExactRunner(self, plan, define).run()

    def steps(self, runs: Rollouts) -> dict[str, Any]:
        """The values of every name at every step, (B, H), as `_steps` has them."""
        track: list[dict[str, Any]] = []
        for t in range(self.problem.horizon + 1):
            actions = runs.actions[:, min(t, self.problem.horizon - 1)]
            track.append(self._named(runs.states[:, t], actions, runs.auxiliaries[:, t], track))
        return _steps(track, {v.name for v in self.problem.actions})

    def _named(
        self, states: Array, actions: Array, auxiliaries: Array, track: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Every name of the step behind those of the track."""
        problem = self.problem
        groups = ((problem.states, states), (problem.actions, actions), (problem.auxiliaries, auxiliaries))
        found = {v.name: values[:, i] for group, values in groups for i, v in enumerate(group)}
        given = self.known(len(track)) | self.lagged(len(track), track, float)
        return found | {name: np.broadcast_to(value, len(states)) for name, value in given.items()}

    def _define(
        self, definitions: Sequence[tuple[str, Node]], values: dict[str, Any], actions: Array, auxiliaries: Array
    ) -> None:
        for name, node in definitions:
            value = evaluate(node, values, BATCH)
            target, index = self._place(name)
            (actions if target == "action" else auxiliaries)[:, index] = value
            values[name] = np.broadcast_to(value, len(actions))

    def _place(self, name: str) -> tuple[str, int]:
        for index, variable in enumerate(self.problem.actions):
            if variable.name == name:
                return "action", index
        return "auxiliary", [v.name for v in self.problem.auxiliaries].index(name)

    def _predict(self, values: Mapping[str, Any]) -> Array:
        problem, network = self.problem, self.problem.network
        found: dict[str, Any] = {}
        if network is not None:
            inputs = np.stack([values[name] for name in network.inputs], axis=1)
            for weights, bias in network.layers[:-1]:
                inputs = np.hstack([inputs, np.maximum(inputs @ weights.T + bias, 0.0)])
            outputs = inputs @ network.layers[-1][0].T + network.layers[-1][1]
            for index, name in enumerate(network.outputs):
                found[name] = outputs[:, index] + (values[name] if network.delta else 0.0)
        for name, node in self.transitions.items():
            found[name] = evaluate(node, {**values, **_primed(found)}, BATCH)
        size = len(next(iter(values.values())))
        return np.stack([np.broadcast_to(found[v.name], size) for v in problem.states], axis=1)

    def _round(self, predictions: Array) -> Array:
        rounded = predictions.copy()
        for index, variable in enumerate(self.problem.states):
            p = predictions[:, index]
            if variable.kind == "integer":
                rounded[:, index] = np.floor(p) + (p - np.floor(p) >= 0.5)
            elif variable.kind == "boolean":
                rounded[:, index] = p >= 0.5
        return rounded

    def _clear(self, predictions: Array, states: Array) -> NDArray[np.bool_]:
        """Whether every discrete prediction keeps its distance from the tie above it."""
        clear = np.ones(len(predictions), dtype=bool)
        for index, variable in enumerate(self.problem.states):
            if variable.is_discrete:
                p, value = predictions[..., index], states[..., index]
                below = value + 0.5 - p
                enough = np.minimum(TIE_DISTANCE * np.maximum(1.0, np.abs(p)), WIDEST_TIE_DISTANCE)
                ok = below >= enough
                if variable.kind == "boolean":
                    ok |= value == 1.0
                clear &= ok.all(axis=1)
        return clear

    def _violations(self, states: Array, actions: Array, auxiliaries: Array, steps: Mapping[str, Any]) -> Array:
        problem = self.problem
        worst = np.full(len(states), -np.inf)
        for rows, values in (
            (self.rows, steps),
            (self.initial, {name: value[:, :1] for name, value in steps.items()}),
            (self.goal, {key.removesuffix("'"): v[:, -1:] for key, v in steps.items() if key.endswith("'")}),
        ):
            for row in rows:
                worst = np.maximum(worst, _relative(row, values))
        first = [Variable(v.name, v.kind, *v.start) for v in problem.states]
        computed = {name for name, _ in (*self.definitions, *self.final_definitions)}
        computed |= {v.name for v in problem.states if not v.is_discrete}
        for group, taken in (
            (problem.states, states[:, 1:]),
            (problem.actions, actions),
            (problem.auxiliaries, auxiliaries),
        ):
            for index, variable in enumerate(group):
                worst = np.maximum(worst, _outside(variable, taken[..., index], variable.name not in computed))
        for index, variable in enumerate(first):
            worst = np.maximum(worst, _outside(variable, states[:, :1, index], True))
        return worst


def _steps(track: Sequence[Mapping[str, Any]], actions: set[str]) -> dict[str, Any]:
    """The values of all names at steps 1..H, (B, H), and with ' those of the steps behind them."""
    found: dict[str, Any] = {}
    for name in track[0]:
        values = np.stack([values[name] for values in track], axis=1)
        found[name] = values[:, :-1]
        if name not in actions:
            found[name + "'"] = values[:, 1:]
    return found


def _with_penalties(reward: Node, soft: Sequence[tuple[str, float]]) -> Node:
    """The reward without what soft rows cost."""
    for text, weight in soft:
        row = parse_row(text)
        broken = Absolute(row.node) if row.equality else Extreme(True, (row.node, Number(0.0)))
        reward = Sum((reward, Scaled(-weight, broken)))
    return reward


def _lags(problem: Problem) -> dict[str, tuple[str, int]]:
    """The names that look back, with what and how far: those that are read, and those that could be."""
    found = {name: lag for name in sorted(names_read(problem)) if (lag := lag_of(name)) is not None}
    variables = {v.name: v for v in (*problem.states, *problem.actions)}
    for of, steps in found.values():
        if of in variables:
            variables[of].before(steps)  # ValueError if it has no past
    longest = {name: v.known_past for name, v in variables.items()}
    longest |= {series.name: STILL if series.repeats else len(series.history) for series in problem.series}
    return found | {f"lag({of}, {k + 1})": (of, k + 1) for of, steps in longest.items() for k in range(steps)}


def names_read(problem: Problem) -> set[str]:
    """Every name that something in a problem reads."""
    rows = (*problem.constraints, *problem.goal, *problem.initial, *(row for row, _ in problem.soft))
    others = [problem.reward, *([] if problem.final_reward is None else [problem.final_reward])]
    read = set(() if problem.network is None else problem.network.inputs)
    read |= {name for text in (*rows, *problem.step_rows) for name in names(parse_row(text).node)}
    return read | {name for text in (*others, *problem.transitions.values()) for name in names(parse(text))}


def _in_order(transitions: dict[str, Node]) -> dict[str, Node]:
    """The transitions, each behind those whose next values it reads."""
    ordered: dict[str, Node] = {}
    while len(ordered) < len(transitions):
        ready = {
            name: node
            for name, node in transitions.items()
            if name not in ordered and not any(f"{other}'" in names(node) for other in transitions.keys() - ordered)
        }
        if not ready:
            raise ValueError("transitions wait for each other")
        ordered |= ready
    return ordered


def _primed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}'": value for name, value in values.items()}


def _relative(row: Row, values: Mapping[str, Any]) -> Array:
    """The largest violation over the steps, relative to the size of the terms; shape (B,)."""
    amount = np.asarray(evaluate(row.node, values, BATCH))
    size = np.asarray(evaluate(row.node, {name: np.abs(value) for name, value in values.items()}, SIZE))
    if amount.ndim == 0:
        return np.asarray(amount)
    relative = amount / np.where(size > 0.0, size, 1.0)
    if row.equality:
        relative = np.where(np.abs(relative) <= EQUALITY, -np.inf, np.abs(relative))
    return np.asarray(relative.max(axis=1))


def _outside(variable: Variable, values: Array, given: bool) -> Array:
    """The same for a variable's bounds; a given value (not a computed one) on its bound is inside by any measure."""
    lower, upper = variable.domain
    worst = np.full(len(values), -np.inf)
    for amount, bound in ((lower - values, lower), (values - upper, upper)):
        if math.isfinite(bound):
            size = np.abs(values) + abs(bound)
            relative = amount / np.where(size > 0.0, size, 1.0)
            relative = np.where((amount == 0.0) & given, -np.inf, relative)
            worst = np.maximum(worst, relative.max(axis=1))
    return worst


def _definitions(rows: Sequence[Row], free: set[str]) -> list[tuple[str, Node]]:
    """Rows `name == expression` over what is known before; each name once, none that a later one changes."""
    found: list[tuple[str, Node]] = []
    for row in rows:
        if row.defines is None or row.defines[0] not in free:
            continue
        name, node = row.defines
        read = names(node)
        known = {other for other, _ in found}
        if name in known or any(r.endswith("'") for r in read):
            continue
        if any(name in names(other) for _, other in found):
            continue
        found.append((name, node))
    return found


class _ExactRunner:
    """The steps of `Machine.exact`: each value as a fraction, and beside it float64's view of it."""

    def __init__(self, machine: Machine, plan: Plan, define: bool) -> None:
        self.machine, self.problem, self.plan, self.define = machine, machine.problem, plan, define
        self.amounts: list[Amount] = []
        self.tie = self.tie_margin = math.inf
        self.noise = 0.0
        ends = {v.name: [abs(b) for b in v.domain if math.isfinite(b)] for v in self.problem.variables}
        self.reach = {name: max(values, default=0.0) for name, values in ends.items()}
        for name, (of, _) in machine.lags.items():
            self.reach[name] = self.reach.get(of, 0.0)
        self.exact_track: list[dict[str, Any]] = []
        self.noisy_track: list[dict[str, Any]] = []

    def run(self) -> ExactRun:
        problem, plan = self.problem, self.plan
        state = [Fraction(float(value)) for value in plan.initial]
        noise = [0.0] * len(state)
        path, total = [tuple(state)], Fraction(0)
        exact, noisy = self._values(state, noise, 0)
        for variable in problem.states:
            first = Variable(variable.name, variable.kind, *variable.start)
            self._domain(first, exact[variable.name], 1)
        self._rows(self.machine.initial, exact, noisy, 1)
        for t in range(problem.horizon):
            self._domains(exact, t)
            state, noise = self._step(exact, noisy)
            path.append(tuple(state))
            following, noisy_following = self._values(state, noise, t + 1)
            exact_step = {**exact, **{f"{name}'": value for name, value in following.items()}}
            noisy_step = {**noisy, **{f"{name}'": value for name, value in noisy_following.items()}}
            self._rows(self.machine.rows, exact_step, noisy_step, t + 1)
            total += self._paid(self.machine.reward, exact_step, noisy_step, t)
            exact, noisy = following, noisy_following
        total += self._paid(self.machine.final_reward, exact, noisy, problem.horizon)
        self._domains(exact, problem.horizon)
        self._rows(self.machine.goal, exact, noisy, problem.horizon + 1)
        return ExactRun(total, self.noise, tuple(self.amounts), tuple(path), self.tie, self.tie_margin)

    def _paid(self, reward: Node, exact: dict[str, Any], noisy: dict[str, Any], t: int) -> Fraction:
        """A reward at step t, discounted; float64's share in it is added to the noise."""
        factor = Fraction(self.problem.discount) ** t
        share = evaluate(reward, noisy, NOISY)
        self.noise += float(factor) * (share.noise + (t + 1) * NOISE_FACTOR * EPSILON * abs(share.value))
        return factor * Fraction(evaluate(reward, exact, EXACT))

    def _values(self, state: list[Fraction], noise: list[float], t: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """All names of step t; at the end there is no action left."""
        problem, plan = self.problem, self.plan
        exact: dict[str, Any] = {v.name: value for v, value in zip(problem.states, state, strict=True)}
        noisy: dict[str, Any] = {
            v.name: Noisy(float(value), error) for v, value, error in zip(problem.states, state, noise, strict=True)
        }
        groups = [(problem.auxiliaries, plan.auxiliaries[t])]
        if t < problem.horizon:
            groups.append((problem.actions, plan.actions[t]))
        for group, values in groups:
            for variable, value in zip(group, values, strict=True):
                exact[variable.name] = Fraction(float(value))
                noisy[variable.name] = Noisy(float(value), 0.0)
        for name, value in self.machine.known(t).items():
            exact[name], noisy[name] = Fraction(value), Noisy(value, 0.0)
        exact |= self.machine.lagged(t, self.exact_track, Fraction)
        noisy |= self.machine.lagged(t, self.noisy_track, NOISY.number)
        definitions = self.machine.definitions if t < problem.horizon else self.machine.final_definitions
        for name, node in definitions if self.define else ():
            exact[name] = evaluate(node, exact, EXACT)
            noisy[name] = evaluate(node, noisy, NOISY)
        self.exact_track.append(exact)
        self.noisy_track.append(noisy)
        return exact, noisy

    def _step(self, exact: dict[str, Any], noisy: dict[str, Any]) -> tuple[list[Fraction], list[float]]:
        found: dict[str, Fraction] = {}
        errors: dict[str, float] = {}
        if self.problem.network is not None:
            self._network(exact, noisy, found, errors)
        for name, node in self.machine.transitions.items():
            known = {key: Noisy(float(value), errors[key]) for key, value in found.items()}
            errors[name] = evaluate(node, {**noisy, **_primed(known)}, NOISY).noise
            found[name] = evaluate(node, {**exact, **_primed(found)}, EXACT)
        state, noise = [], []
        for variable in self.problem.states:
            p, error = found[variable.name], errors[variable.name]
            if variable.is_discrete:
                p = self._discrete(variable, p, error)
                error = 0.0
            state.append(p)
            noise.append(error)
        return state, noise

    def _network(
        self, exact: dict[str, Any], noisy: dict[str, Any], found: dict[str, Fraction], errors: dict[str, float]
    ) -> None:
        network = self.problem.network
        assert network is not None
        values = [exact[name] for name in network.inputs]
        noise = [noisy[name].noise for name in network.inputs]
        for number, (weights, bias) in enumerate(network.layers):
            outputs, output_noise = [], []
            for row, constant in zip(weights.tolist(), bias.tolist(), strict=True):
                used = [(w, v, e) for w, v, e in zip(row, values, noise, strict=True) if w]
                outputs.append(sum((Fraction(w) * v for w, v, _ in used), Fraction(constant)))
                size = abs(constant) + sum(abs(w) * float(abs(v)) for w, v, _ in used)
                output_noise.append(sum(abs(w) * e for w, _, e in used) + NOISE_FACTOR * EPSILON * size)
            if number < len(network.layers) - 1:
                values = values + [max(value, Fraction(0)) for value in outputs]
                noise = noise + output_noise
        for name, value, error in zip(network.outputs, outputs, output_noise, strict=True):
            found[name] = value + (exact[name] if network.delta else 0)
            size = abs(float(found[name])) + (abs(noisy[name].value) if network.delta else 0.0)
            errors[name] = error + (noisy[name].noise if network.delta else 0.0) + EPSILON * size

    def _discrete(self, variable: Variable, p: Fraction, noise: float) -> Fraction:
        half = Fraction(1, 2)
        value = Fraction(math.floor(p + half)) if variable.kind == "integer" else Fraction(int(p >= half))
        top = variable.kind == "boolean" and value == 1
        bottom = variable.kind == "boolean" and value == 0
        above = math.inf if top else float(value + half - p)
        below = math.inf if bottom else float(p - (value - half))
        enough = min(TIE_DISTANCE * max(1.0, abs(float(p))), WIDEST_TIE_DISTANCE)
        self.tie = min(self.tie, above / enough)
        if noise > 0.0:
            self.tie_margin = min(self.tie_margin, above / noise, below / noise)
        return value

    def _domains(self, values: dict[str, Any], t: int) -> None:
        groups = [self.problem.states, self.problem.auxiliaries]
        if t < self.problem.horizon:
            groups.append(self.problem.actions)
        for group in groups:
            for variable in group:
                self._domain(variable, values[variable.name], t + 1)

    def _domain(self, variable: Variable, value: Fraction, step: int) -> None:
        lower, upper = variable.domain
        for bound, sign in ((lower, -1), (upper, 1)):
            if math.isfinite(bound):
                amount = sign * (value - Fraction(bound))
                size = float(abs(value)) + abs(bound)
                text = f"{variable.name} {'>=' if sign < 0 else '<='} {bound!r}"
                scale = max(size, *(abs(b) for b in variable.domain if math.isfinite(b)))
                self.amounts.append(Amount(text, step, amount, size, scale, NOISE_FACTOR * EPSILON * size, False))
        if variable.is_discrete:
            amount = abs(value - math.floor(value + Fraction(1, 2)))
            self.amounts.append(Amount(f"{variable.name} is {variable.kind}", step, amount, 1.0, 1.0, 0.0, False))

    def _rows(self, rows: Sequence[Row], exact: dict[str, Any], noisy: dict[str, Any], step: int) -> None:
        sizes = {name: abs(value.value) for name, value in noisy.items()}
        largest = {name: max(size, self.reach.get(name.rstrip("'"), 0.0)) for name, size in sizes.items()}
        for row in rows:
            amount = evaluate(row.node, exact, EXACT)
            size = float(evaluate(row.node, sizes, Algebra(abs, max)))
            scale = float(evaluate(row.node, largest, Algebra(abs, max)))
            noise = evaluate(row.node, noisy, NOISY).noise
            self.amounts.append(Amount(row.text, step, Fraction(amount), size, scale, noise, row.equality))
