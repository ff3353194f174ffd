"""The composed transition against its parts, evaluated one by one; and the rounding of discrete states."""

from __future__ import annotations

from fractions import Fraction
from graphlib import CycleError
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_function, random_network
from reluplan.errors import InputError
from reluplan.network.relu_network import Array, ReluNetwork
from reluplan.planning.planner import plan
from reluplan.problem.dynamics import compose_dynamics, transition_order
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


@quick
@given(seeds, st.booleans())
def test_transitions_may_read_next_states(seed: int, delta: bool) -> None:
    """Known transitions that read predictions, and each other, in the order of `transition_order`."""
    rng = np.random.default_rng(seed)
    states, others = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    count, width = states + others, 2 * states + others
    ranks = rng.permutation(states).tolist()  # each may read next states of those before it
    learned = int(rng.integers(0, states))
    predicted = ranks[:learned]
    network = random_network(rng, count, [3], learned) if learned else None
    known = {
        state: random_function(rng, [*range(count), *(count + other for other in ranks[:rank])], width, depth=2)
        for rank, state in sorted(enumerate(ranks), key=lambda pair: pair[1])
        if rank >= learned
    }
    ordered = {state: known[state] for state in transition_order(count, known)}
    whole = compose_dynamics(count, states, network, list(range(count)), predicted, delta, ordered)

    inputs = rng.normal(scale=3.0, size=(20, count))
    w = np.hstack([inputs, np.full((20, states), np.nan)])
    if network is not None:
        w[:, [count + state for state in predicted]] = network.forward(inputs) + (inputs[:, predicted] if delta else 0)
    for state in ranks[learned:]:
        read = np.nan_to_num(w)  # what is not known yet has no weight
        w[:, count + state] = known[state].evaluate(read)
    np.testing.assert_allclose(whole.forward(inputs), w[:, count:], rtol=1e-9, atol=1e-9)


def test_transitions_that_wait_for_each_other_have_no_order() -> None:
    one, two = (PiecewiseLinear.variable(3 + i, 5) for i in (0, 1))
    with pytest.raises(CycleError):
        transition_order(3, {0: two, 1: one})
    with pytest.raises(CycleError):
        transition_order(3, {0: one})
    assert transition_order(3, {0: two, 1: two * 0.0}) == [1, 0]


SECOND_ORDER = """
horizon = 4
reward = "-abs(q' - 1) - 0.1*abs(force)"
final_reward = "-10*abs(v)"
[state.q]
initial = 0
bounds = [-10, 10]
[state.v]
initial = 0
bounds = [-10, 10]
[action.force]
bounds = [-1, 1]
[transition]
q = "q + 0.5*(v + v')*dt"
v = "v + dt*(force - 0.1*v)"
[constants]
dt = 0.5
"""


def test_a_second_order_system(tmp_path: Path) -> None:
    """Positions integrate velocities by the trapezoidal rule, whatever the order in the file."""
    path = tmp_path / "cart.toml"
    path.write_text(SECOND_ORDER)
    problem = Problem.load(path)
    states = problem.next_states(np.array([[1.0, 2.0, 0.5]]))[0]
    after = 2.0 + 0.5 * (0.5 - 0.2)
    assert states == pytest.approx([1.0 + 0.25 * (2.0 + after), after])
    assert problem.dynamics.relu_count == 0
    for method in ("base", "auto", "potentials"):
        result = plan(problem, method=method, gap=1e-5, threads=1)
        assert result.status == "optimal"
        assert result.trajectory is not None
        q, v = result.trajectory.states.T
        np.testing.assert_allclose(np.diff(q), 0.25 * (v[1:] + v[:-1]), atol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('v = "v + dt*(force - 0.1*v)"', 'v = "v + q\'"', "a cycle: "),
        ('v = "v + dt*(force - 0.1*v)"', 'v = "v + v\'"', "v' reads v'"),
        ('v = "v + dt*(force - 0.1*v)"', 'v = "force\'"', "actions have no next value"),
        ("[state.v]", '[state.v]\nkind = "integer"', "cannot read the next value of an integer or boolean state"),
    ],
)
def test_what_transitions_cannot_read(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "cart.toml"
    path.write_text(SECOND_ORDER.replace(old, new))
    with pytest.raises(InputError) as caught:
        Problem.load(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))


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
