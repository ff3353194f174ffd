"""A proof as a stage."""

from __future__ import annotations

import math

from reluplan.errors import InfeasibleError, NoBetterPlanError, NoPlanExistsError
from reluplan.planning.stages.stage import Closable
from reluplan.planning.work import Work
from reluplan.proofs.proof_state import Proof, ProofState
from reluplan.tightening.propagation import nothing_left


class ProofStage:
    """Gives a proof its state, and takes over the boxes and cuts that it leaves."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self.uses_workers = bool(getattr(proof, "uses_workers", True))
        self.name = proof.stage
        self.summary = proof.summary
        self.own_bound = math.inf

    def applies(self, work: Work) -> bool:
        has_plan = work.incumbent.plan is not None
        return work.all_plans is not None and (has_plan or not self._proof.needs_plan)

    def run(self, work: Work, deadline: float) -> None:
        """The proof, for as long as it gets."""
        state = ProofState(
            work.problem, work.incumbent, work.boxes, work.pool, work.clock, work.options.seed, work.log.tell, work.cuts
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
