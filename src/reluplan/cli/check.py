"""`reluplan check`: what a plan is really worth."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reluplan.cli.options import (
    CheckInstanceOption,
    CheckSimulatorOption,
    DriftPlotOption,
    HorizonOption,
    InitialOption,
    JsonOption,
    PlanArgument,
    ProblemArgument,
    QuietOption,
    RepeatOption,
    SimulatorSeedOption,
)
from reluplan.cli.shared import app, check_writable, print_outcome, with_initial
from reluplan.errors import InputError

if TYPE_CHECKING:
    from reluplan.problem.problem import Problem
    from reluplan.problem.rollout import Trajectory
    from reluplan.simulators.repeats import RepeatedValidation


@dataclass(frozen=True)
class _TrueSystem:
    """Where else a plan is to be run, if anywhere, and where that is plotted."""

    simulator: str | None
    instance: str | None
    seed: int
    repeat: int | None
    plot: Path | None

    def check(self) -> None:
        """Complain before the work about options that do not fit together and files that cannot be written."""
        from reluplan.report.figures import check_plot

        options = (self.instance, self.repeat, self.plot)
        if self.simulator is None and any(option is not None for option in options):
            raise InputError("--instance, --repeat and --plot go with --simulator")
        if self.repeat is not None and self.repeat < 1:
            raise InputError(f"--repeat must be at least 1, got {self.repeat}")
        check_plot(self.plot)
        if self.plot is not None:
            check_writable(self.plot.parent)

    def validate(self, problem: Problem, trajectory: Trajectory) -> RepeatedValidation | None:
        """The plan in the true system, None if there is none."""
        if self.simulator is None:
            return None
        from reluplan.report.simulation import plot_drift
        from reluplan.simulators.open import open_simulator
        from reluplan.simulators.repeats import validate_repeatedly

        system = open_simulator(self.simulator, self.instance)
        found = validate_repeatedly(problem, trajectory, system, self.seed, self.repeat or 1)
        system.close()
        if self.plot is not None:
            plot_drift(problem, found.first, self.plot)
        return found


@app.command(epilog="Exit codes: 0 the plan is valid and its files are right, 3 one of them is not, 4 bad input.")
def check(
    problem: ProblemArgument,
    plan_file: PlanArgument,
    simulator: CheckSimulatorOption = None,
    instance: CheckInstanceOption = None,
    horizon: HorizonOption = None,
    initial: InitialOption = None,
    seed: SimulatorSeedOption = 0,
    repeat: RepeatOption = None,
    plot: DriftPlotOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Re-simulate a plan and compare it with what its files say.

    Its reward and every constraint are recomputed. The states, rewards and length of plan.csv, and reward, status,
    violation, horizon and gap of the result.json beside it, must be what is recomputed. The bound must not lie below
    the reward, but it is not proven again.

    With --simulator, run it in the true system as well: what it earns there, how far the states drift, what it breaks;
    --repeat runs it again with other seeds, where the system is stochastic.
    """
    from reluplan.problem.problem import Problem

    system = _TrueSystem(simulator, instance, seed, repeat, plot)
    system.check()
    loaded = with_initial(Problem.load(problem), initial)
    loaded = replace(loaded, tie_distance=0.0)  # a plan may be as close to a tie as exactness allows
    loaded = loaded if horizon is None else loaded.with_horizon(horizon)
    record, trajectory = _recompute(loaded, plan_file)
    true = system.validate(loaded, trajectory)
    shown = record if true is None else {**record, "simulation": true.record()}
    print_outcome(as_json, quiet, lambda: json.dumps(shown, indent=2), lambda: _print(record, true))
    return 0 if record["ok"] else 3


def _recompute(problem: Problem, plan_file: Path) -> tuple[dict[str, Any], Trajectory]:
    """What the plan is worth and what its files say otherwise, and the plan itself."""
    from reluplan.planning.referee import disagreements, read_result
    from reluplan.problem.check import check as check_plan
    from reluplan.problem.plan_file import read_plan
    from reluplan.problem.rollout import rollout
    from reluplan.report import check_record

    stored = read_plan(problem, plan_file)
    trajectory = rollout(problem, stored.initial_state, stored.actions, stored.auxiliaries)
    report = check_plan(problem, trajectory)
    result = read_result(plan_file)
    found = disagreements(problem, stored, trajectory, report, result)
    record = {
        **check_record(problem, report, trajectory, stored),
        "ok": report.ok and not found,
        "valid": report.ok,
        "disagreements": [each.record() for each in found],
        "result_checked": result is not None,
        "bound_proven": False,
    }
    return record, trajectory


def _print(record: dict[str, Any], true: RepeatedValidation | None) -> None:
    from reluplan.report.simulation import print_repeats, print_validation
    from reluplan.report.terminal import print_check, print_disagreements

    print_check(record)
    print_disagreements(record)
    if true is not None:
        print_validation(true.first)
        print_repeats(true)
