"""Where the search looks: finite boxes of everything that a plan decides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from reluplan.bounds.boxes import HorizonBounds
from reluplan.problem.problem import Problem
from reluplan.search.decisions import Decisions

Array = NDArray[np.float64]


BEYOND = 10.0
"""How far samples may leave a box that nobody declared, in its widths."""


@dataclass(frozen=True, eq=False)
class SearchBox:
    """Bounds of initial states (1, n), actions (1, H, m) and auxiliaries (1, H+1, k), and which are discrete.

    allowed_lower, allowed_upper: the declared bounds, which every plan must keep.
    lower, upper: finite bounds, which say where to sample and how large a step is. They are the declared ones,
    narrowed by proven ones where these are known; a side that stays open is closed at the size of the largest other
    number of the problem.
    """

    lower: Decisions
    upper: Decisions
    allowed_lower: Decisions
    allowed_upper: Decisions
    discrete_states: NDArray[np.bool_]
    discrete_actions: NDArray[np.bool_]
    discrete_auxiliaries: NDArray[np.bool_]

    @property
    def width(self) -> Decisions:
        """The extent of each decision, at least a tiny one."""
        return Decisions(
            np.maximum(self.upper.initial - self.lower.initial, 1e-9),
            np.maximum(self.upper.actions - self.lower.actions, 1e-9),
            np.maximum(self.upper.auxiliaries - self.lower.auxiliaries, 1e-9),
        )

    @property
    def any_discrete(self) -> bool:
        return bool(self.discrete_actions.any() or self.discrete_auxiliaries.any() or self.discrete_states.any())

    @property
    def any_free(self) -> bool:
        """Whether there is anything to decide."""
        pairs = zip(self.allowed_lower.parts, self.allowed_upper.parts, strict=True)
        return any(bool((low < high).any()) for low, high in pairs)

    def into(self, decisions: Decisions) -> Decisions:
        """The nearest decisions that are allowed, discrete ones rounded."""

        def move(values: Array, low: Array, high: Array, discrete: NDArray[np.bool_]) -> Array:
            return np.clip(np.where(discrete, np.round(values), values), low, high)

        low, high = self.allowed_lower, self.allowed_upper
        return Decisions(
            move(decisions.initial, low.initial, high.initial, self.discrete_states),
            move(decisions.actions, low.actions, high.actions, self.discrete_actions),
            move(decisions.auxiliaries, low.auxiliaries, high.auxiliaries, self.discrete_auxiliaries),
        )

    def at(self, share: Decisions) -> Decisions:
        """lower + share · (upper − lower)."""
        return self.into(
            Decisions(
                self.lower.initial + share.initial * self.width.initial,
                self.lower.actions + share.actions * self.width.actions,
                self.lower.auxiliaries + share.auxiliaries * self.width.auxiliaries,
            )
        )

    def shares(self, decisions: Decisions) -> Decisions:
        """The inverse of `at`."""
        sides = zip(decisions.parts, self.lower.parts, self.width.parts, strict=True)
        return Decisions(*((part - low) / extent for part, low, extent in sides))

    def clipped_shares(self, share: Decisions) -> Decisions:
        """Shares moved into the box; beyond it only where nothing is declared, and not far."""
        declared = zip(share.parts, self.allowed_lower.parts, self.allowed_upper.parts, strict=True)
        return Decisions(
            *(
                np.clip(part, np.where(np.isfinite(low), 0.0, -BEYOND), np.where(np.isfinite(high), 1.0, 1.0 + BEYOND))
                for part, low, high in declared
            )
        )

    def window(self, first: int, last: int) -> SearchBox:
        """The box of steps first .. last − 1."""

        def cut(sides: Decisions) -> Decisions:
            return Decisions(sides.initial, sides.actions[:, first:last], sides.auxiliaries[:, first : last + 1])

        return self._with(cut)

    def starting_at(self, state: Array) -> SearchBox:
        """The box with one initial state only."""
        return self._with(lambda sides: dataclasses.replace(sides, initial=state[None]))

    def _with(self, change: Callable[[Decisions], Decisions]) -> SearchBox:
        return dataclasses.replace(
            self,
            lower=change(self.lower),
            upper=change(self.upper),
            allowed_lower=change(self.allowed_lower),
            allowed_upper=change(self.allowed_upper),
        )

    def random(self, rng: Generator, count: int) -> Decisions:
        """Uniformly random plans, every step on its own."""
        shapes = (self.lower.initial.shape, self.lower.actions.shape, self.lower.auxiliaries.shape)
        initial, actions, auxiliaries = (rng.random((count, *shape[1:])) for shape in shapes)
        return self.at(Decisions(initial, actions, auxiliaries))


def search_box(problem: Problem, bounds: HorizonBounds | None) -> SearchBox:
    """The box of a problem, from its declared bounds and, if given, its proven ones."""
    action_lower, action_upper = _repeat(problem.box(problem.actions), problem.horizon)
    auxiliary_lower, auxiliary_upper = (side[None] for side in problem.auxiliary_boxes)
    allowed_lower = Decisions(problem.initial_lower[None], action_lower, auxiliary_lower)
    allowed_upper = Decisions(problem.initial_upper[None], action_upper, auxiliary_upper)
    lower, upper = allowed_lower, allowed_upper
    if bounds is not None and bounds.horizon == problem.horizon:
        lower, upper = _narrowed(lower, upper, bounds)
    size = _typical_size(problem)
    return SearchBox(
        _closed(lower, upper, -size),
        _closed(upper, lower, size),
        allowed_lower,
        allowed_upper,
        problem.discrete_states,
        np.array([v.is_discrete for v in problem.actions], dtype=bool),
        np.array([v.is_discrete for v in problem.auxiliaries], dtype=bool),
    )


def _narrowed(lower: Decisions, upper: Decisions, bounds: HorizonBounds) -> tuple[Decisions, Decisions]:
    return (
        Decisions(
            lower.initial,
            np.maximum(lower.actions, bounds.action_lower),
            np.maximum(lower.auxiliaries, bounds.auxiliary_lower),
        ),
        Decisions(
            upper.initial,
            np.minimum(upper.actions, bounds.action_upper),
            np.minimum(upper.auxiliaries, bounds.auxiliary_upper),
        ),
    )


def _repeat(box: tuple[Array, Array], count: int) -> tuple[Array, Array]:
    lower, upper = box
    return np.tile(lower, (1, count, 1)), np.tile(upper, (1, count, 1))


def _typical_size(problem: Problem) -> float:
    """The largest finite bound or initial value of the problem, at least 1."""
    lower, upper = problem.box(problem.input_variables)
    numbers = np.abs(np.concatenate([lower, upper, problem.initial_lower, problem.initial_upper]))
    return max(1.0, float(numbers[np.isfinite(numbers)].max(initial=1.0)))


def _closed(sides: Decisions, others: Decisions, size: float) -> Decisions:
    """Infinite sides replaced by the other side (or zero) plus the size."""

    def close(side: Array, other: Array) -> Array:
        return np.where(np.isfinite(side), side, np.where(np.isfinite(other), other, 0.0) + size)

    return Decisions(
        close(sides.initial, others.initial),
        close(sides.actions, others.actions),
        close(sides.auxiliaries, others.auxiliaries),
    )
