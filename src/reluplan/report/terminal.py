"""What the commands print at the end."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from reluplan.planning.result import PlanResult
from reluplan.potentials.potential_set import PotentialSet
from reluplan.problem.check import CheckReport, SoftViolation, soft_violations
from reluplan.problem.discounting import present_value
from reluplan.problem.plan_file import StoredPlan
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory
from reluplan.problem.tolerance import TOLERANCE
from reluplan.report.settings import DEFAULT_TERMINAL, TerminalSettings

STATUS_WORDS = {
    "optimal": "optimal: the plan is proven to be the best, within the gap",
    "feasible": "feasible: a plan, its optimality not proven within the limits",
    "infeasible": "infeasible: it is proven that no plan exists",
    "no_plan": "no plan found within the limits; it is not proven that there is none",
}


def print_result(result: PlanResult, folder: Path) -> None:
    """Status, reward, bound, gap and where the files are."""
    print(f"status   {STATUS_WORDS[result.status]}")
    if result.reward is not None:
        print(f"reward   {result.reward:.6f}   (simulated; largest violation {result.max_violation:.1e})")
    for violation in result.soft:
        print(f"soft     {violation} (costs {violation.cost:.6g})")
    if result.bound is not None:
        print(f"bound    {result.bound:.6f}   (proven; margin {result.bound_margin:.1e} included)")
    if result.gap is not None:
        print(f"gap      {result.absolute_gap:.6g} absolute, {result.gap:.3g} relative")
    print(f"time     {result.seconds:.1f} s, {result.nodes.closed} nodes closed, {result.nodes.open} open")
    if result.interrupted:
        print("note     interrupted: this is what was known at that moment")
    for note in result.notes:
        print(f"note     {note}")
    print(f"files    {folder}")


def check_record(problem: Problem, report: CheckReport, trajectory: Trajectory, stored: StoredPlan) -> dict[str, Any]:
    """A check as plain data: what the plan is worth and how far the file's own claims are off."""
    record: dict[str, Any] = {
        "ok": report.ok,
        "reward": report.reward,
        "max_violation": report.max_violation,
        "tolerance": TOLERANCE,
        "horizon": trajectory.horizon,
        "problem_horizon": problem.horizon,
        "constraints_checked": report.constraint_count,
        "violations": [{"constraint": v.constraint, "step": v.step, "amount": v.amount} for v in report.broken],
        "soft": [dataclasses.asdict(violation) for violation in soft_violations(problem, trajectory)],
    }
    if stored.rewards is not None:
        steps, final = np.split(stored.rewards, [trajectory.horizon])
        record["stated_reward"] = float(present_value(steps, final.sum(), problem.discount))
    if stored.states is not None:
        record["largest_state_difference"] = float(
            np.abs(stored.states - trajectory.states[: len(stored.states)]).max()
        )
    return record


def print_check(record: dict[str, Any], settings: TerminalSettings = DEFAULT_TERMINAL) -> None:
    """The check in a few lines."""
    other = f" (the problem file says {record['problem_horizon']})" * (record["horizon"] != record["problem_horizon"])
    valid = "valid" if record.get("valid", record["ok"]) else "NOT valid"
    print(f"plan     {valid} over {record['horizon']} steps{other}")
    stated = f"   (the file says {record['stated_reward']:.6f})" if "stated_reward" in record else ""
    print(f"reward   {record['reward']:.6f}{stated}")
    print(f"checked  {record['constraints_checked']} constraints, largest violation {record['max_violation']:.3g}")
    for violation in record["soft"]:
        print(f"soft     {SoftViolation(**violation)}")
    if "largest_state_difference" in record:
        print(f"states   differ from the file's by at most {record['largest_state_difference']:.3g}")
    for violation in record["violations"][: settings.violations]:
        print(f"broken   step {violation['step']}: {violation['constraint']} by {violation['amount']:.3g}")
    hidden = len(record["violations"]) - settings.violations
    if hidden > 0:
        print(f"         and {hidden} more (see --json)")


def print_disagreements(record: dict[str, Any]) -> None:
    """What the files say otherwise than recomputed, or that they agree; and what was not checked."""
    found = record["disagreements"]
    files = "plan.csv and result.json" if record["result_checked"] else "the plan file"
    if not found:
        print(f"files    what {files} say{'' if record['result_checked'] else 's'} is what was recomputed")
    for each in found:
        print(f"differs  {each['file']}: {each['message']}")
    if any(each["where"] == "length" for each in found):
        print("         (say --horizon if the problem was planned over another number of steps)")
    print("bound    not proven here: check recomputes the plan, only planning proves a bound")


def print_potentials(potentials: PotentialSet, path: Path) -> None:
    """How the search for potentials ended."""
    report = potentials.report
    ending = "converged" if report.converged else "stopped early: valid, but looser than they could be"
    print(f"status      {ending}")
    print(f"units       {report.units}, {report.interval_count} intervals each, {report.sets} set(s)")
    print(f"cuts        {report.cuts} of {report.patterns} patterns solved")
    print(f"iterations  {report.iterations}, {report.milps} of them with a MILP")
    print(f"seconds     {report.seconds:.1f}")
    print(f"proof       R - phi <= {report.proof_bound:.6g} before the shift that made the potentials valid")
    print(f"valid for   plans from this initial state of at most {potentials.horizon} steps")
    for note in report.notes:
        print(f"note        {note}")
    print(f"file        {path}")
