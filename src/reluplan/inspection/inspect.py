"""Inspecting, top to bottom: sizes, bounds, derivatives, the model, a guess, advice."""

from __future__ import annotations

import math
import os

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.bounds.boxes import HorizonBounds
from reluplan.clock import Clock
from reluplan.errors import InfeasibleError, InputError, NoPlanExistsError, OutOfTimeError
from reluplan.inspection.advice import advise
from reluplan.inspection.guess import guess
from reluplan.inspection.lipschitz import Lipschitz, lipschitz_bounds
from reluplan.inspection.model_size import model_size
from reluplan.inspection.network_size import network_size
from reluplan.inspection.report import Inspection, Variables
from reluplan.inspection.settings import InspectionSettings
from reluplan.inspection.undecided import (
    BoxBounds,
    bound_network_box,
    bound_problem_box,
    bound_steps,
    count_undecided,
    undecided_steps,
)
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.problem import Problem

Array = NDArray[np.float64]
DEFAULT = InspectionSettings()
MEMORY_SHARE = 0.8
"""Of the machine's memory; a model that takes more hardly fits."""


def inspect_network(
    network: ReluNetwork,
    box: tuple[Array, Array] | None = None,
    source: str = "network",
    settings: InspectionSettings = DEFAULT,
) -> Inspection:
    """A network alone; box: of its inputs. Without one, derivatives are bounded over all inputs, and which units are
    undecided is not known.

    >>> net = ReluNetwork.sequential([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])   # |x|
    >>> found = inspect_network(net, (np.array([-1.0]), np.array([2.0])))
    >>> found.box.undecided, round(found.lipschitz.proven, 6), found.lipschitz.sampled
    (2, 1.0, 1.0)
    """
    timer = Clock(settings.seconds)
    size = network_size(network)
    endless = np.full(network.input_count, np.inf)
    lower, upper = box or (-endless, endless)
    bounds = bound_network_box(network, lower, upper, settings)
    lipschitz, relative = _lipschitz(network, bounds, None, timer.deadline(), settings)
    notes = () if box else ("a network alone has no bounds: what is undecided depends on them; give --box LOW HIGH",)
    found = Inspection(
        source=source, kind="network", variables=None, horizon=None, network=size, dynamics=size,
        box=count_undecided(network, bounds) if box else None, steps=None, lipschitz=lipschitz, relative=relative,
        model=None, memory=None, guess=None, is_proven_infeasible=False, advice=(), notes=notes, seconds=timer.elapsed,
    )  # fmt: skip
    return advise(found)


def inspect_problem(
    problem: Problem, network: ReluNetwork | None = None, settings: InspectionSettings = DEFAULT
) -> Inspection:
    """A problem; network: the learned one alone, for its size.

    >>> found = inspect_problem(Problem.load("examples/tanks/problem.toml"))
    >>> found.horizon, found.model.is_whole, found.steps.each[0] <= found.box.undecided
    (12, True, True)
    """
    timer = Clock(settings.seconds)
    notes: list[str] = []
    dynamics = problem.dynamics
    box = _box(problem, timer.deadline(settings.box_share), settings, notes)
    deadline = timer.deadline(settings.steps_share)
    steps, is_infeasible = _steps(problem, deadline, settings, notes)
    is_late = clock.now() > deadline
    model = None if steps is None else model_size(problem, steps, settings, timer.deadline(0.5))
    lipschitz, relative = _lipschitz(dynamics, box, problem, timer.deadline(), settings)
    outlook = guess(problem, model, settings.outlook) if model is not None and settings.with_trial else None
    found = Inspection(
        source=problem.source,
        kind="problem",
        variables=_variables(problem),
        horizon=problem.horizon,
        network=None if network is None else network_size(network),
        dynamics=network_size(dynamics),
        box=count_undecided(dynamics, box),
        steps=None if steps is None else undecided_steps(problem, steps, is_late, settings),
        lipschitz=lipschitz,
        relative=relative,
        model=model,
        memory=None if model is None else model.bytes(settings.outlook.bytes_per_entry, settings.outlook.base_bytes),
        guess=outlook,
        is_proven_infeasible=is_infeasible or (outlook is not None and outlook.outlook == "infeasible"),
        advice=(),
        notes=tuple(notes),
        seconds=timer.elapsed,
    )
    own = {*problem.own_states, *problem.actions, *problem.auxiliaries[: problem.series_columns.start]}
    names = [variable.name if variable in own else "" for variable in problem.input_variables]
    return advise(found, names, found.memory is not None and found.memory > MEMORY_SHARE * _memory())


def _box(problem: Problem, deadline: float, settings: InspectionSettings, notes: list[str]) -> BoxBounds:
    """Bounds over the declared box and the constraints; over the box alone if these leave nothing."""
    try:
        return bound_problem_box(problem, deadline, settings)
    except InfeasibleError as error:
        notes.append(f"no state and action within the declared bounds satisfies the constraints ({error})")
        return bound_network_box(problem.dynamics, *problem.box(problem.input_variables), settings)


def _steps(
    problem: Problem, deadline: float, settings: InspectionSettings, notes: list[str]
) -> tuple[HorizonBounds | None, bool]:
    """Bounds of the steps, None with a note if there are none; and whether it is proven that there is no plan."""
    try:
        return bound_steps(problem, deadline, settings), False
    except NoPlanExistsError as error:
        notes.append(str(error))
        return None, True
    except (InputError, OutOfTimeError) as error:
        notes.append(str(error))
        return None, False


def _lipschitz(
    network: ReluNetwork, box: BoxBounds, problem: Problem | None, deadline: float, settings: InspectionSettings
) -> tuple[Lipschitz, Lipschitz | None]:
    """In the variables' own units, and in widths of their declared bounds if all have some."""
    widths = [(np.ones(network.input_count), np.ones(network.output_count))]
    relative = None if problem is None else _widths(problem)
    if relative is not None:
        widths.append(relative)
    found = lipschitz_bounds(network, box, widths, deadline, settings)
    return found[0], None if relative is None else found[1]


def _widths(problem: Problem) -> tuple[Array, Array] | None:
    """Of the declared bounds of (s, a, x) and of s'; None unless all are finite and wide."""
    lower, upper = problem.box(problem.input_variables)
    width = upper - lower
    return (width, width[problem.layout.states]) if np.isfinite(width).all() and (width > 0.0).all() else None


def _variables(problem: Problem) -> Variables:
    endless = [v.name for v in problem.input_variables if not np.isfinite([v.lower, v.upper]).all()]
    return Variables(
        len(problem.own_states),
        len(problem.actions),
        len(problem.auxiliaries) - len(problem.series),
        sum(v.is_discrete for v in problem.input_variables),
        tuple(endless),
        len(problem.lags),
        len(problem.series),
    )


def _memory() -> float:
    """Bytes of the machine; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return math.inf
