"""Random small problems and networks for the tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear
from reluplan.problem.problem import Problem, StepLayout, Variable
from reluplan.problem.series import Series


def random_network(rng: Generator, inputs: int, hidden: list[int], outputs: int, dense: bool = True) -> ReluNetwork:
    """Weights of order one; `dense` networks read everything before, others only the layer before."""
    layers, width, previous = [], inputs, inputs
    for units in [*hidden, outputs]:
        weights = rng.normal(size=(units, width)) / np.sqrt(width)
        if not dense:
            weights[:, : width - previous] = 0.0
        layers.append(Layer(weights, 0.5 * rng.normal(size=units)))
        width, previous = width + units, units
    return ReluNetwork(inputs, tuple(layers[:-1]), layers[-1])


def random_function(rng: Generator, positions: list[int], width: int, depth: int = 2) -> PiecewiseLinear:
    """A random expression with abs, min and max over some positions."""
    affine = PiecewiseLinear.constant_of(float(np.round(rng.normal(), 2)), width)
    for position in positions:
        if rng.random() < 0.7:
            affine = affine + PiecewiseLinear.variable(position, width) * float(np.round(rng.normal(), 2))
    if depth == 0 or rng.random() < 0.3:
        return affine
    combine = PiecewiseLinear.maximum if rng.random() < 0.5 else PiecewiseLinear.minimum
    inner = [random_function(rng, positions, width, depth - 1) for _ in range(2)]
    return affine + combine(inner) * float(np.round(rng.normal(), 2))


def random_factor(rng: Generator, series: list[int], width: int) -> tuple[PiecewiseLinear, bool]:
    """A function of series that multiplies, or one that divides, which is never zero."""
    function = random_function(rng, series, width, depth=int(rng.integers(0, 2)))
    if rng.random() < 0.7:
        return function, False
    affine = random_function(rng, series, width, depth=0)
    return PiecewiseLinear.absolute(affine) + PiecewiseLinear.constant_of(0.5, width), True


def with_products(rng: Generator, function: PiecewiseLinear, series: list[int], depth: int = 2) -> PiecewiseLinear:
    """A function of the same variables in which some parts are multiplied or divided by functions of series."""
    variables = [position for position in np.flatnonzero(function.support()).tolist() if position not in series]
    for _ in range(depth):
        inner = random_function(rng, variables, function.width, depth=1)
        part = inner.times(*random_factor(rng, series, function.width)) * float(np.round(rng.normal(), 2))
        draw = rng.random()
        if draw < 0.4:
            function = function + part
        elif draw < 0.6:
            function = PiecewiseLinear.maximum([function, part])
        elif draw < 0.8:
            function = PiecewiseLinear.absolute(function + part)
        else:
            function = function.times(*random_factor(rng, series, function.width)) - part
    return function


def random_problem(rng: Generator, relus: int = 3, horizon: int = 2, auxiliary: bool = False) -> Problem:
    """A problem with mixed kinds, a non-concave reward, and often a constraint, a goal and an open initial state."""
    states = tuple(
        Variable(f"s{i}", "integer", -2.0, 2.0) if rng.random() < 0.2 else Variable(f"s{i}", "continuous", -4.0, 4.0)
        for i in range(rng.integers(1, 3))
    )
    actions = tuple(_random_action(rng, i) for i in range(rng.integers(1, 3)))
    auxiliaries = (Variable("x", "continuous", -1.0, 3.0),) if auxiliary else ()
    layout = StepLayout(len(states), len(actions), len(auxiliaries))
    hidden = [relus] if rng.random() < 0.5 or relus < 2 else [relus - relus // 2, relus // 2]
    network = random_network(rng, layout.input_count, hidden, len(states), dense=bool(rng.random() < 0.5))
    everything, current = list(range(layout.width)), list(range(layout.input_count))
    state_like = [*range(layout.state_count), *range(layout.actions.stop, layout.input_count)]
    constraints, goal = [], []
    if rng.random() < 0.6:
        shift = PiecewiseLinear.constant_of(-1.0, layout.width)
        constraints.append(Constraint(random_function(rng, current, layout.width, 1) + shift, False, "c <= 0"))
    if auxiliary:
        tied = random_function(rng, state_like[:-1], layout.width, 0)
        difference = tied * 0.3 - PiecewiseLinear.variable(state_like[-1], layout.width)
        row = Constraint(difference, bool(rng.random() < 0.5), "x tied")
        constraints.append(row)
        goal.append(row)
    if rng.random() < 0.5:
        shift = PiecewiseLinear.constant_of(-0.5, layout.width)
        goal.append(Constraint(random_function(rng, state_like, layout.width, 1) + shift, False, "g <= 0"))
    centre = np.array([0.0 if v.is_discrete else np.round(rng.normal(), 2) for v in states])
    radius = np.array([1.0 if rng.random() < 0.3 else 0.0 for _ in states])
    return Problem(
        name="random",
        horizon=horizon,
        states=states,
        actions=actions,
        auxiliaries=auxiliaries,
        initial_lower=centre - radius,
        initial_upper=centre + radius,
        dynamics=network,
        reward=random_function(rng, everything, layout.width),
        constraints=tuple(constraints),
        goal=tuple(goal),
    )


def with_series(rng: Generator, problem: Problem) -> Problem:
    """The problem with one or two series, which its network and rows read, and which mostly multiply its rewards."""
    multiplies = bool(rng.random() < 0.75)
    count = int(rng.integers(1, 3))
    old, new = problem.layout, StepLayout(len(problem.states), len(problem.actions), len(problem.auxiliaries) + count)
    places = [*range(old.input_count), *range(new.next_states.start, new.next_states.stop + old.auxiliary_count)]
    width = old.input_count
    layers = []
    for layer in (*problem.dynamics.hidden, problem.dynamics.output):
        read = 0.3 * rng.normal(size=(layer.unit_count, count)) * (rng.random(count) < 0.5)
        layers.append(Layer(np.hstack([layer.weights[:, :width], read, layer.weights[:, width:]]), layer.bias))
    network = ReluNetwork(width + count, tuple(layers[:-1]), layers[-1])
    now = list(range(new.input_count - count, new.input_count))
    after = list(range(new.width - count, new.width))

    def moved(function: PiecewiseLinear) -> PiecewiseLinear:
        return _moved(function, places, new.width)

    def row(constraint: Constraint, series: list[int]) -> Constraint:
        function = moved(constraint.function)
        if not constraint.equality and rng.random() < 0.5:
            function = function + PiecewiseLinear.variable(int(rng.choice(series)), new.width) * 0.3
        return replace(constraint, function=function)

    values = np.round(rng.normal(size=(count, problem.horizon + 3)), 1)
    series = tuple(Series(f"p{i}", values[i, : rng.integers(1, 4)], True) for i in range(count))
    if rng.random() < 0.5:
        series = tuple(Series(f"p{i}", values[i]) for i in range(count))

    def rewarding(function: PiecewiseLinear, series: list[int]) -> PiecewiseLinear:
        if multiplies:
            return with_products(rng, moved(function), series, int(rng.integers(1, 3)))
        return moved(function) + random_function(rng, series, new.width, 1)

    known = tuple(Variable(one.name, "continuous", one.values.min(), one.values.max()) for one in series)
    return replace(
        problem,
        auxiliaries=(*problem.auxiliaries, *known),
        dynamics=network,
        reward=rewarding(problem.reward, [*now, *after]),
        constraints=tuple(row(constraint, [*now, *after]) for constraint in problem.constraints),
        initial_constraints=tuple(row(constraint, now) for constraint in problem.initial_constraints),
        goal=tuple(row(constraint, now) for constraint in problem.goal),
        final_reward=None if problem.final_reward is None else rewarding(problem.final_reward, now),
        series=series,
        first_step=int(rng.integers(0, 3)),
    )


def _moved(function: PiecewiseLinear, places: list[int], width: int) -> PiecewiseLinear:
    """The function with its variables in other places."""
    coefficients = np.zeros(width)
    coefficients[places] = function.coefficients
    terms = tuple(
        MaxTerm(term.weight, tuple(_moved(argument, places, width) for argument in term.arguments))
        for term in function.terms
    )
    return PiecewiseLinear(coefficients, function.constant, terms)


def with_final_reward(rng: Generator, problem: Problem) -> Problem:
    """The problem with a random final reward, and a discount more often than not."""
    layout = problem.layout
    positions = [*range(layout.state_count), *range(layout.actions.stop, layout.input_count)]
    discount = float(rng.choice([1.0, 0.95, 0.7, 0.3]))
    return replace(problem, final_reward=random_function(rng, positions, layout.width) * 2.0, discount=discount)


def _random_action(rng: Generator, index: int) -> Variable:
    draw = rng.random()
    if draw < 0.2:
        return Variable(f"a{index}", "boolean", 0.0, 1.0)
    if draw < 0.4:
        return Variable(f"a{index}", "integer", -1.0, 1.0)
    return Variable(f"a{index}", "continuous", -1.0, 1.5)
