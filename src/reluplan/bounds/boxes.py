"""Boxes of every state, action and unit along the horizon, and which plans they are proven to contain.

What boxes are good for is their type. Each claim includes those above it:

    BetterPlanBounds    contain every plan that is better than the incumbent: a bound proven over them is one of all
                        plans only with the incumbent's reward, and if nothing is left the incumbent is optimal
    AllPlanBounds       contain every plan of the problem: if nothing is left, no plan exists
    ForwardBounds       know nothing of the goal, nor of what follows a step: contain the first t steps of every plan,
                        whatever its goal, up to this horizon; reward potentials rest on these

`HorizonBounds` alone, as of one step of potentials, claims nothing. Whoever tightens boxes says what it used: rows
of the problem (`tightened`, at most AllPlanBounds), or the incumbent's reward (`tightened_for_better_plans`). A claim
never becomes stronger; who needs one asks for it by type, or by `require_claim`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from reluplan.bounds.interval import uncrossed
from reluplan.bounds.span import Span

Array = NDArray[np.float64]

STATE_FIELDS = ("state_lower", "state_upper", "auxiliary_lower", "auxiliary_upper")
"""The fields with one entry more than there are steps."""


@dataclass(frozen=True, eq=False)
class HorizonBounds:
    """Shapes: states (H+1, n), actions (H, m), auxiliaries (H+1, k), units (pre-activations) (H, relu_count), outputs
    (predictions before rounding) (H, n)."""

    state_lower: Array
    state_upper: Array
    action_lower: Array
    action_upper: Array
    auxiliary_lower: Array
    auxiliary_upper: Array
    unit_lower: Array
    unit_upper: Array
    output_lower: Array
    output_upper: Array

    @property
    def horizon(self) -> int:
        return len(self.action_lower)

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Which units may be on or off, shape (H, relu_count)."""
        unstable: NDArray[np.bool_] = (self.unit_lower < 0.0) & (self.unit_upper > 0.0)
        return unstable

    @property
    def relaxation_gaps(self) -> Array:
        """How far the chord above each unit is from the unit, at most: −l u / (u − l), shape (H, relu_count)."""
        low, high = np.minimum(self.unit_lower, 0.0), np.maximum(self.unit_upper, 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.nan_to_num(-low * high / (high - low), nan=0.0, posinf=np.inf))

    def arrays(self) -> dict[str, Array]:
        """Every field by its name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def copied(self) -> Self:
        """The same boxes in arrays of their own."""
        return self._same_claim({name: array.copy() for name, array in self.arrays().items()})

    def hull(self, span: Span) -> Self:
        """The smallest boxes that contain each of a span's windows, offset by offset: of windows of such plans."""
        return self._same_claim({name: _hull(name, array, span) for name, array in self.arrays().items()})

    def _same_claim(self, arrays: Mapping[str, Array]) -> Self:
        """The same boxes in other arrays."""
        claim: dict[str, Any] = {"because": "the same boxes"} if isinstance(self, BetterPlanBounds) else {}
        return type(self)(**arrays, **claim)


@dataclass(frozen=True, eq=False)
class BetterPlanBounds(HorizonBounds):
    """Boxes that contain every plan better than the incumbent.

    because: why the claim holds, in words. Whoever makes one has to say, so that `dataclasses.replace`, which would
    keep the claim whatever the new arrays rest on, raises an error.
    """

    because: InitVar[str]

    def __post_init__(self, because: str) -> None:
        assert because, "a claim needs a reason"


@dataclass(frozen=True, eq=False)
class AllPlanBounds(BetterPlanBounds):
    """Boxes that contain every plan of the problem."""


@dataclass(frozen=True, eq=False)
class ForwardBounds(AllPlanBounds):
    """Boxes of the first steps of every plan, whatever its goal and whatever follows."""


Claim = TypeVar("Claim", bound=BetterPlanBounds)
Plans = TypeVar("Plans", AllPlanBounds, BetterPlanBounds)


