"""What a planning run ends with, and the files of a run directory."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reluplan.errors import OutputError
from reluplan.files import discard, replace_pair, write_atomically
from reluplan.plan_file import plan_csv
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem import Problem
from reluplan.run import Run
from reluplan.simulate import Trajectory

Status = Literal["optimal", "feasible", "infeasible", "no_plan"]
RUN_FILES = ("result.json", "plan.csv", "potentials.json", "log.txt")
EXIT_CODES: dict[Status, int] = {"optimal": 0, "feasible": 0, "infeasible": 2, "no_plan": 3}


@dataclass(frozen=True, eq=False)
class PlanResult:
    """A plan with its proven bound, or why there is none.

    reward: simulated. bound: proven, margin included. `optimal` means gap <= the requested gap.
    """

    problem: Problem
    status: Status
    trajectory: Trajectory | None
    bound: float | None
    fields: dict[str, Any]
    potentials: PotentialSet | None = None

    @property
    def reward(self) -> float | None:
        return None if self.trajectory is None else self.trajectory.total_reward

    @property
    def gap(self) -> float | None:
        gap: float | None = self.fields["gap"]
        return gap

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.status]

    def to_json(self) -> str:
        """The content of result.json."""
        return json.dumps({"status": self.status, "reward": self.reward, "bound": self.bound, **self.fields}, indent=2)

    def write(self, folder: str | Path, log: str = "") -> None:
        """Write result.json and plan.csv, then potentials.json and log.txt into a folder.

        Files of an earlier run that this one does not have are removed. Each that can be written is written; an
        OutputError then tells of the others. There is never a result.json beside the plan.csv of another run: where
        the plan cannot be written, all files of an earlier run stay as they are.
        """
        folder = Path(folder)
        plan = None if self.trajectory is None else plan_csv(self.problem, self.trajectory)
        failures, kept = replace_pair(folder, ("result.json", self.to_json() + "\n"), ("plan.csv", plan), RUN_FILES)
        if not kept:
            failures += self._write_others(folder, log)
        if failures:
            found = ", ".join(name for name in RUN_FILES if _is_file(folder / name)) or "nothing"
            state = "is still what an earlier run left" if kept else "is now"
            raise OutputError(f"{'; '.join(failures)}. In {folder} {state}: {found}.")

    def _write_others(self, folder: Path, log: str) -> list[str]:
        """potentials.json and log.txt; what went wrong, in words."""
        failures = []
        for name, write in (("potentials.json", self._write_potentials), ("log.txt", _writer(log))):
            try:
                write(folder / name)
            except OutputError as error:
                discard(folder / name)  # of an earlier run
                failures.append(str(error))
        return failures

    def _write_potentials(self, path: Path) -> None:
        if self.potentials is None:
            discard(path)
        else:
            self.potentials.save(path)


def _is_file(path: Path) -> bool:
    """Path.is_file complains about closed folders."""
    return os.path.isfile(path)  # noqa: PTH113


def _writer(text: str) -> Callable[[Path], None]:
    return lambda path: write_atomically(path, text)


def summarise(run: Run, method: str, solver: str, seed: int, versions: dict[str, str]) -> PlanResult:
    """The result of a run as it stands: honest at any moment."""
    bound = None if math.isinf(run.bound) else run.bound
    if run.best is not None or bound is not None:
        run.close_history()
    return PlanResult(
        problem=run.problem,
        status=_status(run),
        trajectory=run.best,
        bound=bound,
        potentials=run.potentials,
        fields={
            "absolute_gap": run.absolute_gap,
            "gap": run.gap,
            "gap_target": run.gap_target,
            "max_violation": run.max_violation if run.best is not None else None,
            "tie_distance": float(run.problem.tie_distances.max(initial=0.0)),
            "bound_margin": run.bound_margin if bound is not None else None,
            "horizon": run.problem.horizon,
            "method": method,
            "solver": solver,
            "seconds": round(run.clock.elapsed, 3),
            "stages": {name: round(spent, 3) for name, spent in run.stage_seconds.items()},
            "nodes": {"open": run.open_nodes, "closed": run.closed_nodes},
            "history": run.history,
            "interrupted": run.interrupted,
            "notes": run.notes,
            "seed": seed,
            "versions": versions,
            "problem": run.problem.name,
        },
    )


def _status(run: Run) -> Status:
    if run.best is not None:
        return "optimal" if run.is_proven else "feasible"
    return "infeasible" if run.proven_infeasible else "no_plan"
