"""Series, lags, limits of change and soft rows for a problem in the making."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fuzz.draw import Draw
from fuzz.expression import Absolute, Extreme, Name, Node, Number, Product, Scaled, Sum, evaluate, write
from fuzz.problem import Array, Network, Problem, Series, Variable
from fuzz.simulate import BATCH

Values = dict[str, Any]


@dataclass(eq=False)
class Additions(Draw):
    """What is drawn of these; `series` and `lags` are the names that expressions may read, `divisors` never reach zero.

    scale: the usual size of the states.
    """

    scale: float = 1.0
    series: list[str] = field(default_factory=list)
    divisors: list[str] = field(default_factory=list)
    lags: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Everything that was added and can be read."""
        return [*self.series, *self.lags]

    # -- what there is to read

    def begin(self, draft: Problem) -> Problem:
        """Series and histories, and dynamics that read them."""
        self.kinds.add("series or lags")
        if self.note(self.chance(0.8), "series"):
            drawn = tuple(
                self.one_series(f"p{i}", draft.horizon, self.chance(0.7)) for i in range(self.count([0.6, 0.4]))
            )
            draft = replace(draft, series=drawn)
        if not draft.series or self.chance(0.4):
            self.kinds.add("lags")
            actions = tuple(self.with_history(v) for v in draft.actions)
            draft = replace(draft, states=tuple(self.with_history(v) for v in draft.states), actions=actions)
            self.lags += [
                f"lag({s.name}, {k + 1})" for s in draft.series for k in range(2 if s.repeats else len(s.history))
            ]
        for name in self.lags:
            self.sizes[name] = self.sizes[name[4:].split(",")[0]]
        return self.with_dynamics(draft)

    def one_series(self, name: str, horizon: int, is_positive: bool) -> Series:
        """Prices, that never reach zero, or numbers of either sign; two more steps than the horizon has or one."""
        size = float(self.rng.choice([1.0, 1.0, self.scale, 10.0 ** self.rng.integers(-3, 4)]))
        repeats = self.note(self.chance(0.3), "series that repeat")
        count = int(self.rng.integers(1, 4)) if repeats else horizon + 1 + int(self.chance(0.5))
        drawn = self.rng.uniform(0.3, 2.0, count + 2) if is_positive else self.rng.normal(size=count + 2)
        if not is_positive:
            drawn[self.rng.random(count + 2) < 0.15] = 0.0
        if self.note(self.chance(0.1), "series of many magnitudes"):
            drawn *= 10.0 ** self.rng.uniform(-4.0, 3.0, count + 2)
        if self.note(self.chance(0.1), "constant series"):
            drawn[:] = drawn[0]
        values = tuple(self.tidy(float(value) * size) for value in drawn)
        self.sizes[name] = size
        self.series.append(name)
        if is_positive:
            self.divisors.append(name)
        return Series(name, values[2:], repeats, values[: 0 if repeats else int(self.rng.integers(0, 3))])

    def with_history(self, variable: Variable) -> Variable:
        """What it was before the first step, in many variables."""
        if not self.chance(0.6):
            return variable
        size = self.sizes[variable.name]
        drawn = self.rng.uniform(
            variable.lower, variable.upper if variable.upper > 0.0 else size, self.count([0.6, 0.4])
        )
        history = tuple(float(round(v)) if variable.is_discrete else self.tidy(v) for v in drawn.tolist())
        self.lags += [f"lag({variable.name}, {steps + 1})" for steps in range(len(history))]
        return replace(variable, history=history)

    def with_dynamics(self, draft: Problem) -> Problem:
        """Some transitions add a series or lag, some networks read one.

        Constant series are constants, which the planner adds up in float64: no ties of discrete states hang on them.
        """
        constant = {series.name for series in draft.series if len(set(series.values)) == 1}
        changing = [name for name in self.names if not any(of in name for of in constant)]
        discrete = {v.name for v in draft.states if v.is_discrete}
        transitions = dict(draft.transitions)
        for name, text in transitions.items():
            readable = changing if name in discrete else self.names
            if readable and self.note(self.chance(0.5), "series or lags in transitions"):
                read = str(self.rng.choice(readable))
                term = write(Scaled(self.number(0.3 * self.sizes[name] / self.sizes[read]), Name(read)))
                transitions[name] = f"{text} + {f'abs({term})' if self.chance(0.3) else term}"
        network = draft.network
        if network is not None and self.names and self.note(self.chance(0.6), "series or lags into the network"):
            read = str(self.rng.choice(self.names))
            network = self.with_input(network, read)
        return replace(draft, transitions=transitions, network=network)

    def with_input(self, network: Network, name: str) -> Network:
        """One more input, which the first layer reads."""
        at = len(network.inputs)
        layers = []
        for number, (weights, bias) in enumerate(network.layers):
            is_last = number == len(network.layers) - 1
            out = np.array([self.sizes[n] for n in network.outputs]) if is_last else np.ones(len(bias))
            column = 0.7 * self.rng.normal(size=len(bias)) * out / self.sizes[name] * float(number == 0)
            layers.append((np.insert(weights, at, np.array([self.tidy(v) for v in column.tolist()]), axis=1), bias))
        return replace(network, inputs=(*network.inputs, name), layers=tuple(layers))

    def after_initial(self, draft: Problem) -> Problem:
        """Some states say nothing of their past: with one first value they stood still."""
        still = [v.start[0] == v.start[1] and bool(v.history) and self.chance(0.3) for v in draft.states]
        states = tuple(replace(v, history=()) if stands else v for v, stands in zip(draft.states, still, strict=True))
        for state in states:
            name = f"lag({state.name}, 1)"
            if state.known_past and name not in self.lags and self.chance(0.15):
                self.lags.append(name)
                self.sizes[name] = self.sizes[state.name]
        return replace(draft, states=states)

    # -- expressions

    def factor(self, may_prime: bool = True) -> tuple[Node, float]:
        """A function of series alone, and its usual size."""
        name = str(self.rng.choice(self.series))
        size = self.sizes[name]
        constant = Number(self.number(size))
        match int(self.rng.choice(7, p=[0.44, 0.15, 0.12, 0.1, 0.08, 0.05, 0.06])):
            case 1 if may_prime:
                return Name(f"{name}'"), size
            case 2:
                return Sum((Name(name), constant)), size
            case 3:
                return Absolute(Sum((Name(name), constant))), size
            case 4:
                other = str(self.rng.choice(self.series))
                return Product(Name(name), Name(other)), size * self.sizes[other]
            case 5:
                return Extreme(self.chance(0.5), (Name(name), constant)), size
            case 6 if self.divisors:
                return Product(Name(self.divisors[0]), constant, divides=True), size / self.sizes[self.divisors[0]]
        return Name(name), size

    def product(self, readable: list[str], size: float, depth: int, may_prime: bool = True) -> Node:
        """A function times a factor, or divided by one."""
        if self.divisors and self.note(self.chance(0.25), "quotients by series"):
            name = str(self.rng.choice(self.divisors))
            by: Node = Name(name)
            if self.chance(0.3):
                by = Sum((by, Number(abs(self.number(self.sizes[name])))))
            return Product(by, self.function(readable, size * self.sizes[name], depth), divides=True)
        self.kinds.add("products with series")
        factor, factor_size = self.factor(may_prime)
        return Product(factor, self.function(readable, size / factor_size, depth))

    def reward(self, node: Node, readable: list[str], size: float, may_prime: bool = True) -> Node:
        """A reward with products, inside abs or max too, and with what lags cost."""
        if self.series and self.chance(0.85):
            term = self.product(readable, size, int(self.rng.integers(3)), may_prime)
            if self.chance(0.3):
                other = self.affine(readable, size)
                term = Scaled(self.number(), Extreme(self.chance(0.5), (term, other)))
            elif self.chance(0.3):
                term = Scaled(self.number(), Absolute(Sum((term, self.affine(readable, size)))))
            node = term if self.chance(0.2) else Sum((node, term))
        if self.series and self.chance(0.15):
            node = Product(Name(str(self.rng.choice(self.series))), node)
        if self.lags and self.chance(0.6):
            name = str(self.rng.choice(self.lags))
            change = Sum((Name(name[4:].split(",")[0]), Scaled(-1.0, Name(name)))) if may_prime else Name(name)
            node = Sum((node, Scaled(self.number(size / self.sizes[name]), Absolute(change))))
        return node

    # -- rows, bounds and limits that a reference plan keeps

    def finish(self, draft: Problem, steps: Values, size: float) -> Problem:
        """Everything that is built around a plan; steps: its values, (1, H). size: of the reward."""
        final = {name[:-1]: values[:, -1:] for name, values in steps.items() if name.endswith("'")}
        constraints, goal = list(draft.constraints), list(draft.goal)
        if self.series and self.note(self.chance(0.5), "rows with series"):
            constraints.append(self.row(self.readable(steps), steps))
        if self.series and self.note(self.chance(0.2), "goals with series"):
            goal.append(self.row(self.readable(final), final, may_prime=False))
        draft = replace(draft, constraints=tuple(constraints), goal=tuple(goal))
        draft = self.with_series_bounds(draft, steps)
        draft = replace(draft, actions=tuple(self.with_max_change(v, steps[v.name][0]) for v in draft.actions))
        if self.note(self.chance(0.4), "soft rows"):
            rows = tuple(self.soft_row(self.readable(steps), steps, size) for _ in range(self.count([0.7, 0.3])))
            draft = replace(draft, soft=rows)
        return draft

    def readable(self, values: Values) -> list[str]:
        """What rows may read: no auxiliaries, which the reference plan does not choose, and no next values of lags."""
        known = [name for name in values if name.rstrip("'") in self.sizes and not name.startswith("x")]
        return [name for name in known if not (name.startswith("lag(") and name.endswith("'"))]

    def row(self, readable: list[str], values: Values, may_prime: bool = True) -> str:
        """A product, or a sum with one, that the reference plan keeps."""
        size = 1.0 if self.chance(0.5) else self.scale
        node = self.product(readable, size, int(self.chance(0.3)), may_prime)
        if self.chance(0.5):
            node = Sum((node, self.affine(readable, size)))
        there = float(np.max(evaluate(node, values, BATCH)))
        slack = size * float(self.rng.choice([0.0, 0.1, 0.5, 1.0]))
        return f"{write(node)} <= {write(Number(self.tidy(there + slack) if slack else there))}"

    def with_series_bounds(self, draft: Problem, steps: Values) -> Problem:
        """Some bounds of variables as series around the reference plan, one step more than is needed."""
        added: list[Series] = []

        def bounded(variable: Variable) -> Variable:
            if variable.kind == "boolean" or not self.chance(0.25):
                return variable
            self.kinds.add("series as bounds")
            path = steps[variable.name][0]
            last = steps[variable.name + "'"][0, -1:] if variable.name + "'" in steps else path[-1:]
            path = np.concatenate([path, last, last])
            for side in ("ceiling", "floor") if self.chance(0.3) else ("ceiling",) if self.chance(0.7) else ("floor",):
                name = f"p{len(draft.series) + len(added)}"
                added.append(Series(name, self.bound(variable, path, 1.0 if side == "ceiling" else -1.0)))
                changes: Values = {side: name}
                variable = replace(variable, **changes)
            return variable

        groups: Values = {
            key: tuple(bounded(v) for v in getattr(draft, key)) for key in ("states", "actions", "auxiliaries")
        }
        return replace(draft, **groups).with_series((*draft.series, *added))

    def bound(self, variable: Variable, path: Array, sign: float) -> tuple[float, ...]:
        """A path that stays off the reference by some room, and within the bounds that there were."""
        room = self.sizes[variable.name] * self.rng.uniform(0.0, 1.0, len(path)) * float(self.rng.choice([0.1, 1.0]))
        if variable.is_discrete:
            room = np.ceil(room)
        off = np.maximum(sign * path, np.minimum(sign * path + room, variable.upper if sign > 0 else -variable.lower))
        return tuple((sign * off).tolist())

    def with_max_change(self, action: Variable, path: Array) -> Variable:
        """A limit of how fast an action changes, which the reference plan keeps."""
        if not action.history or not self.note(self.chance(0.5), "max_change"):
            return action
        changes = np.diff(np.concatenate([[action.history[0]], path]))
        room = self.sizes[action.name] * float(self.rng.choice([0.0, 0.1, 0.5]))
        down, up = min(float(changes.min()), 0.0) - room, max(float(changes.max()), 0.0) + room
        return replace(action, max_change=(-max(up, -down), max(up, -down)) if self.chance(0.5) else (down, up))

    def soft_row(self, readable: list[str], values: Values, reward_size: float) -> tuple[str, float]:
        """A row that the reference plan keeps or breaks, and what that costs."""
        size = 1.0 if self.chance(0.5) else self.scale
        product = self.series and self.chance(0.4)
        node = self.product(readable, size, 0) if product else self.function(readable, size, int(self.chance(0.3)))
        there = float(np.median(evaluate(node, values, BATCH))) + size * float(self.rng.choice([-0.5, 0.0, 0.5]))
        sign = "==" if self.chance(0.2) else str(self.rng.choice(["<=", ">="]))
        weight = self.tidy(reward_size / size * 10.0 ** float(self.rng.uniform(-1.0, 1.5)))
        return f"{write(node)} {sign} {write(Number(self.tidy(there)))}", weight
