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
from reluplan.potentials.features import PatternFeatures
from reluplan.potentials.potentials import RewardPotentials
from reluplan.problem import Problem

Array = NDArray[np.float64]

FORMAT = "reluplan-potentials-1"


@dataclass(frozen=True, eq=False)
class PotentialSet:
    """Potentials that together cover steps of a horizon.

    Valid for every plan of the problem with this fingerprint that starts in the box [initial_lower, initial_upper] and
    has at most `horizon` steps: the bounds behind them are those of the states reachable from there.
    report: how they were found, as plain data.
    """

    items: tuple[RewardPotentials, ...]
    fingerprint: str
    initial_lower: Array
    initial_upper: Array
    horizon: int
    report: dict[str, Any] = field(default_factory=dict)

    def summary(self) -> str:
        """One line on how they were found."""
        report = self.report
        state = "converged" if report["converged"] else "stopped early"
        return (
            f"potentials {state}: {report['units']} units, {report['cuts']} cuts, {report['milps']} MILPs, "
            f"proof bound {report['proof_bound']:.4g}"
        )

    def require_fit(self, problem: Problem, source: str = "the potentials") -> None:
        """Raise InputError if the potentials say nothing about plans of this problem."""
        if self.fingerprint != problem.fingerprint():
            raise InputError(
                f"{source}: computed for another problem (its network, variables, reward, constraints or goal differ); "
                f"compute new ones with: reluplan potentials"
            )
        inside = (problem.initial_lower >= self.initial_lower).all() and (
            problem.initial_upper <= self.initial_upper
        ).all()
        if not inside:
            raise InputError(f"{source}: valid only for plans from another initial state; compute new ones")
        if problem.horizon > self.horizon:
            raise InputError(
                f"{source}: valid for plans of at most {self.horizon} steps, not {problem.horizon}; compute new ones "
                f"with --horizon {problem.horizon}"
            )

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
            "report": self.report,
        }
        write_atomically(Path(path), json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> PotentialSet:
        """Read a set that `save` wrote."""
        path = Path(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise InputError(f"{path}: the format is {content['format']!r}, expected {FORMAT!r}")
            scope = content["valid_for"]
            return cls(
                tuple(_from_record(record) for record in content["potentials"]),
                content["fingerprint"],
                np.array(scope["initial_lower"], dtype=np.float64),
                np.array(scope["initial_upper"], dtype=np.float64),
                int(scope["horizon"]),
                content.get("report", {}),
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
    count = int(record["interval_count"])
    units = np.array(record["units"], dtype=np.int64)
    breakpoints = np.array(record["breakpoints"], dtype=np.float64).reshape(len(units), count + 1)
    off = np.array(record["off"], dtype=np.float64).reshape(len(units), 1)
    on = np.array(record["on"], dtype=np.float64).reshape(len(units), count)
    values = np.hstack([off, on])
    if not np.isfinite(values).all() or not np.isfinite(breakpoints).all():
        raise ValueError("a value is not a finite number")
    return RewardPotentials(
        PatternFeatures(units, breakpoints[:, -1], count),
        values,
        float(record["constant"]),
        float(record["proof_bound"]),
        float(record["margin"]),
        str(record["proof"]),
        int(record["first_step"]) - 1,
        int(record["last_step"]) - 1,
    )
