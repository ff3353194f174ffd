"""An upper bound of the whole plan's reward for given slopes and multipliers, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.interval import ROUNDOFF
from reluplan.bounds.unrolled.blocks import BlockNetwork, Lines, relu_lines
from reluplan.bounds.unrolled.plan_network import FunctionBoxes, PlanBoxes, PlanNetworks
from reluplan.bounds.unrolled.rounding import NOISE
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import state_vectors, step_vectors
from reluplan.proofs.crown.parameters import Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pulled:
    """Functions of B vectors w, weighed by rows (B, outputs) and pulled back: the lines of their units, coefficients
    of w and of the units (B, values), and offset (B,)."""

    network: BlockNetwork
    boxes: FunctionBoxes
    rows: Array
    lines: Lines
    coefficients: Array
    offset: Array

    @property
    def units(self) -> Array:
        """Coefficients of the units, (B, units)."""
        return self.coefficients[:, self.network.input_count :]

    def rounding(self) -> float:
        """What the rounding of the pull may have cost."""
        units, outputs = self.boxes.reach(self.network)
        size = float((np.abs(self.units) * units).sum() + (np.abs(self.rows) * outputs).sum())
        return self.network.rounding * size

    def slope_derivatives(self, before: Array) -> Array:
        """Of the lower slopes, given the units' pre-activations: λ⁻ In."""
        return np.minimum(self.units, 0.0) * before


@dataclass(frozen=True, eq=False)
class Valuation:
    """A bound, without the margin that its rounding needs, and what its derivatives need.

    lines: of the network's units; step, final, first: the functions; states: coefficients c of every state, (H+1, n);
    passed: q, the part of c that goes on to the prediction, and ended: r, which ends at the box, both (H, n);
    units: coefficients of the network's values, (H, values); actions, auxiliaries: their coefficients.
    """

    bound: float
    margin: float
    parameters: Parameters
    lines: Lines
    step: Pulled
    final: Pulled
    first: Pulled
    states: Array
    passed: Array
    ended: Array
    units: Array
    actions: Array
    auxiliaries: Array

    @property
    def value(self) -> float:
        """What is proven."""
        return self.bound + self.margin


