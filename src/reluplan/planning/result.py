"""What a planning run ends with, and the files of a run directory."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reluplan.errors import OutputError
from reluplan.files import discard, replace_pair, write_atomically
from reluplan.planning.gap import absolute_gap, relative_gap
from reluplan.planning.log import HistoryEntry, NodeCount, Share
from reluplan.planning.options import PlanOptions
from reluplan.planning.run import Run
from reluplan.planning.schedule import Schedule
from reluplan.planning.settings import PlanSettings
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.check import SoftViolation, soft_violations
from reluplan.problem.plan_file import plan_columns, plan_csv
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

Status = Literal["optimal", "feasible", "infeasible", "no_plan"]
RUN_FILES = ("result.json", "plan.csv", "potentials.json", "log.txt")
EXIT_CODES: dict[Status, int] = {"optimal": 0, "feasible": 0, "infeasible": 2, "no_plan": 3}

SHOWN_ROWS = 12
"""Of a plan in a notebook."""


@dataclass(frozen=True, eq=False)
class PlanResult:
    """A plan with its proven bound, or why there is none.

    reward: of the plan as rolled out. bound: proven, its margin included. `optimal` means gap <= gap_target, where
    gap = (bound − reward) / max(1, |reward|). max_violation: of a constraint, by the plan. tie_distance: how far the
    plan, and those of the bound, stay from rounding ties. stages: the seconds of each. shares: what came of the turns
    of those that take turns. nodes: of the last MILP. settings, schedule: what the stages were run with.
    """

    problem: Problem
    status: Status
    trajectory: Trajectory | None
    bound: float | None
    gap_target: float
    max_violation: float | None
    tie_distance: float
    bound_margin: float | None
    method: str
    solver: str
    seed: int
    seconds: float
    stages: Mapping[str, float]
    nodes: NodeCount
    history: tuple[HistoryEntry, ...]
    interrupted: bool
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    settings: PlanSettings = field(default_factory=PlanSettings)
    schedule: Schedule = ()
    potentials: PotentialSet | None = None
    shares: tuple[Share, ...] = ()

    @property
    def reward(self) -> float | None:
        return None if self.trajectory is None else self.trajectory.total_reward

    @property
    def absolute_gap(self) -> float | None:
        return absolute_gap(self.reward, self.bound)

    @property
    def gap(self) -> float | None:
        return relative_gap(self.reward, self.bound)

    @property
    def soft(self) -> tuple[SoftViolation, ...]:
        """The soft rows that the plan breaks."""
        return () if self.trajectory is None else soft_violations(self.problem, self.trajectory)

    @property
    def horizon(self) -> int:
        return self.problem.horizon

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.status]

    def __str__(self) -> str:
        reward = "no plan" if self.reward is None else f"reward {self.reward:.10g}"
        bound = "no bound" if self.bound is None else f"bound {self.bound:.10g}"
        gap = "" if self.gap is None else f", gap {self.gap:.3g}"
        return f"{self.problem.name}: {self.status}, {reward}, {bound}{gap}, {self.seconds:.1f} s"

    def _repr_html_(self) -> str:
        """What a notebook shows: the outcome in a line, and the first rows of the plan."""
        table = self.plan_table()
        shown = [[_cell(column[row]) for column in table.values()] for row in range(min(SHOWN_ROWS, self.horizon + 1))]
        rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for cells in shown if cells)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in table)
        more = f"<p>{self.horizon + 1 - len(shown)} more rows</p>" if table and self.horizon + 1 > len(shown) else ""
        body = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}" if table else ""
        return f"<p>{html.escape(str(self))}</p>{body}"

    def to_dict(self) -> dict[str, Any]:
        """The content of result.json."""
        return {
            "status": self.status,
            "reward": self.reward,
            "bound": self.bound,
            "absolute_gap": self.absolute_gap,
            "gap": self.gap,
            "gap_target": self.gap_target,
            "max_violation": self.max_violation,
            "soft": [dataclasses.asdict(violation) for violation in self.soft],
            "tie_distance": self.tie_distance,
            "bound_margin": self.bound_margin,
            "horizon": self.horizon,
            "method": self.method,
            "solver": self.solver,
            "seconds": self.seconds,
            "stages": dict(self.stages),
            "shares": [dataclasses.asdict(share) for share in self.shares],
            "nodes": dataclasses.asdict(self.nodes),
            "history": [dataclasses.asdict(entry) for entry in self.history],
            "interrupted": self.interrupted,
            "notes": list(self.notes),
            "seed": self.seed,
            "versions": dict(self.versions),
            "problem": self.problem.name,
            "settings": dataclasses.asdict(self.settings),
            "schedule": [_step(step.stage, step.share, step.longest, step.when.name) for step in self.schedule],
        }

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2)

    def plan_table(self) -> dict[str, list[float | int | None]]:
        """plan.csv as columns, for pandas.DataFrame or polars.DataFrame; empty without a plan."""
        return {} if self.trajectory is None else plan_columns(self.problem, self.trajectory)

    def history_table(self) -> dict[str, list[float | int | None]]:
        """The history as columns, likewise."""
        names = [entry.name for entry in dataclasses.fields(HistoryEntry)]
        return {name: [getattr(entry, name) for entry in self.history] for name in names}

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


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _step(stage: str, share: float, longest: float, when: str) -> dict[str, Any]:
    return {"stage": stage, "share": share, "longest": None if math.isinf(longest) else longest, "when": when.lower()}


def _is_file(path: Path) -> bool:
    """Path.is_file complains about closed folders."""
    return os.path.isfile(path)  # noqa: PTH113


def _writer(text: str) -> Callable[[Path], None]:
    return lambda path: write_atomically(path, text)


def summarise(
    run: Run, options: PlanOptions, settings: PlanSettings, schedule: Schedule, versions: Mapping[str, str]
) -> PlanResult:
    """The result of a run as it stands: honest at any moment."""
    incumbent, log = run.incumbent, run.log
    has_bound = not math.isinf(incumbent.bound)
    has_plan = incumbent.plan is not None
    if has_plan or has_bound:
        log.close()
    return PlanResult(
        problem=run.problem,
        status=_status(run),
        trajectory=incumbent.plan,
        bound=incumbent.bound if has_bound else None,
        gap_target=incumbent.gap_target,
        max_violation=incumbent.max_violation if has_plan else None,
        tie_distance=float(run.problem.tie_distances.max(initial=0.0)),
        bound_margin=incumbent.bound_margin if has_bound else None,
        method=options.method,
        solver=options.solver,
        seed=options.seed,
        seconds=round(run.clock.elapsed, 3),
        stages={name: round(spent, 3) for name, spent in log.stage_seconds.items()},
        nodes=log.nodes,
        history=tuple(log.history),
        interrupted=run.interrupted,
        notes=tuple(log.notes),
        versions=versions,
        settings=settings,
        schedule=schedule,
        potentials=run.potentials,
        shares=log.shares,
    )


def _status(run: Run) -> Status:
    if run.incumbent.plan is not None:
        return "optimal" if run.incumbent.is_proven else "feasible"
    return "infeasible" if run.proven_infeasible else "no_plan"
