"""Reward potentials: computed, or those given."""

from __future__ import annotations

from reluplan.bounds.boxes import ForwardBounds, equal_steps
from reluplan.planning.work import Work
from reluplan.potentials.compute import compute_potentials
from reluplan.potentials.generation import tell_rounds
from reluplan.potentials.potential_set import PotentialSet
from reluplan.potentials.reprove import reprove
from reluplan.potentials.settings import PotentialSettings


class PotentialsStage:
    """The paper's Algorithm 1; the MILP after it is strengthened by what it finds.

    Potentials hold for every goal and horizon, and so must the bounds that they rest on: forward ones.
    """

    name = "potentials"
    summary = "reward potentials by constraint generation; they strengthen the MILP after them"
    uses_workers = False

    def applies(self, work: Work) -> bool:
        return work.forward is not None

    def run(self, work: Work, deadline: float) -> None:
        """Those given, if this process proved them, or proves them now, or is told to trust them; else computed."""
        assert work.forward is not None
        given = work.options.potentials
        if given is None:
            work.run.potentials = _compute(work, work.forward, deadline)
        elif given.is_proven:
            work.run.potentials = given
        elif work.options.trust_potentials:
            work.log.note(
                "the potentials were trusted, not proven again: the bound, and infeasibility if it is claimed, hold "
                "only if the potentials do"
            )
            work.run.potentials = given
        else:
            proven, notes = reprove(work.problem, work.forward, given, work.options.thread_count, deadline)
            for note in notes:
                work.log.note(note)
            work.run.potentials = proven


def _compute(work: Work, bounds: ForwardBounds, deadline: float) -> PotentialSet:
    options = work.options
    settings = PotentialSettings(options.interval_count, threads=options.thread_count, seed=options.seed)
    per_step = len(equal_steps(bounds)) <= work.settings.few_boxes
    potentials = compute_potentials(work.problem, bounds, settings, per_step, deadline, tell_rounds(work.log.tell))
    work.log.tell(potentials.summary())
    if potentials.report.interrupted:
        raise KeyboardInterrupt
    return potentials
