"""Windows that are worth much at given multipliers, found by sampling: cuts that cost no MILP.

Differential evolution (Storn and Price 1997) over the first states and the actions of all windows at once: a window
moves by the difference of two others of its subproblem, or by noise, and stays moved if it is valid and worth more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reluplan import clock
from reluplan.encoding.hinges import features
from reluplan.problem.rollout import Trajectory, final_rewards
from reluplan.problem.steps import evaluate_steps
from reluplan.proofs.lagrangian.samples import plan_window
from reluplan.proofs.lagrangian.settings import PopulationSettings
from reluplan.proofs.lagrangian.subproblem import WindowSet, WindowSubproblem

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

DEFAULT = PopulationSettings()


class WindowPopulation:
    """P windows of k steps for each of W subproblems: first states and actions (W, P, n + k m), Σ γ^j R (W, P), end
    states (W, P, n). Windows that leave the boxes or break C are not among them.

    which: the indices of the subproblems.
    """

    def __init__(
        self,
        subproblems: Sequence[WindowSubproblem],
        plan: Trajectory,
        rng: np.random.Generator,
        settings: PopulationSettings = DEFAULT,
        which: Sequence[int] = (0,),
    ) -> None:
        self.which, self._subproblems = list(which), subproblems
        self._settings, self._rng, self._problem = settings, rng, subproblems[0].problem
        self._length, windows = self._problem.horizon, [plan_window(each.span, plan) for each in subproblems]
        self._auxiliaries = np.array([window.auxiliaries for window in windows])
        self._state_lower = np.array([each.bounds.state_lower for each in subproblems])
        self._state_upper = np.array([each.bounds.state_upper for each in subproblems])
        self._lower = self._joined(self._state_lower[:, 0], [each.bounds.action_lower for each in subproblems])
        self._upper = self._joined(self._state_upper[:, 0], [each.bounds.action_upper for each in subproblems])
        self._start_hinges = np.array([each.start_hinges for each in subproblems])
        self._end_hinges = np.array([each.end_hinges for each in subproblems])
        variables = (*self._problem.states, *self._problem.actions * self._length)
        self._discrete = np.array([variable.is_discrete for variable in variables], dtype=bool)
        own = self._joined([window.states[0] for window in windows], [window.actions for window in windows])
        self._inputs = np.clip(np.repeat(own[:, None], settings.size, axis=1), *self._box)
        self._rewards, self._ends, valid = self._evaluate(self._inputs)
        self._rewards[~valid] = -np.inf
        self._take(self._spread())

    @property
    def _box(self) -> tuple[Array, Array]:
        return self._lower[:, None], self._upper[:, None]

    @staticmethod
    def _joined(states: ArrayLike, actions: ArrayLike) -> Array:
        """(W, n) and (W, k, m) as (W, n + k m)."""
        flat = np.asarray(actions, dtype=np.float64)
        return np.hstack([np.asarray(states, dtype=np.float64), flat.reshape(len(flat), -1)])

    @property
    def _seconds(self) -> float:
        """That a change of all windows takes, about."""
        return clock.expected(self._rewards.size * self._length * self._problem.dynamics.operations)

    def _spread(self) -> Array:
        """Inputs anywhere in the boxes, and near those of now."""
        rng, width = self._rng, self._upper - self._lower
        anywhere = rng.uniform(self._lower[:, None], self._upper[:, None], self._inputs.shape)
        near = self._inputs + self._noise_sizes() * width[:, None] * rng.standard_normal(self._inputs.shape)
        return np.where(rng.random(self._rewards.shape)[..., None] < 0.5, anywhere, near)

    def _noise_sizes(self) -> Array:
        """As shares of the boxes, of many orders."""
        smallest, largest = np.log(self._settings.noise)
        return np.exp(self._rng.uniform(smallest, largest, (*self._rewards.shape, 1)))

    def _evaluate(self, inputs: Array) -> tuple[Array, Array, Mask]:
        """Rewards, end states, and which windows are valid."""
        problem, layout = self._problem, self._problem.layout
        shape, n, m = inputs.shape[:2], layout.state_count, len(problem.actions)
        states, rewards, valid = inputs[..., :n], np.zeros(shape), np.ones(shape, dtype=bool)
        for t in range(self._length):
            actions = inputs[..., n + t * m : n + (t + 1) * m]
            now, later = (np.repeat(self._auxiliaries[:, j], shape[1], axis=0) for j in (t, t + 1))
            given = np.hstack([states.reshape(-1, n), actions.reshape(-1, m), now])
            steps = evaluate_steps(problem, given, later)
            states = steps.next_states.reshape(*shape, n)
            rewards = rewards + problem.discount_factors[t] * steps.rewards().reshape(shape)
            allowed = problem.tolerances.states
            inside = states >= self._state_lower[:, None, t + 1] - allowed
            inside &= states <= self._state_upper[:, None, t + 1] + allowed
            valid &= inside.all(axis=-1) & steps.satisfy().reshape(shape)
        last = self._subproblems[-1].problem
        if last.final_reward is not None:
            rewards[-1] += last.discount_factors[-1] * final_rewards(last, states[-1], later[-shape[1] :])
        return rewards, states, valid & np.isfinite(rewards)

    def _worth(self, inputs: Array, rewards: Array, ends: Array, multipliers: Array) -> Array:
        """The Lagrangian of windows, (W, P)."""
        first, after = np.array(self.which), np.array(self.which) + 1
        at_start = _linear(inputs[..., : ends.shape[-1]], multipliers[first], self._start_hinges)
        at_end = _linear(ends, multipliers[after], self._end_hinges)
        return np.asarray(rewards - at_start + self._subproblems[0].end_factor * at_end)

    def _take(self, inputs: Array, multipliers: Array | None = None, asked: Mask | None = None) -> None:
        """Take valid windows in place of those of now, where it is asked; with multipliers only if they are worth
        more."""
        inputs = np.clip(inputs, *self._box)
        inputs[..., self._discrete] = np.round(inputs[..., self._discrete])
        rewards, ends, taken = self._evaluate(inputs)
        if asked is not None:
            taken &= asked
        if multipliers is not None:
            before = self._worth(self._inputs, self._rewards, self._ends, multipliers)
            taken &= self._worth(inputs, rewards, ends, multipliers) > before
        self._inputs[taken], self._rewards[taken], self._ends[taken] = inputs[taken], rewards[taken], ends[taken]

    def climb(self, multipliers: Array, deadline: float) -> None:
        """Windows that are worth more at these λ of the boundaries; no change that would outlast the deadline is
        begun."""
        rng, settings, shape = self._rng, self._settings, self._rewards.shape
        worth = self._worth(self._inputs, self._rewards, self._ends, multipliers)
        poor = worth <= np.sort(worth, axis=1)[:, int(settings.fresh * shape[1]), None]
        width = (self._upper - self._lower)[:, None]
        for generation in range(settings.generations):
            if clock.now() + self._seconds > deadline:
                return
            if generation == 0:
                self._take(self._spread(), asked=poor)
                continue
            one, other = rng.permutation(shape[1]), rng.permutation(shape[1])
            factor = rng.uniform(0.2, 1.0, (*shape, 1))
            moved = factor * (self._inputs[:, one] - self._inputs[:, other])
            noise = self._noise_sizes() * width * rng.standard_normal(self._inputs.shape)
            change = np.where(rng.random((*shape, 1)) < settings.noisy, noise, moved)
            is_kept = rng.random(change.shape) < rng.uniform(0.2, 1.0, (*shape, 1))
            self._take(self._inputs + np.where(is_kept, change, 0.0), multipliers)

    def best_actions(self, multipliers: Array) -> Array | None:
        """(k, m), of the window of the first subproblem that is worth most; None if there is no valid one."""
        worth = self._worth(self._inputs, self._rewards, self._ends, multipliers)[0]
        if not np.isfinite(worth.max()):
            return None
        actions = self._inputs[0, int(worth.argmax()), self._ends.shape[-1] :]
        return np.asarray(actions.reshape(self._length, -1))

    def best(self, at: int, multipliers: Array) -> WindowSet:
        """The windows of a subproblem that are worth most, as cuts."""
        i, n = self.which[at], self._ends.shape[-1]
        found = self._subproblems[at].windows(self._rewards[at], self._inputs[at, :, :n], self._ends[at])
        worth = found.lagrangian(multipliers[i], multipliers[i + 1])
        order = np.argsort(-worth, kind="stable")[: self._settings.cuts]
        return found.take(order[np.isfinite(worth[order])])


def _linear(states: Array, multipliers: Array, hinges: Array) -> Array:
    """λ · f(s) for states (W, P, n), λ (W, 2n), hinges (W, n)."""
    return np.asarray(np.einsum("wpn,wn->wp", features(states, hinges[:, None]), multipliers))
