"""A proof as a stage."""

from __future__ import annotations

import math
from functools import partial

from reluplan import clock
from reluplan.errors import InfeasibleError, NoBetterPlanError, NoPlanExistsError, ReluplanError
from reluplan.planning.stages.stage import Closable
from reluplan.planning.work import Work
from reluplan.problem.rollout import Trajectory
from reluplan.proofs.proof_state import Proof, ProofState
from reluplan.search.plan_search import search_plans
from reluplan.tightening.propagation import nothing_left

SEARCH_SHARE, LONGEST_SEARCH = 0.02, 1.0
"""Of the time that is left, and seconds, for a local search from a plan of a proof."""


class ProofStage:
    """Gives a proof its state, and takes over the boxes and cuts that it leaves."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self.uses_workers = bool(getattr(proof, "uses_workers", True))
        self.starts_slowly = bool(getattr(proof, "starts_slowly", False))
        self.name = proof.stage
        self.summary = proof.summary
        self.own_bound = math.inf

    def applies(self, work: Work) -> bool:
        has_plan = work.incumbent.plan is not None
        return work.all_plans is not None and (has_plan or not self._proof.needs_plan)

    def run(self, work: Work, deadline: float) -> None:
        """The proof, for as long as it gets."""
        state = ProofState(
            work.problem,
            work.incumbent,
            work.boxes,
            work.pool,
            work.clock,
            work.options.seed,
            work.log.tell,
            work.cuts,
            improve=partial(_improve, work),
        )
        try:
            self._proof.improve(state, deadline)
        except (NoPlanExistsError, NoBetterPlanError):
            raise
        except InfeasibleError as error:
            raise nothing_left(work.problem, state.boxes, error) from None
        finally:
            self.own_bound = min(self.own_bound, state.best_offer)
            work.cuts = state.cuts
            work.take_boxes(state.boxes)

    def close(self) -> None:
        """Let the proof end what it has begun."""
        if isinstance(self._proof, Closable):
            self._proof.close()


def _improve(work: Work, plan: Trajectory) -> None:
    """A local search from a plan; what goes wrong here costs plans, never the proof."""
    until = clock.now() + min(LONGEST_SEARCH, SEARCH_SHARE * work.clock.remaining)
    offer, seed, settings = work.incumbent.offer_plan, work.options.seed, work.settings.search
    try:
        search_plans(work.problem, None, until, offer, seed, plan, settings=settings, heuristics=())
    except ReluplanError as error:
        work.log.note(f"the search from a plan of a proof stopped: {error}")
