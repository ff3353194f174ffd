"""Gradients of penalised rewards with respect to all actions of many plans: the adjoint of the rollout."""

from __future__ import annotations

import numpy as np

from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.tolerance import TOLERANCE

from .rollouts import Array, Rollouts


def gradient(rollouts: Rollouts, states: Array, actions: Array, weight: float) -> Array:
    """d/da of reward − weight · Σ max(0, g / scale), shape (P, H, m): from the last step to the first,

    λ_H = ∂F/∂s, (∂s, ∂a)_t = J_t^T (λ_{t+1} + ∂R_t/∂s') + ∂R_t/∂(s, a), λ_t = ∂s_t.
    """
    problem = rollouts.problem
    layout = problem.layout
    w, final = rollouts.vectors(states, actions)
    direct = slope(problem.reward, w) * problem.discount_factors[:-1, None]
    at_end = np.zeros_like(final)
    if problem.final_reward is not None:
        at_end += problem.discount_factors[-1] * slope(problem.final_reward, final)
    for row in rollouts.rows:
        points = final if row.is_goal else w
        active = row.sign * row.function.evaluate(points) > 0.0
        pull = -weight * row.sign * TOLERANCE / row.tolerance * active[..., None] * slope(row.function, points)
        if row.is_goal:
            at_end += pull
        else:
            direct += pull
    adjoint = at_end[:, layout.states]
    result = np.empty_like(actions)
    for t in reversed(range(actions.shape[1])):
        inputs = np.hstack([states[:, t], actions[:, t]])
        back = pull_back(problem.dynamics, inputs, adjoint + direct[:, t, layout.next_states])
        result[:, t] = back[:, layout.actions] + direct[:, t, layout.actions]
        adjoint = back[:, layout.states] + direct[:, t, layout.states]
    return result


def slope(function: PiecewiseLinear, w: Array) -> Array:
    """A gradient of the function at every row of w: that of the piece which is the maximum."""
    result = np.broadcast_to(function.coefficients, w.shape).copy()
    for term in function.terms:
        values = np.stack([argument.evaluate(w) for argument in term.arguments])
        largest = values.argmax(axis=0)
        for index, argument in enumerate(term.arguments):
            result += term.weight * (largest == index)[..., None] * slope(argument, w)
    return result


def pull_back(network: ReluNetwork, inputs: Array, outer: Array) -> Array:
    """outer^T ∂f/∂x at every row of the inputs: back through the layers, off where a ReLU is off."""
    before = inputs
    masks = []
    for layer in network.hidden:
        pre = before @ layer.weights.T + layer.bias
        masks.append(pre > 0.0)
        before = np.hstack([before, np.maximum(pre, 0.0)])
    back = outer @ network.output.weights
    for layer, mask in zip(reversed(network.hidden), reversed(masks), strict=True):
        through = back[:, -layer.unit_count :] * mask
        back = back[:, : -layer.unit_count] + through @ layer.weights
    return back