def require_claim(bounds: HorizonBounds, claim: type[Claim]) -> Claim:
    """The bounds, if they make a claim; a proof that rests on boxes that do not would be none.

    >>> nothing = np.zeros((1, 0))
    >>> require_claim(BetterPlanBounds(*[nothing] * 10, because="an example"), AllPlanBounds)
    Traceback (most recent call last):
    TypeError: AllPlanBounds are needed, but these are BetterPlanBounds
    """
    if not isinstance(bounds, claim):
        raise TypeError(f"{claim.__name__} are needed, but these are {type(bounds).__name__}")
    return bounds


def tightened(bounds: Plans, arrays: Mapping[str, Array]) -> Plans:
    """Bounds with some arrays replaced by smaller boxes that follow from the problem's rows: of the same plans, but
    never forward ones, since the goal and later steps may have been used."""
    if isinstance(bounds, AllPlanBounds):
        return AllPlanBounds(**{**bounds.arrays(), **arrays}, because="rows that every plan satisfies")
    return BetterPlanBounds(**{**bounds.arrays(), **arrays}, because="rows that every plan satisfies")


def tightened_for_better_plans(bounds: BetterPlanBounds, arrays: Mapping[str, Array]) -> BetterPlanBounds:
    """Bounds with some arrays replaced by boxes that hold for plans better than the incumbent only."""
    return BetterPlanBounds(**{**bounds.arrays(), **arrays}, because="a reward above the incumbent's")


def intersected(bounds: Plans, spans: Sequence[Span], found: Sequence[Plans]) -> Plans:
    """The bounds, intersected with what was found for each span's windows; of the plans that all of them contain.

    Raises InfeasibleError if nothing is left.
    """
    smaller = tightened(bounds, bounds.copied().arrays())
    for span, window in zip(spans, found, strict=True):
        intersect_in_place(smaller, span, window)
    if all(isinstance(window, AllPlanBounds) for window in found):
        return smaller
    return tightened_for_better_plans(smaller, {})  # type: ignore[return-value]  # Plans is BetterPlanBounds then


def intersect_in_place(bounds: HorizonBounds, span: Span, window: HorizonBounds) -> None:
    """Intersect the boxes of each of a span's windows with those found for one; for bounds that the caller made."""
    starts = np.array(span.starts())
    for name in (name.removesuffix("_lower") for name in bounds.arrays() if "lower" in name):
        lower, upper = getattr(bounds, f"{name}_lower"), getattr(bounds, f"{name}_upper")
        new_lower, new_upper = getattr(window, f"{name}_lower"), getattr(window, f"{name}_upper")
        if span.count == 1:
            here = slice(span.first, span.first + len(new_lower))
            _intersect(lower, upper, here, new_lower, new_upper)
            continue
        for offset in range(len(new_lower)):  # windows may overlap, but not at the same offset
            _intersect(lower, upper, starts + offset, new_lower[offset], new_upper[offset])


def _intersect(
    lower: Array, upper: Array, steps: slice | NDArray[np.int64], new_lower: Array, new_upper: Array
) -> None:
    low, high = np.maximum(lower[steps], new_lower), np.minimum(upper[steps], new_upper)
    lower[steps], upper[steps] = uncrossed(low, high)


def equal_steps(bounds: HorizonBounds) -> list[Span]:
    """Runs of consecutive steps whose boxes are equal, so that one computation serves them all.

    Of auxiliaries only those count that are known, as series are, before the step and after it.
    """
    parts = [array[: bounds.horizon] for name, array in bounds.arrays().items() if not name.startswith("auxiliary")]
    known = bounds.auxiliary_lower[:, (bounds.auxiliary_lower == bounds.auxiliary_upper).all(axis=0)]
    parts += [known[:-1], known[1:]]
    same = np.all([(part[1:] == part[:-1]).all(axis=1) for part in parts], axis=0)
    starts = [0, *(1 + np.flatnonzero(~same)).tolist()]
    return [Span(a, 1, b - a) for a, b in zip(starts, [*starts[1:], bounds.horizon], strict=True)]


def _hull(name: str, values: Array, span: Span) -> Array:
    width = span.length + (name in STATE_FIELDS)
    if span.count == 1:
        return values[span.first : span.first + width].copy()
    windows = values[np.array(span.starts())[:, None] + np.arange(width)]
    return np.asarray(windows.min(axis=0) if name.endswith("lower") else windows.max(axis=0))
