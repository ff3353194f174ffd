"""What an inspection finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from reluplan.files import json_text
from reluplan.inspection.guess import Guess
from reluplan.inspection.lipschitz import Lipschitz
from reluplan.inspection.model_size import ModelSize
from reluplan.inspection.network_size import NetworkSize
from reluplan.inspection.undecided import UndecidedSteps, UndecidedUnits


@dataclass(frozen=True)
class Variables:
    """The variables of a problem; past: states that hold what was before; unbounded: names with an infinite side."""

    states: int
    actions: int
    auxiliaries: int
    discrete: int
    unbounded: tuple[str, ...]
    past: int = 0
    series: int = 0


@dataclass(frozen=True)
class Inspection:
    """A problem, or a network alone, before anything is planned. What is None is not known, and a note says why.

    network: the learned one; None if all transitions are known. dynamics: with known transitions, as the planner has
    it; equal to `network` for a network alone. box, steps: undecided units. lipschitz: of the dynamics over the box, in
    the variables' own units; relative: with every variable measured in widths of its bounds. memory: bytes, about.
    """

    source: str
    kind: Literal["problem", "network"]
    variables: Variables | None
    horizon: int | None
    network: NetworkSize | None
    dynamics: NetworkSize
    box: UndecidedUnits | None
    steps: UndecidedSteps | None
    lipschitz: Lipschitz
    relative: Lipschitz | None
    model: ModelSize | None
    memory: float | None
    guess: Guess | None
    is_proven_infeasible: bool
    advice: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float

    def to_json(self) -> str:
        """Everything, with the names of this class; numbers beyond all measure become null."""
        record = asdict(self)
        for name in ("network", "dynamics"):
            size = getattr(self, name)
            if size is not None:
                record[name] |= {
                    key: getattr(size, key) for key in ("hidden", "weights", "nonzeros", "skips", "sparsity")
                }
        if self.model is not None:
            record["model"]["is_whole"] = self.model.is_whole
        return json_text(record)