class PlanRelaxation:
    """The plan's reward over boxes, relaxed.

    With w_t = (s_t, a_t, x_t, s_{t+1}, x_{t+1}), and for multipliers μ, ν, ι >= 0 of rows g <= 0, every plan earns at
    most

        Σ_t γ^(t−1) R(w_t) − Σ_t μ_t · C(w_t) + γ^H F(s_{H+1}) − ν · G(s_{H+1}) − ι · I(s_1)      (1)

    plus the multipliers times the tolerances of their rows. (1) is a ReLU network of (s_1, a, x): the functions of w_H
    read step H's network, which reads that of step H − 1, and so on. Back-substitution replaces each ReLU by a line
    above or below it, as the sign of its coefficient asks, and is left with a linear function of s_1, a and x, whose
    maximum over their boxes is at a corner. On the way, the coefficient c of a state s' = s_{t+1} is split,

        c s' = q s' + r s',     q = (1 − β) c + m,     r = c − q;

    q s' goes on to the prediction that s' is, or is rounded from, and r s' ends at a corner of the proven box of s'.
    β = 1 is the bound of step t alone, β = 0, m = 0 forgets the box, and in general m is the multiplier of the box's
    sides: whatever tightens a box tightens the bound.

    Once all signs are known, the bound is a smooth function of the slopes and multipliers, and its derivatives are
    those of (1) at the corners with the chosen lines in place of the ReLUs (the envelope theorem): one pass forward.
    """

    def __init__(self, problem: Problem, networks: PlanNetworks, boxes: PlanBoxes) -> None:
        self.problem = problem
        self.networks = networks
        self.boxes = boxes
        bounds = boxes.bounds
        lower, upper = boxes.input_boxes(bounds)
        self._reach = networks.dynamics.reach(lower, upper, bounds.unit_lower, bounds.unit_upper)

    def value(self, parameters: Parameters) -> Valuation:
        """The bound of (1), by one pass backward."""
        step, final, first = self._pull_functions(parameters)
        layout, horizon = self.problem.layout, self.problem.horizon
        states = np.zeros((horizon + 1, layout.state_count))
        auxiliaries = np.zeros((horizon + 1, layout.auxiliary_count))
        states[:-1] += step.coefficients[:, layout.states]
        states[1:] += step.coefficients[:, layout.next_states]
        auxiliaries[:-1] += step.coefficients[:, layout.auxiliaries]
        auxiliaries[1:] += step.coefficients[:, layout.next_auxiliaries]
        for pulled, t in ((final, -1), (first, 0)):
            states[t] += pulled.coefficients[0, layout.states]
            auxiliaries[t] += pulled.coefficients[0, layout.auxiliaries]
        actions = step.coefficients[:, layout.actions].copy()
        bounds, rounding = self.boxes.bounds, self.boxes.rounding
        lines = relu_lines(bounds.unit_lower, bounds.unit_upper, parameters.unit_slopes)
        network = self.networks.dynamics
        passed, ended = np.empty((2, horizon, layout.state_count))
        units = np.empty((horizon, network.value_count))
        offsets = np.empty(horizon)
        kept = 1.0 - parameters.box_shares
        for t in reversed(range(horizon)):
            passed[t] = kept[t] * states[t + 1] + parameters.state_pushes[t]
            ended[t] = states[t + 1] - passed[t]
            if not passed[t].any():
                units[t] = offsets[t] = 0.0
                continue
            rows, lift = rounding.at(t).pull(passed[t])
            units[t], offset = network.pull(rows, lines.at(t))
            offsets[t] = offset + lift.sum()
            states[t] += units[t, layout.states]
            actions[t] += units[t, layout.actions]
            auxiliaries[t] += units[t, layout.auxiliaries]
        found = Valuation(
            0.0, 0.0, parameters, lines, step, final, first, states, passed, ended, units, actions, auxiliaries
        )
        return self._summed(found, offsets)

    def derivatives(self, found: Valuation, steps: bool = True) -> Parameters:
        """Of the bound, by every parameter, by one pass forward; without steps only for functions whose coefficients
        all end at the boxes."""
        layout, bounds, rounding = self.problem.layout, self.boxes.bounds, self.boxes.rounding
        network, parameters = self.networks.dynamics, found.parameters
        actions = _corner(found.actions, bounds.action_lower, bounds.action_upper)
        auxiliaries = _corner(found.auxiliaries, bounds.auxiliary_lower, bounds.auxiliary_upper)
        ends = _corner(found.ended, bounds.state_lower[1:], bounds.state_upper[1:])
        states = np.empty_like(found.states)
        states[0] = _corner(found.states[0], bounds.state_lower[0], bounds.state_upper[0])
        before = np.zeros((len(actions), network.relu_count))
        reached = ends.copy()
        states[1:] = ends
        for t in range(len(actions)) if steps else ():
            inputs = np.concatenate([states[t], actions[t], auxiliaries[t]])
            before[t], predictions = network.push(inputs, found.lines.at(t), found.units[t])
            reached[t] = rounding.at(t).push(predictions, found.passed[t])
            share = parameters.box_shares[t]
            states[t + 1] = (1.0 - share) * reached[t] + share * ends[t]
        w = step_vectors(states, actions, auxiliaries)
        last, begin = (state_vectors(self.problem, states[[t]], auxiliaries[[t]]) for t in (-1, 0))
        (step_before, step_values), (final_before, final_values), (first_before, first_values) = (
            pulled.network.push(at, pulled.lines, pulled.coefficients)
            for pulled, at in ((found.step, w), (found.final, last), (found.first, begin))
        )
        tolerances = self.problem.tolerances
        return Parameters(
            unit_slopes=np.minimum(found.units[:, layout.input_count :], 0.0) * before,
            step_slopes=found.step.slope_derivatives(step_before),
            final_slopes=found.final.slope_derivatives(final_before),
            first_slopes=found.first.slope_derivatives(first_before),
            box_shares=found.states[1:] * (ends - reached),
            state_pushes=reached - ends,
            row_multipliers=np.sign(parameters.row_multipliers) * tolerances.constraints - step_values[:, 1:],
            goal_multipliers=np.sign(parameters.goal_multipliers) * tolerances.goal - final_values[:, 1:],
            first_multipliers=np.sign(parameters.first_multipliers) * tolerances.initial_constraints
            - first_values[:, 1:],
        )

    def _pull_functions(self, parameters: Parameters) -> tuple[Pulled, Pulled, Pulled]:
        """R and C of every step, F and G of the final state, I of the first."""
        factors = self.problem.discount_factors
        networks, boxes = self.networks, self.boxes
        none = np.zeros((1, 1))
        return (
            _pull(networks.step, boxes.step, factors[:-1, None], parameters.row_multipliers, parameters.step_slopes),
            _pull(
                networks.final, boxes.final, factors[-1:, None], parameters.goal_multipliers, parameters.final_slopes
            ),
            _pull(networks.first, boxes.first, none, parameters.first_multipliers, parameters.first_slopes),
        )

    def _summed(self, found: Valuation, offsets: Array) -> Valuation:
        """The bound: all offsets, corners and tolerances; and its margin, a bound of all rounding errors: of every
        pull, of the coefficients of states, actions and auxiliaries, of rounded predictions and of this sum."""
        bounds, parameters, tolerances = self.boxes.bounds, found.parameters, self.problem.tolerances
        parts = [
            (found.states[:1], bounds.state_lower[:1], bounds.state_upper[:1]),
            (found.ended, bounds.state_lower[1:], bounds.state_upper[1:]),
            (found.actions, bounds.action_lower, bounds.action_upper),
            (found.auxiliaries, bounds.auxiliary_lower, bounds.auxiliary_upper),
        ]
        terms = [(rows * _corner(rows, low, high)).ravel() for rows, low, high in parts]
        terms += [offsets, found.step.offset, found.final.offset, found.first.offset]
        terms += [
            (np.abs(parameters.row_multipliers) * tolerances.constraints).ravel(),
            (np.abs(parameters.goal_multipliers) * tolerances.goal).ravel(),
            (np.abs(parameters.first_multipliers) * tolerances.initial_constraints).ravel(),
        ]
        terms_found = np.concatenate(terms)
        margin = ROUNDOFF * (len(terms_found) + 8) * float(np.abs(terms_found).sum())
        margin += sum(pulled.rounding() for pulled in (found.step, found.final, found.first))
        margin += self._step_rounding(found)
        return Valuation(**{**vars(found), "bound": float(terms_found.sum()), "margin": margin})

    def _step_rounding(self, found: Valuation) -> float:
        bounds, network = self.boxes.bounds, self.networks.dynamics
        unit_reach, output_reach = self._reach
        rows, _ = self.boxes.rounding.pull(found.passed)
        units = np.abs(found.units[:, network.input_count :]) * unit_reach
        outputs = np.abs(rows) * output_reach
        size = np.maximum(np.abs(bounds.state_lower), np.abs(bounds.state_upper))
        states = np.abs(found.states) * size
        states[1:] += (np.abs(found.passed) + np.abs(found.ended)) * (size[1:] + 1.0)
        predicted = np.maximum(1.0, np.maximum(np.abs(bounds.output_lower), np.abs(bounds.output_upper)))
        ties = NOISE * float((np.abs(rows) * predicted)[:, self.problem.discrete_states].sum())
        return network.rounding * float(units.sum() + outputs.sum()) + 8.0 * ROUNDOFF * float(states.sum()) + ties


def _pull(network: BlockNetwork, boxes: FunctionBoxes, weight: Array, multipliers: Array, slopes: Array) -> Pulled:
    rows = np.hstack([weight, -multipliers])
    lines = relu_lines(boxes.unit_lower, boxes.unit_upper, slopes)
    return Pulled(network, boxes, rows, lines, *network.pull(rows, lines))


def _corner(rows: Array, lower: Array, upper: Array) -> Array:
    """Where rows · x is largest over a box."""
    return np.where(rows > 0.0, upper, lower)
