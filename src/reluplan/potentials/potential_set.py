"""Potentials for all steps of a plan, what they are valid for, and their file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.errors import InputError
from reluplan.files import write_atomically
from reluplan.potentials.features import MOST_INTERVALS, PatternFeatures
from reluplan.potentials.potentials import LARGEST_POTENTIAL, RewardPotentials
from reluplan.potentials.report import PotentialReport
from reluplan.problem.fingerprint import fingerprint
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]

FORMAT = "reluplan-potentials-2"
"""Files of format 1 have a fingerprint that leaves out rows on the initial state, and mixes up constraints and goal."""


@dataclass(frozen=True, eq=False)
class PotentialSet:
    """Potentials that together cover steps of a horizon.

    Valid for every plan of the problem with this fingerprint that starts in the box [initial_lower, initial_upper] and
    has at most `horizon` steps: the bounds behind them are those of the states reachable from there.
    report: how they were found. is_proven: by this process, and not changed since; a set that was read
    from a file or made by hand is a claim, which `reprove` checks.
    """

    items: tuple[RewardPotentials, ...]
    fingerprint: str
    initial_lower: Array
    initial_upper: Array
    horizon: int
    report: PotentialReport = field(default_factory=PotentialReport)
    _seal: str = field(default="", init=False, repr=False)

    @property
    def is_proven(self) -> bool:
        """Whether this process proved exactly these potentials."""
        return self._seal == self._content()

    def sealed(self) -> PotentialSet:
        """The set itself, after it was proven; `dataclasses.replace`, or a change in its arrays, breaks the seal."""
        object.__setattr__(self, "_seal", self._content())
        return self

    def _content(self) -> str:
        return fingerprint((self.items, self.fingerprint, self.initial_lower, self.initial_upper, self.horizon))

    def summary(self) -> str:
        """One line on how they were found."""
        return self.report.summary()

    def require_fit(self, problem: Problem, source: str = "the potentials") -> None:
        """Raise InputError if the potentials say nothing about plans of this problem."""
        if self.fingerprint != problem.fingerprint():
            raise InputError(
                f"{source}: computed for another problem (its network, variables, reward, constraints, goal or rows on "
                f"the initial state differ); compute new ones with: reluplan potentials"
            )
        if not self._contains_initial_states(problem):
            raise InputError(f"{source}: valid only for plans from another initial state; compute new ones")
        if problem.horizon > self.horizon:
            raise InputError(
                f"{source}: valid for plans of at most {self.horizon} steps, not {problem.horizon}; compute new ones "
                f"with --horizon {problem.horizon}"
            )
        for number, item in enumerate(self.items):
            fault = _fault(item, problem.dynamics.relu_count, self.horizon)
            if fault:
                raise InputError(f"{source}: set {number + 1} makes no sense for this problem: {fault}")

    def _contains_initial_states(self, problem: Problem) -> bool:
        """Whether the problem's initial box lies in that of the potentials; what is not a number lies nowhere."""
        lower, upper = problem.initial_lower, problem.initial_upper
        if self.initial_lower.shape != lower.shape or self.initial_upper.shape != upper.shape:
            return False
        return bool((lower >= self.initial_lower).all() and (upper <= self.initial_upper).all())

    def save(self, path: str | Path) -> None:
        """Write the set as JSON."""
        content = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "valid_for": {
                "initial_lower": self.initial_lower.tolist(),
                "initial_upper": self.initial_upper.tolist(),
                "horizon": self.horizon,
            },
            "potentials": [_to_record(item) for item in self.items],
            "report": self.report.to_dict(),
        }
        write_atomically(Path(path), json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> PotentialSet:
        """Read a set that `save` wrote."""
        path = Path(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise InputError(
                    f"{path}: the format is {content['format']!r}, expected {FORMAT!r}; compute new potentials with: "
                    f"reluplan potentials"
                )
            scope = content["valid_for"]
            return cls(
                tuple(_from_record(record) for record in content["potentials"]),
                content["fingerprint"],
                np.array(scope["initial_lower"], dtype=np.float64),
                np.array(scope["initial_upper"], dtype=np.float64),
                _integer(scope["horizon"]),
                PotentialReport.from_dict(content.get("report", {})),
            )
        except FileNotFoundError:
            raise InputError(f"{path}: no such potentials file") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            raise InputError(f"{path}: is not a potentials file ({type(error).__name__}: {error})") from None


def _to_record(item: RewardPotentials) -> dict[str, Any]:
    return {
        "first_step": item.first + 1,
        "last_step": item.last + 1,
        "interval_count": item.features.interval_count,
        "units": item.features.units.tolist(),
        "breakpoints": item.features.breakpoints().tolist(),
        "off": item.values[:, 0].tolist(),
        "on": item.values[:, 1:].tolist(),
        "constant": item.constant,
        "proof_bound": item.proof_bound,
        "margin": item.margin,
        "proof": item.proof,
    }


def _from_record(record: dict[str, Any]) -> RewardPotentials:
    count = _integer(record["interval_count"])
    if not 1 <= count <= MOST_INTERVALS:
        raise ValueError(f"{count} intervals")
    units = np.array([_integer(unit) for unit in record["units"]], dtype=np.int64)
    breakpoints = np.array(record["breakpoints"], dtype=np.float64).reshape(len(units), count + 1)
    off = np.array(record["off"], dtype=np.float64).reshape(len(units), 1)
    on = np.array(record["on"], dtype=np.float64).reshape(len(units), count)
    values = np.hstack([off, on])
    constant, bound, margin = (float(record[name]) for name in ("constant", "proof_bound", "margin"))
    if not all(np.isfinite(part).all() for part in (values, breakpoints, [constant, bound, margin])):
        raise ValueError("a value is not a finite number")
    features = PatternFeatures(units, breakpoints[:, -1], count)
    if not np.allclose(breakpoints, features.breakpoints(), rtol=1e-12, atol=0.0):
        raise ValueError("the breakpoints of a unit are not equally spaced from zero on")
    first, last = _integer(record["first_step"]) - 1, _integer(record["last_step"]) - 1
    return RewardPotentials(features, values, constant, bound, margin, str(record["proof"]), first, last)


def _integer(value: object) -> int:
    """A whole number as JSON has it: neither 1.7, which int() would take for 1, nor true."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _fault(item: RewardPotentials, relu_count: int, horizon: int) -> str:
    """Why a member can say nothing about steps of a problem, whatever its values are; empty if nothing is wrong."""
    features = item.features
    units = features.units
    if units.ndim != 1 or ((units < 0) | (units >= relu_count)).any():
        return f"it names ReLUs that do not exist; there are {relu_count}"
    if len(np.unique(units)) < len(units):
        return "it names a ReLU twice"
    if not 1 <= features.interval_count <= MOST_INTERVALS:
        return f"it has {features.interval_count} intervals"
    if item.values.shape != features.shape or features.ceilings.shape != units.shape:
        return "its values do not match its ReLUs and intervals"
    if not (np.isfinite(features.ceilings).all() and (features.ceilings >= 0.0).all()):
        return "an output interval does not reach from zero to a finite number"
    if not (np.abs(item.values) <= LARGEST_POTENTIAL).all() or not abs(item.constant) <= LARGEST_POTENTIAL:
        return f"a potential is larger than {LARGEST_POTENTIAL:g} or not a number"
    if not 0 <= item.first <= item.last < horizon:
        return f"it is said to hold for steps {item.first + 1} to {item.last + 1} of {horizon}"
    return ""
