"""What a problem file says about the states and actions of a simulator; its network need not exist yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.expression import Constraint
from reluplan.problem.file import load_problem, read_variables
from reluplan.problem.problem import Problem, StepLayout, Variable
from reluplan.simulators.base import Simulator
from reluplan.simulators.matching import match_names

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ActionRows:
    """Inequalities over state and action; states and actions: where a problem's variables are in the simulator's."""

    constraints: tuple[Constraint, ...]
    layout: StepLayout
    states: Index
    actions: Index

    def hold(self, state: Array, action: Array) -> bool:
        """Whether every row holds for a state and an action of the simulator."""
        w = np.zeros((1, self.layout.width))
        w[0, self.layout.states] = state[self.states]
        w[0, self.layout.actions] = action[self.actions]
        return all(float(row.function.evaluate(w)[0]) <= 0.0 for row in self.constraints)


@dataclass(frozen=True, eq=False)
class ProblemLimits:
    """Bounds of a simulator's variables, the tighter of its own and a problem's, and the problem's rows on actions."""

    state_lower: Array
    state_upper: Array
    action_lower: Array
    action_upper: Array
    rows: ActionRows | None = None

    def allow(self, state: Array, action: Array) -> bool:
        """Whether the rows, if any, allow an action in a state."""
        return self.rows is None or self.rows.hold(state, action)


def problem_limits(simulator: Simulator, path: Path | None) -> ProblemLimits:
    """The limits for a simulator; without a problem file, its own bounds."""
    if path is None:
        return ProblemLimits(
            simulator.state_lower, simulator.state_upper, simulator.action_lower, simulator.action_upper
        )
    problem = _load(path)
    states = match_names(simulator.state_names, [v.name for v in problem.own_states], "state", str(path))
    actions = match_names(simulator.action_names, [v.name for v in problem.actions], "action", str(path))
    return ProblemLimits(
        *_tighter(simulator.state_lower, simulator.state_upper, states, problem.own_states),
        *_tighter(simulator.action_lower, simulator.action_upper, actions, problem.actions),
        rows=ActionRows(_rows_on_actions(problem), problem.layout, states, actions),
    )


def _load(path: Path) -> Problem:
    """The problem with zeros for the network, which may be what the data are collected for."""
    section = read_variables(path).network
    if section is None:
        return load_problem(path)
    zeros = np.zeros((len(section.outputs), len(section.inputs)))
    return load_problem(path, ReluNetwork.sequential([zeros], [zeros.sum(axis=1)]))


def _tighter(lower: Array, upper: Array, places: Index, variables: Sequence[Variable]) -> tuple[Array, Array]:
    lower, upper = lower.copy(), upper.copy()
    lower[places] = np.maximum(lower[places], [v.lower for v in variables])
    upper[places] = np.minimum(upper[places], [v.upper for v in variables])
    return lower, upper


def _rows_on_actions(problem: Problem) -> tuple[Constraint, ...]:
    """Inequalities that read actions, and nothing but state and actions.

    Equations are left out: data need not satisfy them, and random actions never would.
    """
    layout = problem.layout
    rows = []
    for row in problem.constraints:
        read = row.function.support()
        if read[layout.actions].any() and not read[layout.auxiliaries.start :].any() and not row.equality:
            rows.append(row)
    return tuple(rows)
