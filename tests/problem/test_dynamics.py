"""The composed transition against its parts, evaluated one by one; and the rounding of discrete states."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_function, random_network
from reluplan.network.relu_network import Array, ReluNetwork
from reluplan.problem.dynamics import compose_dynamics
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Kind, Problem, Variable

quick = settings(deadline=None, max_examples=100)
seeds = st.integers(0, 2**32 - 1)


@quick
@given(seeds, st.booleans(), st.booleans())
def test_the_whole_equals_its_parts(seed: int, delta: bool, dense: bool) -> None:
    """Some states predicted by a network with inputs in any order, the others known; all through one network."""
    rng = np.random.default_rng(seed)
    states, others = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    count, width = states + others, 2 * states + others
    predicted = rng.permutation(states)[: rng.integers(0, states + 1)].tolist()
    read = rng.permutation(count)[: rng.integers(1, count + 1)].tolist()
    hidden = rng.integers(1, 5, size=rng.integers(0, 3)).tolist()
    network = random_network(rng, len(read), hidden, len(predicted), dense) if predicted else None
    known = {
        state: random_function(rng, list(range(count)), width, depth=3)
        for state in range(states)
        if state not in predicted
    }
    whole = compose_dynamics(count, states, network, read if predicted else [], predicted, delta, known)

    inputs = rng.normal(scale=3.0, size=(20, count))
    expected = np.empty((20, states))
    if network is not None:
        expected[:, predicted] = network.forward(inputs[:, read]) + (inputs[:, predicted] if delta else 0.0)
    for state, function in known.items():
        expected[:, state] = function.evaluate(np.hstack([inputs, np.zeros((20, states))]))
    assert whole.input_count == count
    np.testing.assert_allclose(whole.forward(inputs), expected, rtol=1e-9, atol=1e-9)


def test_nested_maxima_are_relus() -> None:
    """max(x, 2 - max(y, 3*min(x, y))) + |x|, at points that switch every branch."""
    x, y = PiecewiseLinear.variable(0, 3), PiecewiseLinear.variable(1, 3)
    two = PiecewiseLinear.constant_of(2.0, 3)
    inner = PiecewiseLinear.maximum([y, PiecewiseLinear.minimum([x, y]) * 3.0])
    function = PiecewiseLinear.maximum([x, two - inner]) + PiecewiseLinear.maximum([x, -x])
    network = compose_dynamics(2, 1, None, [], [], False, {0: function})
    points = np.array([[a, b] for a in (-3.0, -1.0, 0.0, 0.5, 4.0) for b in (-5.0, -1.0, 0.0, 1.0, 7.0)])
    expected = [[max(a, 2 - max(b, 3 * min(a, b))) + abs(a)] for a, b in points.tolist()]
    np.testing.assert_array_equal(network.forward(points), expected)
    assert network.relu_count == 4


def test_affine_transitions_need_no_relu() -> None:
    function = PiecewiseLinear.variable(0, 3) + PiecewiseLinear.variable(1, 3) * 2.0
    network = compose_dynamics(2, 1, None, [], [], False, {0: function})
    assert network.relu_count == 0
    np.testing.assert_array_equal(network.forward([3.0, 0.25]), [3.5])


# Rounding


def discrete_problem(kind: Kind) -> Problem:
    """One state that becomes the action, rounded as its kind asks."""
    identity = ReluNetwork.sequential([[[0.0, 1.0]]], [[0.0]])
    return Problem(
        name="rounding",
        horizon=1,
        states=(Variable("s", kind),),
        actions=(Variable("a"),),
        auxiliaries=(),
        initial_lower=np.zeros(1),
        initial_upper=np.zeros(1),
        dynamics=identity,
        reward=PiecewiseLinear.variable(2, 3),
    )


def next_state(kind: Kind, prediction: float) -> float:
    inputs: Array = np.array([0.0, prediction])
    return float(discrete_problem(kind).next_states(inputs)[0])


@quick
@given(st.integers(-1000, 1000).map(lambda n: n / 8) | st.floats(-1e6, 1e6))
def test_discrete_states_are_rounded_predictions(prediction: float) -> None:
    assert next_state("continuous", prediction) == prediction
    integer = next_state("integer", prediction)
    assert integer == int(integer)
    assert Fraction(-1, 2) <= Fraction(prediction) - Fraction(integer) <= Fraction(1, 2)
    assert next_state("boolean", prediction) == (1.0 if prediction >= 0.5 else 0.0)


@pytest.mark.parametrize(
    ("prediction", "integer"), [(0.5, 1.0), (1.5, 2.0), (2.5, 3.0), (-0.5, 0.0), (-1.5, -1.0), (-2.5, -2.0)]
)
def test_halves_go_up(prediction: float, integer: float) -> None:
    assert next_state("integer", prediction) == integer
    assert next_state("integer", prediction - 1e-12) == integer - 1.0


def test_just_below_a_half_is_false() -> None:
    assert next_state("boolean", 0.5) == 1.0
    assert next_state("boolean", 0.5 - 1e-12) == 0.0
