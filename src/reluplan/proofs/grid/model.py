"""One step as the grid sees it: a network from (s, a) to (s', r, constraints), and a reward that grid nodes carry."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import Layer, ReluNetwork
from reluplan.problem.piecewise import MaxTerm, PiecewiseLinear
from reluplan.problem.problem import Problem, StepLayout
from reluplan.problem.relu_compiler import ReluCompiler, pad

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GridModel:
    """R(s, a, s') = node_reward(s') + r(s, a), with r an output of the network.

    network: outputs are s', then r if `has_rest`, then the constraint functions.
    node_reward: reads s' only; between neighbouring lines of a grid that has all `breakpoints` (one array for each
    state) it is at most the multilinear interpolation of its values at the nodes.
    equalities: which constraints are equations. discrete_actions: which actions are integers.
    """

    layout: StepLayout
    network: ReluNetwork
    has_rest: bool
    node_reward: PiecewiseLinear
    breakpoints: tuple[Array, ...]
    equalities: NDArray[np.bool_]
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
    layout, reward = problem.layout, problem.reward
    on_nodes = [_carried_by_nodes(term, layout) for term in reward.terms]
    next_only = np.zeros(layout.width, dtype=bool)
    next_only[layout.next_states] = True
    node_terms = tuple(term for term, carried in zip(reward.terms, on_nodes, strict=True) if carried)
    rest_terms = tuple(term for term, carried in zip(reward.terms, on_nodes, strict=True) if not carried)
    node_reward = PiecewiseLinear(np.where(next_only, reward.coefficients, 0.0), reward.constant, node_terms)
    rest = PiecewiseLinear(np.where(next_only, 0.0, reward.coefficients), 0.0, rest_terms)
    functions = [] if rest.is_constant else [rest]
    functions += [constraint.function for constraint in problem.constraints]
    return GridModel(
        layout,
        _with_functions(problem.dynamics, functions, layout),
        not rest.is_constant,
        node_reward,
        tuple(_breakpoints(node_terms, position) for position in range(*layout.next_states.indices(layout.width))),
        np.array([constraint.equality for constraint in problem.constraints], dtype=bool),
        np.array([action.is_discrete for action in problem.actions], dtype=bool),
    )


def _carried_by_nodes(term: MaxTerm, layout: StepLayout) -> bool:
    support = np.any([argument.support() for argument in term.arguments], axis=0)
    reads_next_only = not support[: layout.input_count].any()
    affine = not any(argument.terms for argument in term.arguments)
    return bool(reads_next_only and affine and (term.weight > 0.0 or support.sum() <= 1))


def _breakpoints(terms: tuple[MaxTerm, ...], position: int) -> Array:
    """Where the arguments of maxima over this one variable cross."""
    points: list[float] = []
    for term in terms:
        for p, q in combinations(term.arguments, 2):
            slope = p.coefficients - q.coefficients
            if slope[position] != 0.0 and np.count_nonzero(slope) == 1:
                points.append(float((q.constant - p.constant) / slope[position]))
    return np.unique(points)


def _with_functions(network: ReluNetwork, functions: list[PiecewiseLinear], layout: StepLayout) -> ReluNetwork:
    """The network with more outputs: piecewise-linear functions of (s, a, s')."""
    compiler = ReluCompiler(network.input_count, network.hidden, network.output, layout.next_states)
    weights, bias = network.output.weights, network.output.bias
    for function in functions:
        row, offset = compiler.append(function)
        weights, bias = np.vstack([pad(weights, len(row)), row]), np.append(bias, offset)
    return ReluNetwork(network.input_count, tuple(compiler.hidden), Layer(weights, bias))
