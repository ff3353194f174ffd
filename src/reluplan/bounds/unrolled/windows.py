"""Boxes by back-substitution through the steps before: tighter than step by step, since a step's inputs hang together.

Step by step a box forgets how the states of one step depend on each other; k steps back they are functions of the
same few actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import Claim, HorizonBounds
from reluplan.bounds.crown import interval_of_boxes
from reluplan.bounds.interval import ROUNDOFF, intersect, round_outward, uncrossed
from reluplan.bounds.prediction import predicted_box
from reluplan.bounds.unrolled.blocks import BlockNetwork, relu_lines
from reluplan.bounds.unrolled.plan_network import FunctionBoxes, PlanBoxes, PlanNetworks, have_lines
from reluplan.bounds.unrolled.rounding import NOISE, rounding_lines
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]


@dataclass(frozen=True)
class WindowSettings:
    """How deep rows are pulled back, and when that ends.

    depth: steps at most. improvement, patience: a row whose bound gained less than this share of its first value in
    each of so many steps goes no deeper.
    most_rows: that are pulled back together; more take more memory, and are no faster. fewest_rows: the same just
    before a deadline.
    trial: after this many steps of the plan, and twice, four times ... as many, it ends if no state's boxes have become
    smaller by `worthwhile`, nor that share of the units stable.
    most_bytes: of memory, about; longer plans of larger networks are left alone.
    """

    depth: int = 64
    most_rows: int = 1024
    fewest_rows: int = 8
    patience: int = 16
    improvement: float = 1e-2
    trial: int = 8
    worthwhile: float = 1e-2
    most_bytes: float = 1e9


def window_bounds(
    problem: Problem, bounds: Claim, deadline: float = math.inf, settings: WindowSettings | None = None
) -> Claim:
    """The boxes, intersected with those that back-substitution through many steps proves, from the first step to the
    last, until the deadline (of clock.now): what is not proven by then stays as it was, in the middle of a step too.
    Boxes that would hardly become smaller stay as they are, since equal steps share work. They hold for the same plans:
    only steps before a step are used, and boxes that hold for them.

    Raises InfeasibleError if nothing is left.
    """
    settings = settings or WindowSettings()
    if clock.now() > deadline or not _can_begin(problem, settings, deadline) or not have_lines(bounds):
        return bounds
    pull = WindowPull(problem, BlockNetwork(problem.dynamics), bounds, settings)
    trial = settings.trial
    for t in range(problem.horizon):
        if clock.now() > deadline:
            break
        with np.errstate(over="ignore", invalid="ignore"):
            pull.refine_step(t, deadline)
        if t + 1 == trial:
            trial *= 2
            if not _is_worthwhile(bounds, pull.arrays, t + 1, settings):
                return bounds
    if not _is_worthwhile(bounds, pull.arrays, problem.horizon, settings):
        return bounds
    return type(bounds)(**pull.arrays, because="back-substitution through the steps before")


def _can_begin(problem: Problem, settings: WindowSettings, deadline: float) -> bool:
    """Whether lines and reach of all steps, which nothing interrupts, take little of the time and of the memory."""
    work = problem.horizon * (problem.dynamics.operations + 50.0 * problem.dynamics.relu_count)
    if clock.expected(work) > 0.25 * (deadline - clock.now()):
        return False
    clock.spend(work)
    return 80.0 * problem.horizon * problem.dynamics.relu_count <= settings.most_bytes


def _is_worthwhile(before: HorizonBounds, after: dict[str, Array], steps: int, settings: WindowSettings) -> bool:
    """Whether the boxes of some state over the first steps became smaller, in all."""
    old = (before.state_upper - before.state_lower)[1 : steps + 1].sum(axis=0)
    new = (after["state_upper"] - after["state_lower"])[1 : steps + 1].sum(axis=0)
    units = int(before.unstable.sum()), int(((after["unit_lower"] < 0.0) & (after["unit_upper"] > 0.0)).sum())
    return bool((new < (1.0 - settings.worthwhile) * old).any()) or units[1] < (1.0 - settings.worthwhile) * units[0]


def refined_functions(problem: Problem, networks: PlanNetworks, boxes: PlanBoxes, deadline: float = math.inf) -> None:
    """Make the boxes of the functions' units smaller, by the same back-substitution, until the deadline."""
    pull = WindowPull(problem, networks.dynamics, boxes.bounds, WindowSettings())
    last = problem.horizon - 1
    boxes.final = pull.refine_functions(networks.final, boxes.final, [last], True, deadline)
    boxes.step = pull.refine_functions(networks.step, boxes.step, range(problem.horizon), False, deadline)


