"""One step as the grid sees it: a network from (s, a) to (s', r, constraints), and a reward that grid nodes carry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear
from reluplan.problem.problem import Problem, StepLayout
from reluplan.problem.relu_compiler import ReluCompiler, pad
from reluplan.proofs.grid.cells import SMALLEST_CELL

Array = NDArray[np.float64]

ON_MAXIMUM = 1e-9
"""Relative to the arguments: one this little below the largest may attain it; a line too many does no harm."""


@dataclass(frozen=True, eq=False)
class FinalReward:
    """F(s) = on_nodes(s) + rest(s), both at the positions of s; on_nodes is at most its own interpolation in cells."""

    on_nodes: PiecewiseLinear
    rest: PiecewiseLinear


@dataclass(frozen=True, eq=False)
class GridModel:
    """R(s, a, s') = node_reward(s') + r(s, a), with r an output of the network.

    network: outputs are s', then r if `has_rest`, then the constraint functions.
    node_reward: reads s' only; between neighbouring lines of a grid that has all `breakpoints` (one array for each
    state) it is at most the multilinear interpolation of its values at the nodes. Breakpoints that are hardly apart
    are one, and the reward is raised by what that may cost.
    final_reward: F, split likewise, with its breakpoints among those of the grid.
    equalities: which constraints are equations; tolerances: by how much a plan may break each. discrete_actions: which
    actions are integers.
    """

    layout: StepLayout
    network: ReluNetwork
    has_rest: bool
    node_reward: PiecewiseLinear
    final_reward: FinalReward | None
    breakpoints: tuple[Array, ...]
    equalities: NDArray[np.bool_]
    tolerances: Array
    discrete_actions: NDArray[np.bool_]

    def rewards_at(self, states: Array) -> Array:
        """node_reward at next states of shape (N, n)."""
        w = np.zeros((len(states), self.layout.width))
        w[:, self.layout.next_states] = states
        return self.node_reward.evaluate(w)


def grid_model(problem: Problem) -> GridModel:
    """Splits the reward and appends what depends on (s, a) to the network.

    Nodes carry the part that is affine in s', every maximum of one next state (its breakpoints become grid lines), and
    every convex maximum of next states (by Jensen's inequality it lies below the interpolation).
    """
    layout = problem.layout
    on_nodes, rest = _split(problem.reward, layout.next_states)
    on_last_nodes = None
    if problem.final_reward is not None:
        on_last_nodes, last_rest = _split(problem.final_reward, layout.states)
    lines = []
    for i in range(layout.state_count):
        points = _breakpoints_along(on_nodes, layout.next_states.start + i)
        if on_last_nodes is not None:
            points += _breakpoints_along(on_last_nodes, layout.states.start + i)
        lines.append(_lines(points))
    excess = PiecewiseLinear.constant_of(sum(excess for _, excess in lines), layout.width)
    functions = [] if rest.is_constant else [rest]
    functions += [constraint.function for constraint in problem.constraints]
    return GridModel(
        layout,
        _with_functions(problem.dynamics, functions, layout),
        not rest.is_constant,
        on_nodes + excess,
        None if on_last_nodes is None else FinalReward(on_last_nodes + excess, last_rest),
        tuple(points for points, _ in lines),
        np.array([constraint.equality for constraint in problem.constraints], dtype=bool),
        problem.tolerances.constraints,
        np.array([action.is_discrete for action in problem.actions], dtype=bool),
    )


def _split(function: PiecewiseLinear, states: slice) -> tuple[PiecewiseLinear, PiecewiseLinear]:
    """What nodes carry of a function, which reads the states that stand there alone, and the rest."""
    of_states = np.zeros(function.width, dtype=bool)
    of_states[states] = True
    is_carried = [_carried_by_nodes(term, of_states) for term in function.terms]
    pairs = list(zip(function.terms, is_carried, strict=True))
    carried = tuple(term for term, is_one in pairs if is_one)
    others = tuple(term for term, is_one in pairs if not is_one)
    return (
        PiecewiseLinear(np.where(of_states, function.coefficients, 0.0), function.constant, carried),
        PiecewiseLinear(np.where(of_states, 0.0, function.coefficients), 0.0, others),
    )


def _carried_by_nodes(term: MaxTerm, of_states: NDArray[np.bool_]) -> bool:
    support = np.any([argument.support() for argument in term.arguments], axis=0)
    reads_states_only = not support[~of_states].any()
    affine = not any(argument.terms for argument in term.arguments)
    return bool(reads_states_only and affine and (term.weight > 0.0 or support.sum() <= 1))


class _Breakpoint(NamedTuple):
    """Where a maximum changes its slope along one state, and by how much, times its weight where that is negative."""

    at: float
    strength: float


def _breakpoints_along(function: PiecewiseLinear, position: int) -> list[_Breakpoint]:
    """Of all its maxima, along one state."""
    return [point for term in function.terms for point in _breakpoints(term, position)]


def _lines(breakpoints: list[_Breakpoint]) -> tuple[Array, float]:
    """Breakpoints of maxima along one state, each at least SMALLEST_CELL from the next, and how far the maxima may now
    exceed their interpolation.

    A concave kink at b between lines exceeds its chord by at most strength · |b − nearest line|. Lines one ulp apart
    would make cells without any width, and slopes in them 0/0.
    """
    points = sorted(point for point in breakpoints if math.isfinite(point.at))
    kept: list[float] = []
    excess = 0.0
    for point in points:
        if kept and point.at - kept[-1] < SMALLEST_CELL * max(1.0, abs(point.at)):
            excess += point.strength * (point.at - kept[-1])
        else:
            kept.append(point.at)
    return np.array(kept), excess * (1.0 + SMALLEST_CELL)


def _breakpoints(term: MaxTerm, position: int) -> Iterator[_Breakpoint]:
    """Where two arguments cross that differ in this one variable; if the maximum reads no other, only where they attain
    it: K arguments cross at up to K² / 2 places, of which at most K − 1 are on it."""
    slopes = np.array([argument.coefficients[position] for argument in term.arguments])
    constants = np.array([argument.constant for argument in term.arguments])
    others = np.delete(np.array([argument.coefficients for argument in term.arguments]), position, axis=1)
    reads_no_other = not others.any()
    for p, q in combinations(range(len(slopes)), 2):
        change = slopes[p] - slopes[q]
        if change == 0.0 or (others[p] != others[q]).any():
            continue
        at = float((constants[q] - constants[p]) / change)
        values = slopes * at + constants
        size = np.abs(slopes * at).max() + np.abs(constants).max()
        if not reads_no_other or values[p] >= values.max() - ON_MAXIMUM * size:
            yield _Breakpoint(at, abs(float(term.weight * change)) if term.weight < 0.0 else 0.0)


def _with_functions(network: ReluNetwork, functions: list[PiecewiseLinear], layout: StepLayout) -> ReluNetwork:
    """The network with more outputs: piecewise-linear functions of (s, a, s')."""
    compiler = ReluCompiler(network.input_count, network.hidden, network.output, layout.next_states)
    weights, bias = network.output.weights, network.output.bias
    for function in functions:
        row, offset = compiler.append(function)
        weights, bias = np.vstack([pad(weights, len(row)), row]), np.append(bias, offset)
    return ReluNetwork(network.input_count, tuple(compiler.hidden), Layer(weights, bias))
