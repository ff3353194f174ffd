"""Proofs: upper bounds on the total reward of every plan, each method in a file or folder of its own.

`PROOFS` names them. A proof of one's own is a class without arguments that follows `proof_state.Proof`:

    PROOFS.register("mine", MyProof)          then: reluplan plan --stages bounds,search,mine
"""

from __future__ import annotations

from collections.abc import Callable

from reluplan.proofs.proof_state import Proof as Proof
from reluplan.proofs.proof_state import ProofState as ProofState
from reluplan.registry import Registry

PROOFS: Registry[Callable[[], Proof]] = Registry("proof", "reluplan.proofs")
PROOFS.register("interval", "reluplan.proofs.interval:IntervalProof")
PROOFS.register("single-steps", "reluplan.proofs.single_steps:SingleStepProof")
PROOFS.register("relaxation", "reluplan.proofs.lagrangian.relaxation:RelaxationProof")
PROOFS.register("prefix", "reluplan.proofs.lagrangian.prefix:PrefixProof")
PROOFS.register("crown", "reluplan.proofs.crown.proof:CrownProof")
PROOFS.register("crown-cells", "reluplan.proofs.crown.splitting:SplittingProof")
PROOFS.register("grid", "reluplan.proofs.grid.proof:GridProof")
PROOFS.register("lagrangian", "reluplan.proofs.lagrangian.proof:LagrangianProof")
