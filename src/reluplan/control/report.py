"""What controlled episodes were worth: returns, seconds, and how many steps had a proven plan."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reluplan.control.controller import Decision
from reluplan.control.episode import Episode
from reluplan.errors import InputError
from reluplan.files import write_atomically
from reluplan.problem.problem import Problem
from reluplan.tables.csv_names import escaped

ENDINGS = (".json", ".csv")


@dataclass(frozen=True, eq=False)
class ControlReport:
    """Episodes of a controller, and the decisions of each."""

    problem: Problem
    episodes: tuple[Episode, ...]
    decisions: tuple[tuple[Decision, ...], ...]

    def summary(self) -> dict[str, Any]:
        """Mean and spread (standard deviation over episodes) of the return; seconds per step; shares of steps."""
        returns = np.array([episode.total_reward for episode in self.episodes])
        made = [decision for decisions in self.decisions for decision in decisions]
        seconds = np.array([decision.seconds for decision in made])
        return {
            "problem": self.problem.name,
            "episodes": len(self.episodes),
            "steps": [len(episode.actions) for episode in self.episodes],
            "ended_early": sum(episode.ended_early for episode in self.episodes),
            "returns": returns.tolist(),
            "return_mean": float(returns.mean()),
            "return_spread": float(returns.std(ddof=1)) if len(returns) > 1 else 0.0,
            "seconds_per_step": float(seconds.mean()),
            "seconds_per_step_max": float(seconds.max()),
            "proven_share": _share(made, "status", "optimal"),
            "previous_plan_share": _share(made, "source", "previous plan"),
            "idle_share": _share(made, "source", "idle"),
        }

    def to_json(self) -> str:
        """The summary, and every step of every episode."""
        record = {**self.summary(), "rows": [dict(zip(self._header(), row, strict=True)) for row in self._rows()]}
        return json.dumps(record, indent=2)

    def to_csv(self) -> str:
        """One row per step: where the system was, what was done, what it earned, and how the action was found."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([escaped(name) for name in self._header()])
        writer.writerows(self._rows())
        return text.getvalue()

    def write(self, path: Path) -> None:
        """Write a file; the ending decides between JSON and CSV."""
        require_ending(path)
        write_atomically(path, self.to_csv() if path.suffix == ".csv" else self.to_json() + "\n")

    def _header(self) -> list[str]:
        names = [v.name for v in (*self.problem.states, *self.problem.actions)]
        return ["episode", "step", *names, "reward", "source", "status", "predicted_reward", "bound", "seconds"]

    def _rows(self) -> list[list[Any]]:
        return [
            [number, t + 1, *episode.states[t].tolist(), *episode.actions[t].tolist(), float(episode.rewards[t]),
             made.source, made.status, made.reward, made.bound, round(made.seconds, 4)]
            for number, (episode, decisions) in enumerate(zip(self.episodes, self.decisions, strict=True), 1)
            for t, made in enumerate(decisions)
        ]  # fmt: skip


def require_ending(path: Path) -> None:
    """Only .json and .csv can be written."""
    if path.suffix not in ENDINGS:
        raise InputError(f"{path}: the ending must be .json or .csv, got '{path.suffix}'")


def print_report(report: ControlReport) -> None:
    """The summary in a few lines."""
    found = report.summary()
    steps = sum(found["steps"])
    print(f"episodes  {found['episodes']}, {steps} steps")
    print(f"return    {found['return_mean']:.6f} mean, {found['return_spread']:.6g} spread, of the true system")
    print(f"time      {found['seconds_per_step']:.2f} s a step, {found['seconds_per_step_max']:.2f} s at most")
    print(f"proven    {found['proven_share']:.0%} of the steps had a plan that is proven to be optimal")
    if found["previous_plan_share"] or found["idle_share"]:
        print(
            f"note      {found['previous_plan_share']:.0%} of the steps took the rest of an earlier plan, "
            f"{found['idle_share']:.0%} had none"
        )
    if found["ended_early"]:
        print(f"note      {found['ended_early']} episodes were ended early by the simulator")


def _share(decisions: Sequence[Decision], field: str, value: str) -> float:
    return float(np.mean([getattr(decision, field) == value for decision in decisions]))
