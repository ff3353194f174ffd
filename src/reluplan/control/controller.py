"""The controller: a policy that plans anew at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.control.observe import observed_state
from reluplan.control.shift import idle_action, shifted_plan
from reluplan.control.step_plan import PlanningOptions, StepPlan, plan_step
from reluplan.errors import InputError
from reluplan.planning.result import Status
from reluplan.problem.check import check
from reluplan.problem.memory import Memory
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]
Source = Literal["plan", "previous plan", "idle"]

STATE_TOLERANCE = 0.01
"""An observed state may lie outside its bounds by this share of their width."""


@dataclass(frozen=True, eq=False)
class Decision:
    """One action and where it comes from.

    source: a plan of this step, the rest of the step before's, or "idle" (the action nearest to zero) if there is none.
    status, bound: of this step's planning; reward: what the plan behind the action promises over its horizon.
    """

    action: Array
    source: Source
    status: Status
    horizon: int
    reward: float | None
    bound: float | None
    seconds: float


class Controller:
    """Receding-horizon control: at step t = 1..T, from the observed state s,

        (a_1, ..., a_h) = the best plan from s over h = min(lookahead, T − t + 1) steps;   apply a_1.

    lookahead: all remaining steps if None. steps: T, the problem's horizon if None. Goal constraints count only when
    the plan reaches step T; the final reward counts at the end of every plan, where it stands for what comes after.
    Each plan starts from the one before, which also stands in when planning finds nothing better within
    `time_limit_per_step` seconds; the first plan of an episode may take `time_limit_first_step`.

    >>> from reluplan import Problem
    >>> problem = Problem.load("examples/tanks/problem.toml")
    >>> controller = Controller(problem, lookahead=2, time_limit_per_step=60)
    >>> action = controller.policy(np.array([75.0, 50.0]))
    >>> controller.decisions[-1].status
    'optimal'
    """

    def __init__(
        self,
        problem: Problem,
        *,
        lookahead: int | None = None,
        steps: int | None = None,
        time_limit_per_step: float = 2.0,
        time_limit_first_step: float | None = None,
        method: str = "auto",
        solver: str = "highs",
        gap: float = 1e-4,
        threads: int | None = None,
        seed: int = 0,
        state_tolerance: float = STATE_TOLERANCE,
    ) -> None:
        if lookahead is not None and lookahead < 1:
            raise InputError(f"the lookahead must be at least 1, got {lookahead}")
        first = time_limit_per_step if time_limit_first_step is None else time_limit_first_step
        for what, limit in (("per step", time_limit_per_step), ("of the first step", first)):
            if not limit > 0.0:
                raise InputError(f"the time limit {what} must be positive, got {limit:g}")
        self.problem = problem if steps is None else problem.with_horizon(steps)
        self.lookahead = lookahead
        self.decisions: list[Decision] = []
        self._time_limit = time_limit_per_step
        self._first_time_limit = first
        self._options = PlanningOptions(method, solver, gap, threads, seed)
        self._state_tolerance = state_tolerance
        self._current: Trajectory | None = None
        self._memory = Memory(self.problem)

    def reset(self) -> None:
        """Begin another episode."""
        self.decisions = []
        self._current = None

    def policy(self, state: Array) -> Array:
        """The action for an observed state; both in the problem's order of names.

        States that hold what was before (`Problem.lags`) may be left out: it remembers them.
        """
        began = clock.now()
        window = self._window(observed_state(self.problem, self._completed(state), self._state_tolerance))
        rest = None if self._current is None else shifted_plan(window, self._current)
        seconds = self._time_limit if self.decisions else self._first_time_limit
        result = plan_step(window, self._options, rest, seconds)
        source, self._current = _better(window, result, rest)
        decision = _decision(window, source, self._current, result, clock.now() - began)
        self.decisions.append(decision)
        return decision.action

    def _completed(self, state: Array) -> Array:
        """The state with what was before behind it, by what was decided here, unless it says that itself."""
        state = np.asarray(state, dtype=np.float64)
        if not self.problem.lags or state.shape != (len(self.problem.own_states),):
            return state
        if not self.decisions:
            return self._memory.begin(state)
        return self._memory.after(self.decisions[-1].action, state)

    def _window(self, state: Array) -> Problem:
        """The problem of this step: from the observed state, over the next few steps."""
        remaining = max(1, self.problem.horizon - len(self.decisions))
        horizon = min(self.lookahead or remaining, remaining)
        goal = self.problem.goal if horizon == remaining else ()
        final_reward = self.problem.final_reward
        now = min(len(self.decisions), self.problem.horizon - 1)
        return self.problem.part(
            now, horizon, state, state, keeps_initial_rows=False, goal=goal, final_reward=final_reward
        )


def _better(window: Problem, result: StepPlan, rest: Trajectory | None) -> tuple[Source, Trajectory | None]:
    """The new plan, or the rest of the old one if it is better, or if it is all there is, valid or not."""
    found = result.trajectory
    if rest is None:
        return ("idle" if found is None else "plan"), found
    if found is None or (rest.total_reward > found.total_reward and check(window, rest).ok):
        return "previous plan", rest
    return "plan", found


def _decision(
    window: Problem, source: Source, trajectory: Trajectory | None, result: StepPlan, seconds: float
) -> Decision:
    action = idle_action(window) if trajectory is None else trajectory.actions[0]
    return Decision(
        action=np.clip(action, *window.box(window.actions)),
        source=source,
        status=result.status,
        horizon=window.horizon,
        reward=None if trajectory is None else trajectory.total_reward,
        bound=result.bound,
        seconds=seconds,
    )
