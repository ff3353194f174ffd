"""Windows of the horizon: some of its steps, as a small planning problem of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reluplan.bounds.boxes import HorizonBounds
from reluplan.bounds.span import Span
from reluplan.encoding.unroll import PlanModel, unroll
from reluplan.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Window:
    """A span with the one small problem that contains each of its windows.

    problem: horizon `length`, from the box of the first state; goal and final reward only where the window ends at the
    horizon. Its rewards are discounted from its own first step on.
    bounds: the hull of the windows' proven boxes, with the claim of the whole's: of windows of such plans.
    """

    span: Span
    problem: Problem
    bounds: HorizonBounds

    @cached_property
    def plan_model(self) -> PlanModel:
        return unroll(self.problem, self.bounds)


def cut_window(problem: Problem, bounds: HorizonBounds, span: Span) -> Window:
    """The window of a problem, which begins anywhere in its first box.

    Only the first window starts at I, and only one that ends at the horizon knows G: G cuts plans at the last step
    alone, so a window that is repeated, or ends earlier, must do without it. So must it without the final reward: a sum
    of windows that is to bound plans keeps the last one apart (`with_last_apart`).
    """
    hull = bounds.hull(span)
    is_first = span.first == 0 and span.count == 1
    is_last = span.end == problem.horizon and span.count == 1
    window = problem.part(
        span.first,
        span.length,
        hull.state_lower[0],
        hull.state_upper[0],
        keeps_initial_rows=is_first,
        goal=problem.goal if is_last else (),
        final_reward=problem.final_reward if is_last else None,
    )
    return Window(span, window, hull)
