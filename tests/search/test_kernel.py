"""The float32 kernel: the same rollouts and gradients as in float64, up to its precision."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from random_problems import random_network, random_problem
from reluplan.errors import OutOfTimeError
from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.problem import Problem, Variable
from reluplan.search.batch import pull_back, roll_out
from reluplan.search.box import search_box
from reluplan.search.kernel import Kernel

SEEDS = st.integers(0, 10_000)


def continuous(problem: Problem) -> Problem:
    """Without rounding, where float32 and float64 may go different ways."""
    return dataclasses.replace(problem, states=tuple(Variable(v.name, "continuous", -9.0, 9.0) for v in problem.states))


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_rollouts_agree_with_float64(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = continuous(random_problem(rng, relus=8, horizon=5, auxiliary=bool(seed % 2)))
    decisions = search_box(problem, None).random(rng, 7)
    exact, kernel = roll_out(problem, decisions), Kernel(problem)
    kernel.piece = 3
    fast = kernel.roll_out(decisions, masks=True)
    scale = np.maximum(1.0, np.abs(exact.states).max())
    assert np.abs(fast.states - exact.states).max() <= 1e-4 * scale
    assert fast.active.shape == exact.active.shape


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.booleans())
def test_slopes_agree_with_float64(seed: int, dense: bool) -> None:
    rng = np.random.default_rng(seed)
    problem = continuous(random_problem(rng, relus=6, horizon=2))
    count = len(problem.states) + len(problem.actions) + len(problem.auxiliaries)
    network = random_network(rng, count, [5, 4, 3], len(problem.states), dense=dense)
    problem = dataclasses.replace(problem, dynamics=network)
    slopes, active = rng.normal(size=(6, len(problem.states))), rng.random((6, 12)) < 0.5
    exact = pull_back(network, slopes, active)
    found = Kernel(problem).pull_back(slopes, active)
    assert np.abs(found - exact).max() <= 1e-4 * max(1.0, np.abs(exact).max())


def test_a_network_that_reads_nothing() -> None:
    base = continuous(random_problem(np.random.default_rng(0), relus=4, horizon=3))
    count, states = base.dynamics.input_count, len(base.states)
    constant = ReluNetwork(count, (), Layer(np.zeros((states, count)), np.ones(states)))
    problem = dataclasses.replace(base, dynamics=constant)
    kernel = Kernel(problem)
    rollout = kernel.roll_out(search_box(problem, None).random(np.random.default_rng(1), 4))
    assert (rollout.states[:, 1:] == 1.0).all()
    assert not kernel.pull_back(np.ones((4, states)), np.zeros((4, 0), dtype=bool)).any()


def test_no_time_ends_it() -> None:
    problem = random_problem(np.random.default_rng(0), relus=4, horizon=3)
    with pytest.raises(OutOfTimeError):
        Kernel(problem).roll_out(search_box(problem, None).random(np.random.default_rng(1), 2), deadline=-1.0)
