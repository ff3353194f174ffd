"""How a search for potentials went: typed, and as the plain data that a potentials file has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reluplan.potentials.generation import Generation, Round
from reluplan.potentials.settings import PotentialSettings, restored

_EMPTY_ROUND = Round(0.0, 0.0, None, 0, "")


@dataclass(frozen=True)
class PotentialReport:
    """How the potentials of a set were found.

    settings: None if nothing is known of that, as of a set made by hand. units: of the largest set. sets: how many.
    converged: whether all are optimal within the tolerance. iterations: rounds of the loop. cuts: of the master
    problems. patterns: whose best reward is known. milps: subproblems solved as MILPs. seconds: of all sets.
    proof_bound: the largest D >= max(R − φ), before the shift that made potentials valid. objective and history: of the
    first set; φ at the objective's pattern, and its rounds. proven_again: members that `reprove` proved.
    """

    settings: PotentialSettings | None = None
    units: int = 0
    sets: int = 0
    converged: bool = False
    interrupted: bool = False
    iterations: int = 0
    cuts: int = 0
    patterns: int = 0
    milps: int = 0
    seconds: float = 0.0
    proof_bound: float | None = None
    objective: float | None = None
    history: tuple[Round, ...] = ()
    notes: tuple[str, ...] = ()
    proven_again: int | None = None

    @classmethod
    def of(
        cls, settings: PotentialSettings, generations: Sequence[Generation], interrupted: bool = False
    ) -> PotentialReport:
        """The report of sets that were generated one after the other."""
        return cls(
            settings=settings,
            units=max((g.potentials.features.unit_count for g in generations), default=0),
            sets=len(generations),
            converged=all(g.converged for g in generations),
            interrupted=interrupted or any(g.interrupted for g in generations),
            iterations=sum(len(g.rounds) for g in generations),
            cuts=sum(g.cut_count for g in generations),
            patterns=sum(g.pattern_count for g in generations),
            milps=sum(g.milp_count for g in generations),
            seconds=round(sum(g.seconds for g in generations), 3),
            proof_bound=max((g.potentials.proof_bound for g in generations), default=None),
            objective=generations[0].objective if generations else None,
            history=generations[0].rounds if generations else (),
            notes=tuple(note for g in generations for note in g.notes),
        )

    @property
    def interval_count(self) -> int:
        """N, the output intervals of each unit."""
        return (self.settings or PotentialSettings()).interval_count

    def summary(self) -> str:
        """One line."""
        state = "converged" if self.converged else "stopped early"
        bound = "" if self.proof_bound is None else f", proof bound {self.proof_bound:.4g}"
        return f"potentials {state}: {self.units} units, {self.cuts} cuts, {self.milps} MILPs{bound}"

    def __str__(self) -> str:
        return self.summary()

    def history_columns(self) -> dict[str, list[Any]]:
        """The rounds as columns, for `pandas.DataFrame` or `polars.DataFrame`.

        >>> PotentialReport(history=(Round(0.1, 2.0, None, 3, "search"),)).history_columns()["violation"]
        [2.0]
        """
        names = [entry.name for entry in dataclasses.fields(Round)]
        return {name: [getattr(entry, name) for entry in self.history] for name in names}

    def to_dict(self) -> dict[str, Any]:
        """As plain data: the "report" of a potentials file."""
        again = {} if self.proven_again is None else {"proven_again": self.proven_again}
        if self.settings is None:
            return again
        parts = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self)}
        parts["settings"] = self.settings.to_dict()
        parts["history"] = [dataclasses.asdict(entry) for entry in self.history]
        parts["notes"] = list(self.notes)
        del parts["proven_again"]
        return {**parts, **again}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> PotentialReport:
        """What `to_dict` gave, after it was in a file; ValueError if it is something else."""
        if not isinstance(content, Mapping):
            raise ValueError("the report is not a table")
        if "settings" not in content:
            return cls(proven_again=content.get("proven_again"))
        plain = {name: part for name, part in content.items() if name not in ("settings", "history")}
        return dataclasses.replace(
            restored(cls(), plain),
            settings=PotentialSettings.from_dict(content["settings"]),
            history=tuple(restored(_EMPTY_ROUND, entry) for entry in content.get("history", ())),
        )
