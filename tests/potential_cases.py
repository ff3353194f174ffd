"""Problems for tests of potentials, and their activation patterns by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from brute_force import Region, _pieces, _require, _round
from random_problems import random_problem
from reluplan.bounds.reachability import forward_bounds
from reluplan.network.relu_network import ReluNetwork
from reluplan.potentials.domain import StepDomain, step_domain
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.potentials import RewardPotentials
from reluplan.problem.expression import Constraint
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import Problem, Variable

Array = NDArray[np.float64]
Entries = NDArray[np.int8]


def small_problem(seed: int, relus: int = 4, horizon: int = 2, auxiliary: bool = False) -> Problem:
    return random_problem(np.random.default_rng(seed), relus, horizon, auxiliary)


def domain_of(problem: Problem) -> StepDomain:
    return step_domain(problem, forward_bounds(problem), 0, problem.horizon - 1)


def feasible_patterns(domain: StepDomain, features: PatternFeatures) -> Iterator[tuple[Entries, float]]:
    """Every pattern (closed at its edges) that some step of the domain has, with its best reward, by LPs of scipy."""
    problem, bounds = domain.problem, domain.bounds
    lower = np.concatenate([bounds.state_lower[0], bounds.action_lower[0], bounds.auxiliary_lower.ravel()])
    upper = np.concatenate([bounds.state_upper[0], bounds.action_upper[0], bounds.auxiliary_upper.ravel()])
    flags = [v.is_discrete for v in (*problem.input_variables, *problem.auxiliaries)]
    fixed = np.flatnonzero(flags)
    for values in itertools.product(*(np.arange(lower[i], upper[i] + 1) for i in fixed)):
        low, high = lower.copy(), upper.copy()
        low[fixed] = high[fixed] = values
        region = Region((), low, high)
        inputs = np.eye(len(lower) + 1)[: problem.layout.input_count]
        following = np.eye(len(lower) + 1)[problem.layout.input_count : -1]
        for part, predictions, entries in _entry_regions(domain, features, inputs, region):
            for linked, states in _round(problem, predictions, part):
                inside = linked.cut(*(_above(row, b) for row, b in zip(states, bounds.state_lower[1], strict=True)))
                inside = inside.cut(*(-_above(row, b) for row, b in zip(states, bounds.state_upper[1], strict=True)))
                w = np.vstack([inputs, states, following])
                after = np.zeros_like(w)
                after[problem.layout.states], after[problem.layout.auxiliaries] = states, following
                for kept in _require(problem.constraints, w, inside):
                    for final in _require(problem.goal, after, kept):
                        for piece, reward in _pieces(problem.reward, w, final):
                            best = piece.maximum(reward)
                            if best is not None:
                                yield entries, best


def _entry_regions(
    domain: StepDomain, features: PatternFeatures, inputs: Array, region: Region
) -> Iterator[tuple[Region, Array, Entries]]:
    network = domain.problem.dynamics
    edges = features.breakpoints()
    place = {int(u): k for k, u in enumerate(features.units)}

    def grow(
        unit: int, before: Array, layer_rows: Array, part: Region, entries: Entries
    ) -> Iterator[tuple[Region, Array, Entries]]:
        layer = next((i for i, s in enumerate(network.unit_slices) if s.start <= unit < s.stop), None)
        if layer is None:
            outputs = network.output.weights @ before
            outputs[:, -1] += network.output.bias
            yield part, outputs, entries
            return
        slot = network.unit_slices[layer]
        if unit == slot.start:
            layer_rows = network.hidden[layer].weights @ before
            layer_rows[:, -1] += network.hidden[layer].bias
        row = layer_rows[unit - slot.start]
        low, high = domain.bounds.unit_lower[0, unit], domain.bounds.unit_upper[0, unit]
        k = place.get(unit)
        if k is None:  # a stable unit is linear, or zero, in all of the domain, also where the box allows it to switch
            output = row if -low < high else np.zeros_like(row)
            yield from grow(unit + 1, np.vstack([before, output]), layer_rows, part, entries)
            return
        # a hull of boxes holds points of no step; the proven bounds of the units belong to the domain
        part = part.cut(_above(row, low), -_above(row, high))
        for choice in range(features.interval_count + 1):
            if choice == 0:
                inner, output = part.cut(-row), np.zeros_like(row)
            else:
                inner = part.cut(row, _above(row, edges[k, choice - 1]), -_above(row, edges[k, choice]))
                output = row
            if inner.empty:
                continue
            chosen = entries.copy()
            chosen[k] = choice
            yield from grow(unit + 1, np.vstack([before, output]), layer_rows, inner, chosen)

    start = np.zeros(features.unit_count, dtype=np.int8)
    # values of all units so far stand behind the inputs, as the dense layers read them
    yield from grow(0, inputs, np.zeros((0, 0)), region, start)


def _above(row: Array, value: float) -> Array:
    shifted = row.copy()
    shifted[-1] -= value
    return shifted


def assert_valid(domain: StepDomain, potentials: RewardPotentials, patterns: list[tuple[Entries, float]]) -> None:
    features = potentials.features
    for entries, best in patterns:
        phi = potentials.constant + float(features.sum_values(potentials.values, entries))
        assert phi >= best - 1e-6


def jumping_problem() -> Problem:
    """s' = relu(s + a) from s = 0, a in [−1, 1], reward s'. C says s <= 0.5, which the final state need not satisfy."""
    network = ReluNetwork.sequential([[[1.0, 1.0]], [[1.0]]], [[0.0], [0.0]])
    row = Constraint(PiecewiseLinear(np.array([1.0, 0.0, 0.0]), -0.5), False, "s <= 0.5")
    state, action = Variable("s", "continuous", -9.0, 9.0), Variable("a", "continuous", -1.0, 1.0)
    reward = PiecewiseLinear(np.array([0.0, 0.0, 1.0]))
    return Problem("jump", 2, (state,), (action,), (), np.zeros(1), np.zeros(1), network, reward, (row,))
