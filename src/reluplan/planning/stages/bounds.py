"""Boxes of all plans: forward bounds, then propagation of goals and state bounds."""

from __future__ import annotations

from reluplan import clock
from reluplan.bounds.boxes import intersected
from reluplan.bounds.reachability import forward_bounds, meet_goal, no_plan_exists
from reluplan.bounds.span import Span
from reluplan.errors import InfeasibleError, NoPlanExistsError
from reluplan.planning.work import Work
from reluplan.tightening.propagation import propagate


class BoundsStage:
    """Step by step from the initial state; LPs until the deadline, CROWN for as long again, then intervals."""

    name = "bounds"
    summary = "forward bounds of every state, action and unit: intervals, CROWN, LPs"
    uses_workers = False

    def applies(self, work: Work) -> bool:
        """There is more to do where LPs were left out for lack of time."""
        return work.all_plans is None or work.bounds_were_slow

    def run(self, work: Work, deadline: float) -> None:
        """Forward bounds, intersected with those of an earlier turn."""
        now = clock.now()
        last_moment = min(now + 2.0 * (deadline - now), work.clock.deadline())
        forward = forward_bounds(work.problem, deadline, last_moment)
        found = meet_goal(work.problem, forward, deadline)
        work.log.tell(f"{int(found.unstable.sum())} of {found.unstable.size} units are unstable")
        work.bounds_were_slow = clock.now() > deadline
        work.forward = forward
        if work.all_plans is not None:
            try:
                found = intersected(work.all_plans, [Span(0, found.horizon)], [found])
            except NoPlanExistsError:
                raise
            except InfeasibleError as error:
                raise no_plan_exists(work.problem, error) from None
        work.take_boxes(found)


class PropagationStage:
    """`tightening.propagation`: LPs of single steps, from goals and state bounds backwards, and forwards again."""

    name = "propagation"
    summary = "goals and state bounds carried backwards and forwards by LPs of single steps"
    uses_workers = False

    def applies(self, work: Work) -> bool:
        return work.all_plans is not None

    def run(self, work: Work, deadline: float) -> None:
        """Smaller boxes of all plans, which also know what comes after a step."""
        assert work.all_plans is not None
        before = int(work.all_plans.unstable.sum())
        found = propagate(work.problem, work.all_plans, deadline, settings=work.settings.propagation)
        after = int(found.unstable.sum())
        if after < before:
            work.log.tell(f"unstable units: {before} -> {after} by propagation")
        work.take_boxes(found)