class WindowPull:
    """Upper bounds of linear functions of one step, by back-substitution through the steps before it.

    It works on boxes of its own (`arrays`), which `refine_step` makes smaller: those of step t and of the state after
    it, from those before.
    """

    def __init__(
        self, problem: Problem, network: BlockNetwork, bounds: HorizonBounds, settings: WindowSettings
    ) -> None:
        self._problem = problem
        self._network = network
        self._settings = settings
        self.arrays = bounds.copied().arrays()
        self._lines = relu_lines(self.arrays["unit_lower"], self.arrays["unit_upper"])
        self._rounding = rounding_lines(problem, self.arrays["output_lower"], self.arrays["output_upper"])
        lower, upper = PlanBoxes.input_boxes(bounds)
        self._unit_reach, self._output_reach = network.reach(lower, upper, bounds.unit_lower, bounds.unit_upper)

    def refine_step(self, t: int, deadline: float) -> None:
        """Smaller boxes of the units of step t, its predictions and the state after it."""
        lower, upper = (part[None] for part in self._inputs(t))
        count = self._network.input_count
        for index, layer in enumerate(self._problem.dynamics.hidden):
            part = slice(
                self._network.hidden[index].units.start - count, self._network.hidden[index].units.stop - count
            )
            low, high = self._intersected("unit", t, part, *interval_of_boxes(layer, lower, upper))
            open_units = np.flatnonzero((low < 0.0) & (high > 0.0))
            low[open_units], high[open_units] = self._layer_box(
                t, index, open_units, low[open_units], high[open_units], deadline
            )
            self._take("unit", t, part, low, high)
            lower = np.hstack([lower, np.maximum(low, 0.0)[None]])
            upper = np.hstack([upper, np.maximum(high, 0.0)[None]])
        everything = slice(0, self._network.output_count)
        low, high = self._intersected(
            "output", t, everything, *interval_of_boxes(self._problem.dynamics.output, lower, upper)
        )
        units = np.arange(self._network.output_count)
        low, high = self._layer_box(t, len(self._network.hidden), units, low, high, deadline)
        self._take("output", t, everything, low, high)
        low, high = predicted_box(self._problem, low, high)
        low = np.maximum(low, self.arrays["state_lower"][t + 1])
        high = np.minimum(high, self.arrays["state_upper"][t + 1])
        self.arrays["state_lower"][t + 1], self.arrays["state_upper"][t + 1] = uncrossed(low, high)

    def refine_functions(
        self, network: BlockNetwork, boxes: FunctionBoxes, steps: range | list[int], is_final: bool, deadline: float
    ) -> FunctionBoxes:
        """Boxes of the units of functions of w at some steps, or of the state after one (is_final)."""
        lows, highs = boxes.unit_lower.copy(), boxes.unit_upper.copy()
        count = network.input_count
        for place, t in enumerate(steps):
            for index, layer in enumerate(network.hidden):
                part = slice(layer.units.start - count, layer.units.stop - count)
                low, high = lows[place, part], highs[place, part]
                units = np.flatnonzero((low < 0.0) & (high > 0.0))
                if clock.now() > deadline or not len(units):
                    continue
                lines = relu_lines(lows[place], highs[place])
                rows = np.eye(layer.units.stop - layer.units.start)[units]
                rows = np.vstack([rows, -rows])
                coefficients, offset = network.pull_layer(index, rows, lines)
                unit_reach, _ = boxes.reach(network)
                error = network.rounding * (np.abs(coefficients[:, count:]) @ unit_reach[place])
                error += network.rounding * (np.abs(rows) @ unit_reach[place, part])
                found = self._function_maxima(t, coefficients[:, :count], offset, error, is_final, deadline)
                box = round_outward(-found[len(units) :], found[: len(units)])
                lows[place, part][units], highs[place, part][units] = intersect((low[units], high[units]), box)
        return FunctionBoxes(boxes.lower, boxes.upper, lows, highs)

    def _function_maxima(
        self, t: int, rows: Array, offset: Array, error: Array, is_final: bool, deadline: float
    ) -> Array:
        """Upper bounds of rows · w + offset at step t, where w is the state after it alone if is_final."""
        layout, a = self._problem.layout, self.arrays
        following = rows[:, layout.states] if is_final else rows[:, layout.next_states]
        after = rows[:, layout.auxiliaries] if is_final else rows[:, layout.next_auxiliaries]
        own = np.zeros((len(rows), layout.input_count)) if is_final else rows[:, : layout.input_count]
        offset = offset + _largest(after, a["auxiliary_lower"][t + 1], a["auxiliary_upper"][t + 1])
        coefficients, offset, error = self._through(t, following, offset, error)
        return self._maxima(t, coefficients + own, offset, error, deadline, -np.inf)

    def _layer_box(
        self, t: int, index: int, units: NDArray[np.int64], low: Array, high: Array, deadline: float
    ) -> tuple[Array, Array]:
        """Bounds of some units of a layer, or of some outputs, within known ones."""
        network = self._network
        is_output = index == len(network.hidden)
        layer = network.output if is_output else network.hidden[index]
        start = layer.units.start - network.input_count
        reach = self._output_reach[t] if is_output else self._unit_reach[t, start : start + len(layer.bias)]
        signs = np.concatenate([np.ones(len(units)), -np.ones(len(units))])
        asked = np.concatenate([units, units])
        found = np.concatenate([high, -low])
        done = 0
        while done < len(asked) and clock.now() <= deadline:
            part = slice(done, done + self._rows_until(deadline))
            done = part.stop
            rows = np.zeros((len(asked[part]), len(layer.bias)))
            rows[np.arange(len(rows)), asked[part]] = signs[part]
            coefficients, offset = network.pull_layer(index, rows, self._lines.at(t))
            chosen = np.abs(coefficients[:, network.input_count :])
            error = network.rounding * (chosen @ self._unit_reach[t] + np.abs(rows) @ reach)
            inputs = coefficients[:, : network.input_count]
            enough = -np.inf if is_output else 0.0
            found[part] = np.minimum(found[part], self._maxima(t, inputs, offset, error, deadline, enough))
        return intersect((low, high), round_outward(-found[len(units) :], found[: len(units)]))

    def _maxima(
        self, t: int, coefficients: Array, offset: Array, error: Array, deadline: float, enough: float
    ) -> Array:
        """Upper bounds of coefficients · (s, a, x) + offset at step t, the best of all depths; those that are below
        `enough` go no deeper."""
        layout, a = self._problem.layout, self.arrays
        best = np.full(len(offset), np.inf)
        first = best.copy()
        idle = np.zeros(len(offset), dtype=np.int64)
        rows = np.arange(len(offset))
        for step in range(t, max(t - self._settings.depth, -1), -1):
            lower, upper = self._inputs(step)
            ends = slice(layout.state_count, None)
            offset = offset + _largest(coefficients[:, ends], lower[ends], upper[ends])
            error = error + _sum_rounding(coefficients, lower, upper) + 4.0 * ROUNDOFF * np.abs(offset)
            states = coefficients[:, layout.states]
            value = offset + _largest(states, a["state_lower"][step], a["state_upper"][step]) + error
            value = np.where(np.isnan(value), np.inf, value)  # numbers too large to be added prove nothing
            if step == t:
                first = value
            gained = best[rows] - value > self._settings.improvement * np.abs(first[rows])
            idle[rows] = np.where(gained, 0, idle[rows] + 1)
            best[rows] = np.minimum(best[rows], value)
            going = (best[rows] > enough) & (idle[rows] < self._settings.patience)
            if step == 0 or not going.any() or clock.now() > deadline:
                break
            rows = rows[going]
            coefficients, offset, error = self._through(step - 1, states[going], offset[going], error[going])
        return best

    def _through(self, t: int, states: Array, offset: Array, error: Array) -> tuple[Array, Array, Array]:
        """Rows over the state after step t as rows over its inputs."""
        network = self._network
        rows, lift = self._rounding.at(t).pull(states)
        coefficients, moved = network.pull(rows, self._lines.at(t))
        size = np.abs(coefficients[:, network.input_count :]) @ self._unit_reach[t]
        error = error + network.rounding * (size + np.abs(rows) @ self._output_reach[t])
        if self._problem.discrete_states.any():
            predicted = np.maximum(np.abs(self.arrays["output_lower"][t]), np.abs(self.arrays["output_upper"][t]))
            noise = NOISE * np.where(self._problem.discrete_states, np.maximum(1.0, predicted), 0.0)
            error = error + np.abs(rows) @ noise
        return coefficients[:, : network.input_count], offset + moved + lift.sum(axis=-1), error

    def _rows_until(self, deadline: float) -> int:
        """How many rows to pull back together: what takes a quarter of the time that is left, about."""
        settings = self._settings
        if deadline == math.inf:
            return settings.most_rows
        left = 0.25 * (deadline - clock.now()) / clock.expected(max(1.0, self._network.operations))
        return int(min(max(left, settings.fewest_rows), settings.most_rows))

    def _inputs(self, t: int) -> tuple[Array, Array]:
        """The box of (s, a, x) at step t."""
        lower, upper = (
            np.concatenate([self.arrays[f"{part}_{side}"][t] for part in ("state", "action", "auxiliary")])
            for side in ("lower", "upper")
        )
        return lower, upper

    def _intersected(self, name: str, t: int, part: slice, low: Array, high: Array) -> tuple[Array, Array]:
        """A box and the known one."""
        known = self.arrays[f"{name}_lower"][t, part], self.arrays[f"{name}_upper"][t, part]
        low, high = intersect(known, (low[0], high[0]))
        return low.copy(), high.copy()

    def _take(self, name: str, t: int, part: slice, low: Array, high: Array) -> None:
        self.arrays[f"{name}_lower"][t, part], self.arrays[f"{name}_upper"][t, part] = low, high
        if name == "unit":
            lines = relu_lines(low, high)
            for kind in ("lower", "upper", "offset"):
                getattr(self._lines, kind)[t, part] = getattr(lines, kind)
        elif self._problem.boolean_states.any():
            self._rounding = rounding_lines(self._problem, self.arrays["output_lower"], self.arrays["output_upper"])


def _largest(rows: Array, lower: Array, upper: Array) -> Array:
    """max of rows · x over a box, (K, n) to (K,)."""
    positive = np.maximum(rows, 0.0)
    return np.asarray(positive @ upper + (rows - positive) @ lower)


def _sum_rounding(rows: Array, lower: Array, upper: Array) -> Array:
    """What adding up rows · x over a box may lose."""
    size: Array = np.abs(rows) @ np.maximum(np.abs(lower), np.abs(upper))
    return np.asarray(ROUNDOFF * 2.0 * (rows.shape[1] + 8) * size)
