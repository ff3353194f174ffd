"""The stages of planning, each in a file of its own; `STAGES` names them, proofs among them.

A stage of one's own is registered under a name, and a proof likewise in `reluplan.proofs.PROOFS`; schedules and
`reluplan plan --stages` then find it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from reluplan.errors import InputError
from reluplan.planning.settings import PlanSettings
from reluplan.planning.stages.bounds import BoundsStage, PropagationStage
from reluplan.planning.stages.milp import MilpStage
from reluplan.planning.stages.potentials import PotentialsStage
from reluplan.planning.stages.proof import ProofStage
from reluplan.planning.stages.search import SearchStage
from reluplan.planning.stages.stage import Closable, Stage
from reluplan.planning.stages.tightening import TighteningStage
from reluplan.proofs import PROOFS
from reluplan.proofs.crown.proof import CrownProof
from reluplan.proofs.crown.splitting import SplittingProof
from reluplan.proofs.grid.proof import GridProof
from reluplan.proofs.lagrangian.prefix import PrefixProof
from reluplan.proofs.lagrangian.proof import LagrangianProof
from reluplan.proofs.lagrangian.relaxation import RelaxationProof
from reluplan.proofs.proof_state import Proof
from reluplan.registry import Registry

STAGES: Registry[Callable[[], Stage]] = Registry("stage", "reluplan.stages")
for _stage in (BoundsStage, PropagationStage, SearchStage, TighteningStage, PotentialsStage, MilpStage):
    STAGES.register(_stage.name, _stage)


def stage_names() -> tuple[str, ...]:
    """Every stage that a schedule may have."""
    return STAGES.names() + PROOFS.names()


def get_stage(name: str, settings: PlanSettings) -> Stage:
    """The stage of that name."""
    if name in PROOFS:
        return ProofStage(_proof(name, settings))
    if name in STAGES:
        return STAGES[name]()
    raise InputError(f"unknown stage '{name}'; choose from {', '.join(stage_names())}")


@dataclass
class Stages:
    """The stages of one run, each made when it is first asked for; what they remember lasts as long as the run."""

    settings: PlanSettings
    _made: dict[str, Stage] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Stage:
        if name not in self._made:
            self._made[name] = get_stage(name, self.settings)
        return self._made[name]

    def close(self) -> None:
        """End whatever stages have begun and not ended."""
        for stage in self._made.values():
            if isinstance(stage, Closable):
                stage.close()


def _proof(name: str, settings: PlanSettings) -> Proof:
    """The proof of that name; ours with their settings."""
    match PROOFS[name]:
        case kind if kind is LagrangianProof:
            return LagrangianProof(settings.lagrangian)
        case kind if kind is RelaxationProof:
            return RelaxationProof(settings.relaxation)
        case kind if kind is PrefixProof:
            return PrefixProof(settings.prefix)
        case kind if kind is GridProof:
            return GridProof(settings.grid)
        case kind if kind is CrownProof:
            return CrownProof(settings.crown)
        case kind if kind is SplittingProof:
            return SplittingProof(settings.crown_cells)
        case kind:
            return kind()
