"""Whether a plan file and a result agree with what is recomputed from the actions alone.

A plan's actions and first state are the only things that are believed; states, rewards, the length, the violation, the
gap and the status follow from them and from the bound. The bound itself is not proven here: it is only compared with
the reward, below which it must not lie.

Numbers are written with all their digits, so on the machine that wrote them they agree exactly; another may add in
another order. Two numbers agree if they differ by at most 1e-7 of the largest number of their column, plus 1e-14 of the
largest state or action, from which a small one may come as a difference.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.planning.result import EXIT_CODES
from reluplan.problem.check import CheckReport
from reluplan.problem.plan_file import StoredPlan
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import Trajectory

Array = NDArray[np.float64]

SHARE_OF_COLUMN, SHARE_OF_ALL = 1e-7, 1e-14


@dataclass(frozen=True)
class Disagreement:
    """A statement of a file that is not what was recomputed. where: step and column, or a field."""

    file: str
    where: str
    stated: Any
    found: Any
    message: str

    def record(self) -> dict[str, Any]:
        """As plain data that JSON can hold."""
        return asdict(self)


def read_result(plan_path: Path) -> dict[str, Any] | None:
    """The result.json of a run directory, or beside a plan file; None if there is none."""
    path = (plan_path if plan_path.is_dir() else plan_path.parent) / "result.json"
    if not path.is_file() or (not plan_path.is_dir() and plan_path.name != "plan.csv"):
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: is not the result of a run: expected an object with the field 'status'")
    return found


def disagreements(
    problem: Problem,
    stored: StoredPlan,
    trajectory: Trajectory,
    report: CheckReport,
    result: dict[str, Any] | None = None,
) -> list[Disagreement]:
    """What the plan file, and the result if there is one, say otherwise than recomputed; `trajectory` is the plan's
    simulation and `report` its check. Without a result the plan's length must be the problem's."""
    found = [*_states(problem, stored, trajectory), *_rewards(problem, stored, trajectory)]
    if result is not None:
        return [*found, *_Result(result, trajectory, report).disagreements()]
    if trajectory.horizon != problem.horizon:
        message = f"the plan has {trajectory.horizon} steps, the problem has {problem.horizon}"
        found.append(Disagreement("plan.csv", "length", trajectory.horizon, problem.horizon, message))
    return found


def _states(problem: Problem, stored: StoredPlan, trajectory: Trajectory) -> Iterator[Disagreement]:
    if stored.states is None:
        return
    computed = trajectory.states[: len(stored.states)]
    everything = _largest(trajectory)
    for at, variable in enumerate(problem.states):
        yield from _column(variable.name, stored.states[:, at], computed[:, at], everything)


def _rewards(problem: Problem, stored: StoredPlan, trajectory: Trajectory) -> Iterator[Disagreement]:
    """Of every step, and of the final state, where a problem without a final reward pays nothing."""
    if stored.rewards is None:
        return
    found = _all_rewards(trajectory)
    stated = stored.rewards
    if problem.final_reward is not None and len(stated) == trajectory.horizon:
        message = f"step {len(found)}, column 'reward': says nothing, recomputed {found[-1]:.17g}"
        yield Disagreement("plan.csv", f"step {len(found)}, column 'reward'", None, _plain(found[-1]), message)
    yield from _column("reward", stated, found[: len(stated)], _largest(trajectory))


def _all_rewards(trajectory: Trajectory) -> Array:
    """Of the steps and of the final state."""
    return np.append(trajectory.rewards, trajectory.final_reward)


def _column(name: str, stated: Array, found: Array, everything: float) -> Iterator[Disagreement]:
    """The first step at which a column differs, and how many others do; the first is where the mistake is."""
    differs = ~(np.abs(stated - found) <= _tolerance(found, everything))  # what is not a number differs
    if differs.any():
        t = int(np.argmax(differs))
        more = f", and {differs.sum() - 1} more steps" if differs.sum() > 1 else ""
        message = f"step {t + 1}, column '{name}': says {stated[t]:.17g}, recomputed {found[t]:.17g}{more}"
        yield Disagreement("plan.csv", f"step {t + 1}, column '{name}'", _plain(stated[t]), _plain(found[t]), message)


@dataclass(frozen=True, eq=False)
class _Result:
    """A result.json against a plan."""

    fields: dict[str, Any]
    trajectory: Trajectory
    report: CheckReport

    def disagreements(self) -> Iterator[Disagreement]:
        """In the order of the file."""
        yield from self._status()
        yield from self._number("reward", self.report.reward, self._reward_tolerance())
        yield from self._bound()
        yield from self._gaps()
        yield from self._number("max_violation", self.report.max_violation, 1e-9 * _largest(self.trajectory) + 1e-12)
        yield from self._number("horizon", self.trajectory.horizon, 0.0)

    def _status(self) -> Iterator[Disagreement]:
        """With a valid plan it is optimal or feasible, by the gap that was asked for."""
        status = self.fields.get("status")
        possible = ["optimal", "feasible"] if self.report.ok else ["no_plan"]
        gap, target = self._gap(), _number(self.fields.get("gap_target"))
        if self.report.ok and gap is None:
            possible = ["feasible"]
        elif self.report.ok and gap is not None and target is not None:
            slack = 1e-9 * max(1.0, target)
            possible = ["optimal"] * (gap <= target + slack) + ["feasible"] * (gap >= target - slack)
        if status in possible:
            return
        if not self.report.ok and status in EXIT_CODES:
            why = "but the plan is not valid"
        else:
            why = f"but this plan and bound make it {' or '.join(possible)}"
        yield Disagreement("result.json", "status", status, possible[0], f"status: says {status!r}, {why}")

    def _bound(self) -> Iterator[Disagreement]:
        """The one claim that is not recomputed: it may be absent, but not below the reward."""
        stated = self.fields.get("bound")
        bound, reward = _number(stated), self.report.reward
        if stated is None:
            return
        if bound is None:
            yield Disagreement(
                "result.json", "bound", _plain(stated), None, f"bound: {stated!r} is not a finite number"
            )
        elif bound < reward - self._reward_tolerance():
            message = f"bound: says {bound:.17g}, but the plan's reward is {reward:.17g}, which no bound may lie below"
            yield Disagreement("result.json", "bound", bound, reward, message)

    def _gaps(self) -> Iterator[Disagreement]:
        """absolute_gap = max(0, bound − reward), gap = absolute_gap / max(1, |reward|); none without a bound."""
        gap, scale = self._gap(), max(1.0, abs(self.report.reward))
        tolerance = self._reward_tolerance()
        for name, found, share in (("absolute_gap", gap and gap * scale, 1.0), ("gap", gap, 1.0 / scale)):
            if found is None and name in self.fields and self.fields[name] is not None:
                message = f"{name}: says {self.fields[name]!r}, but there is no bound to be away from"
                yield Disagreement("result.json", name, _plain(self.fields[name]), None, message)
            elif found is not None:
                yield from self._number(name, found, tolerance * share + SHARE_OF_COLUMN * found)

    def _number(self, name: str, found: float, tolerance: float) -> Iterator[Disagreement]:
        stated = self.fields.get(name)
        number = _number(stated)
        if number is None or not abs(number - found) <= tolerance:
            says = f"says {number:.17g}" if number is not None else f"says {stated!r}"
            message = f"{name}: {says}, recomputed {found:.17g}"
            yield Disagreement("result.json", name, _plain(stated), _plain(found), message)

    def _gap(self) -> float | None:
        bound = _number(self.fields.get("bound"))
        reward = self.report.reward
        return None if bound is None else max(0.0, bound - reward) / max(1.0, abs(reward))

    def _reward_tolerance(self) -> float:
        """That of a sum: the steps' rewards may cancel."""
        rewards = _all_rewards(self.trajectory)
        return len(self.trajectory.rewards) * _tolerance(rewards, _largest(self.trajectory))


def _tolerance(column: Array, everything: float) -> float:
    size = np.abs(column[np.isfinite(column)])
    return SHARE_OF_COLUMN * float(size.max(initial=0.0)) + SHARE_OF_ALL * everything


def _largest(trajectory: Trajectory) -> float:
    values = np.concatenate([trajectory.states.ravel(), trajectory.actions.ravel(), trajectory.auxiliaries.ravel()])
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _number(value: object) -> float | None:
    """A finite number of a JSON file; True is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer of more than 308 digits
        return None


def _plain(value: Any) -> Any:
    """What JSON can hold: no infinity."""
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(value)
    return value
