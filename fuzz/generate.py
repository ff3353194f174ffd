"""Random problems, each fully determined by its seed, whoever draws it and in whatever order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from fuzz.additions import Additions
from fuzz.draw import Draw
from fuzz.expression import Absolute, Name, Node, Number, Scaled, Sum, evaluate, names, write
from fuzz.problem import Array, Network, Problem, Variable
from fuzz.simulate import BATCH, Machine, Rollouts

ADDED_SHARE = 0.3
"""Of problems with series, lags or soft rows."""


def generate(seed: int) -> Problem:
    """The problem of a seed."""
    drawing = _Drawing(np.random.default_rng([seed, 11]), later=np.random.default_rng([seed, 13]))
    return drawing.problem(np.random.default_rng([seed, 17]))


@dataclass(eq=False, kw_only=True)
class _Drawing(Draw):
    """One problem in the making.

    later: draws what was added later, so that seeds without it still give the problems that they gave before. added:
    series, lags and soft rows, drawn by a generator of their own for the same reason; None in most problems.
    """

    later: Generator
    added: Additions | None = None

    def problem(self, latest: Generator) -> Problem:
        self.dyadic = self.chance(0.3)
        self.digits = int(self.rng.choice([2, 4, 17]))
        self.state_size = self.magnitude(0.65, "states")
        self.reward_size = self.magnitude(0.65, "reward")
        states = tuple(
            self.variable(f"s{i}", 0.6, self.state_size) for i in range(self.count([0.45, 0.35, 0.15, 0.05]))
        )
        actions = tuple(self.variable(f"a{i}", 0.55, self.action_size()) for i in range(self.count([0.55, 0.3, 0.15])))
        auxiliaries = tuple(self.variable(f"x{i}", 0.9, 1.0) for i in range(int(self.chance(0.2))))
        horizon = int(self.rng.choice([1, 2, 3, 4, 5, 6], p=[0.2, 0.25, 0.25, 0.14, 0.1, 0.06]))
        draft = Problem(horizon, states, actions, auxiliaries, None, {}, "0.0")
        draft = self.with_dynamics(draft)
        if latest.random() < ADDED_SHARE:
            self.added = Additions(latest, self.sizes, self.kinds, self.dyadic, self.digits, self.state_size)
            draft = self.added.begin(draft)
        draft = self.with_auxiliary_rows(draft)
        draft = self.with_initial(draft)
        if self.added is not None:
            draft = self.added.after_initial(draft)
        draft = replace(draft, reward=write(self.reward(draft)))
        draft = self.with_bounds_and_rows(draft)
        draft = self.with_final_reward(draft)
        self.note(self.dyadic, "exact kinks")
        self.kinds.add(f"horizon {horizon}")
        return replace(draft, kinds=tuple(sorted(self.kinds)))

    @property
    def added_names(self) -> list[str]:
        """Series and lags that expressions may read."""
        return [] if self.added is None else self.added.names

    # -- numbers

    def magnitude(self, usual: float, what: str) -> float:
        """1, or a power of ten from 1e-6 to 1e9."""
        if self.chance(usual):
            return 1.0
        exponent = int(self.rng.integers(-6, 10))
        self.note(exponent < -2, f"tiny {what}")
        self.note(exponent > 2, f"huge {what}")
        return 10.0**exponent

    def action_size(self) -> float:
        return self.state_size if self.chance(0.3) else 1.0

    def variable(self, name: str, continuous: float, size: float) -> Variable:
        """Kind and domain; the bounds of continuous states and of auxiliaries come later, from a reference plan."""
        what = {"s": "state", "a": "action", "x": "auxiliary"}[name[0]]
        if self.chance(continuous):
            self.sizes[name] = size
            low = -size if self.chance(0.5) else 0.0
            return Variable(name, "continuous", low, self.tidy(size * float(self.rng.uniform(0.5, 2.0))))
        if self.chance(0.4):
            self.sizes[name] = 1.0
            self.kinds.add(f"boolean {what}")
            return Variable(name, "boolean", 0.0, 1.0)
        wide = self.note(self.chance(0.35), "wide integers")
        reach = float(round(10.0 ** self.rng.uniform(3, 9))) if wide else float(self.rng.integers(1, 6))
        self.sizes[name] = reach
        self.kinds.add(f"integer {what}")
        return Variable(name, "integer", -reach if self.chance(0.6) else 0.0, reach)

    # -- dynamics

    def with_dynamics(self, draft: Problem) -> Problem:
        """Each state from the network or from a known transition."""
        known = [v for v in draft.states if self.chance(0.25)]
        if self.chance(0.12):
            known = list(draft.states)
        learned = [v for v in draft.states if v not in known]
        transitions = {v.name: write(self.transition(draft, v)) for v in known}
        self.note(bool(known), "known transitions")
        network = self.network(draft, learned) if learned else None
        self.note(network is None, "no network")
        self.read_next_states(draft, learned, transitions)
        return replace(draft, network=network, transitions=transitions)

    def read_next_states(self, draft: Problem, learned: list[Variable], transitions: dict[str, str]) -> None:
        """Some known transitions read next values: of learned states, or of known ones that come before them."""
        before = [v for v in learned if not v.is_discrete]
        for variable in draft.states:
            if variable.name not in transitions:
                continue
            if before and self.later.random() < 0.4:
                other = before[int(self.later.integers(len(before)))]
                factor = self.tidy(float(self.later.normal()) * self.sizes[variable.name] / self.sizes[other.name])
                term = write(Scaled(factor, Name(f"{other.name}'")))
                transitions[variable.name] += f" + {f'abs({term})' if self.later.random() < 0.3 else term}"
                self.kinds.add("next states in transitions")
            if not variable.is_discrete:
                before.append(variable)

    def with_final_reward(self, draft: Problem) -> Problem:
        """A reward of the final state, and a discount."""
        if self.later.random() < 0.35:
            self.kinds.add("final reward")
            self.rng = self.later
            readable = [*(v.name for v in (*draft.states, *draft.auxiliaries)), *self.added_names]
            node = self.function(readable, 2.0 * self.reward_size, int(self.later.integers(3)))
            if self.added is not None:
                node = self.added.reward(node, readable, self.reward_size, may_prime=False)
            draft = replace(draft, final_reward=write(node))
        if self.later.random() < 0.3:
            self.kinds.add("discount")
            draft = replace(draft, discount=float(self.later.choice([0.99, 0.9, 0.5, 0.1, 1e-3])))
        return draft

    def transition(self, draft: Problem, state: Variable) -> Node:
        size = self.sizes[state.name]
        readable = [v.name for v in draft.variables if not v.name.startswith("x")]
        if state.is_discrete and self.chance(0.4):
            self.kinds.add("rounding ties")
            action = str(self.rng.choice([v.name for v in draft.actions]))
            inner: Node = Scaled(self.tidy(1.0 / self.sizes[action]), Name(action))
            inner = Absolute(inner) if self.chance(0.6) else inner
            base: Node = Number(0.5 if self.chance(0.8) else 1.5)
            if state.kind == "integer" and self.chance(0.4):
                base = Sum((Name(state.name), base))
            return Sum((base, inner if self.chance(0.6) else Scaled(-1.0, inner)))
        if self.chance(0.5):
            action = str(self.rng.choice([v.name for v in draft.actions]))
            step = 1.0 if state.kind == "integer" and self.sizes[action] <= size else size / self.sizes[action]
            return Sum(
                (Name(state.name), Scaled(self.tidy(step * float(self.rng.choice([-1.0, 0.5, 1.0]))), Name(action)))
            )
        return self.function(readable, size * 0.7, 1)

    def network(self, draft: Problem, learned: list[Variable]) -> Network:
        """Weights so that every unit is of order one and every output of its state's size."""
        inputs = [v.name for v in draft.variables if self.chance(0.9)] or [draft.states[0].name]
        self.rng.shuffle(inputs)
        depth = int(self.rng.choice([0, 1, 2, 3], p=[0.1, 0.5, 0.25, 0.15]))
        self.kinds.add(f"{depth} layers")
        skips = self.note(depth > 0 and self.chance(0.5), "skips")
        zero_bias = self.dyadic and self.chance(0.7)
        scale = np.array([1.0 / self.sizes[name] for name in inputs])
        layers: list[tuple[Array, Array]] = []
        previous = 0
        for number in range(depth + 1):
            last = number == depth
            units = len(learned) if last else int(self.rng.integers(1, 6 - number))
            out = np.array([self.sizes[v.name] for v in learned]) if last else np.ones(units)
            weights = self.rng.normal(size=(units, len(scale))) * float(self.rng.choice([0.6, 1.2])) / math.sqrt(2.0)
            if not skips and number:
                weights[:, : len(scale) - previous] = 0.0
            bias = np.zeros(units) if zero_bias else 0.4 * self.rng.normal(size=units)
            if last:
                bias = bias + np.array([0.5 * (v.kind == "boolean") for v in learned])
            matrix = np.vectorize(self.tidy)(weights * out[:, None] * scale)
            bias = np.vectorize(self.tidy)(bias * out)
            if not last:
                self.special_units(matrix, bias)
            layers.append((matrix, bias))
            scale = np.concatenate([scale, np.ones(0 if last else units)])
            previous = units
        delta = self.note(self.chance(0.3), "delta")
        return Network(tuple(inputs), tuple(v.name for v in learned), tuple(layers), delta)

    def special_units(self, matrix: Array, bias: Array) -> None:
        """Neurons that are constant, always off, or twice the same."""
        if self.note(self.chance(0.12), "constant neurons"):
            matrix[0] = 0.0
            bias[0] = self.rng.choice([-1.0, 0.0, 0.5])
        if len(bias) > 1 and self.note(self.chance(0.12), "duplicate neurons"):
            matrix[-1], bias[-1] = matrix[0], bias[0]

    # -- expressions

    def reward(self, draft: Problem) -> Node:
        current = [*(v.name for v in draft.variables), *self.added_names]
        primed = [v.name + "'" for v in (*draft.states, *draft.auxiliaries)]
        depth = int(self.rng.choice([0, 1, 2], p=[0.25, 0.45, 0.3]))
        node = self.function([*current, *primed], self.reward_size, depth)
        if not names(node) & set(primed):
            node = Sum((node, self.affine(primed, self.reward_size)))
        self.note(depth > 0, "piecewise reward")
        return node if self.added is None else self.added.reward(node, [*current, *primed], self.reward_size)

    # -- auxiliaries, first state, bounds and rows

    def with_auxiliary_rows(self, draft: Problem) -> Problem:
        """Each auxiliary is defined by an equality, or squeezed from one side."""
        rows, goal = list(draft.constraints), list(draft.goal)
        for variable in draft.auxiliaries:
            self.kinds.add("auxiliaries")
            readable = [v.name for v in draft.states] + ([v.name for v in draft.actions] if self.chance(0.3) else [])
            expression = write(self.affine(readable, self.sizes[variable.name]))
            sign = "==" if self.chance(0.6) and variable.kind == "continuous" else str(self.rng.choice(["<=", ">="]))
            rows.append(f"{variable.name} {sign} {expression}")
            if not any(f"a{i}" in expression for i in range(3)) and self.chance(0.7):
                goal.append(rows[-1])
        return replace(draft, constraints=tuple(rows), goal=tuple(goal))

    def with_initial(self, draft: Problem) -> Problem:
        states = []
        for variable in draft.states:
            low, high = variable.domain
            value = float(self.rng.uniform(low, high)) if self.chance(0.8) else 0.0
            value = float(np.round(value)) if variable.is_discrete else self.tidy(value)
            last = value
            if self.note(self.chance(0.25), "initial interval"):
                last = value + (
                    float(self.rng.integers(0, 3)) if variable.is_discrete else self.tidy(self.sizes[variable.name])
                )
            value, last = (min(max(v, low), high) for v in (value, last))
            states.append(replace(variable, initial=(value, last)))
        return replace(draft, states=tuple(states))

    def with_bounds_and_rows(self, draft: Problem) -> Problem:
        """Bounds and rows that a reference plan keeps, except in problems meant to be tight or infeasible."""
        loose = replace(
            draft,
            states=tuple(replace(v, lower=-math.inf, upper=math.inf) for v in draft.states),
            auxiliaries=tuple(replace(v, lower=-math.inf, upper=math.inf) for v in draft.auxiliaries),
        )
        reference = self.reference(loose)
        steps = Machine(loose).steps(reference)
        states = tuple(self.state_bounds(v, reference.states[0, :, i]) for i, v in enumerate(draft.states))
        auxiliaries = tuple(
            self.state_bounds(v, reference.auxiliaries[0, :, i], True) for i, v in enumerate(draft.auxiliaries)
        )
        draft = replace(draft, states=states, auxiliaries=auxiliaries)
        given = [v.name for v in draft.states] + self.added_names
        current = {name: steps[name][0] for name in [*given, *(v.name for v in draft.actions)]}
        following = {v.name + "'": steps[v.name + "'"][0] for v in states}
        final = {name: steps[name + "'"][0, -1:] for name in given}
        first = {name: steps[name][0, :1] for name in given}
        constraints, goal, initial = list(draft.constraints), list(draft.goal), list(draft.initial)
        for _ in range(int(self.rng.choice([0, 1, 2], p=[0.5, 0.35, 0.15]))):
            names_ = list(current) if self.chance(0.6) else [*current, *following]
            constraints.append(self.row(names_, {**current, **following}))
            self.kinds.add("constraints")
        if self.note(len(draft.actions) > 1 and self.chance(0.12), "equality rows"):
            constraints += self.equality(draft)
        if self.note(self.chance(0.35), "goal"):
            goal.append(self.row(list(final), final, equality=self.chance(0.1)))
        if any(v.start[0] < v.start[1] for v in states) and self.note(self.chance(0.5), "initial rows"):
            initial.append(self.row(list(first), first))
        if self.note(self.chance(0.05), "contradiction"):
            goal.append(self.contradiction(draft))
        draft = replace(draft, constraints=tuple(constraints), goal=tuple(goal), initial=tuple(initial))
        return draft if self.added is None else self.added.finish(draft, steps, self.reward_size)

    def reference(self, problem: Problem) -> Rollouts:
        """One random plan, to build rows around."""
        initial = np.array([[self.rng.uniform(*v.start) for v in problem.states]])
        shape = (1, problem.horizon, len(problem.actions))
        lower, upper = (np.array([v.domain[side] for v in problem.actions]) for side in (0, 1))
        actions = self.rng.uniform(np.broadcast_to(lower, shape), upper)
        initial = np.where([v.is_discrete for v in problem.states], np.round(initial), initial)
        actions = np.where([v.is_discrete for v in problem.actions], np.round(actions), actions)
        auxiliaries = np.zeros((1, problem.horizon + 1, len(problem.auxiliaries)))
        return Machine(problem).rollout(initial, actions, auxiliaries)

    def state_bounds(self, variable: Variable, path: Array, always: bool = False) -> Variable:
        if variable.kind == "boolean":
            return variable
        size = self.sizes[variable.name]
        if not always and not variable.is_discrete and self.note(self.chance(0.2), "unbounded state"):
            return replace(variable, lower=-math.inf, upper=math.inf)
        room = size * float(self.rng.choice([0.0, 0.3, 1.0, 3.0], p=[0.05, 0.25, 0.4, 0.3]))
        start = variable.initial or (0.0, 0.0)
        low = min(variable.lower, start[0], float(path.min()) - room)
        high = max(variable.upper, start[1], float(path.max()) + room)
        if self.chance(0.3):
            low, high = min(start[0], float(path.min())) - room, max(start[1], float(path.max())) + room
        if variable.is_discrete:
            return replace(variable, lower=float(math.floor(low)), upper=float(math.ceil(high)))
        return replace(variable, lower=low, upper=high)

    def row(self, readable: list[str], values: dict[str, Array], equality: bool = False) -> str:
        """A function that the reference plan keeps at or below its value there plus some slack.

        It is of order one, or of the states' own size: rows of tiny numbers are where tolerances show.
        """
        size = 1.0 if self.chance(0.5) else self.state_size
        node = self.function(readable, size, int(self.chance(0.3)))
        there = float(np.max(evaluate(node, values, BATCH)))
        if equality:
            return f"{write(node)} == {write(Number(there))}"
        slack = size * float(self.rng.choice([0.0, 0.1, 0.5, 1.0]))
        if self.note(self.chance(0.08), "tight rows"):
            slack = -0.3 * size
        return f"{write(node)} <= {write(Number(self.tidy(there + slack) if slack else there))}"

    def equality(self, draft: Problem) -> list[str]:
        """One continuous action as a function of another."""
        free = [v for v in draft.actions if not v.is_discrete]
        if not free:
            return []
        other = next(v for v in draft.actions if v is not free[-1])
        factor = 0.5 * self.sizes[free[-1].name] / self.sizes[other.name]
        return [f"{free[-1].name} == {write(Scaled(self.tidy(factor), Name(other.name)))}"]

    def contradiction(self, draft: Problem) -> str:
        """A goal that asks for less than a function's least value, or close to it."""
        state = draft.states[0]
        size = self.sizes[state.name]
        centre = write(Number(self.number(size)))
        return f"abs({state.name} + {centre}) <= {write(Number(-abs(self.number(0.01 * size))))}"
