"""Solver adapters behind one interface: `get_solver("highs").solve(model, options)`."""

from __future__ import annotations

import importlib

from reluplan.errors import InputError
from reluplan.optimisation.solvers.base import Solver

_ADAPTERS = {"highs": "HighsSolver", "scip": "ScipSolver", "gurobi": "GurobiSolver", "cplex": "CplexSolver"}

SOLVER_NAMES = tuple(_ADAPTERS)


def get_solver(name: str) -> Solver:
    """The adapter of that name; only its own module is imported, and the solver's package not before it is used."""
    if name not in _ADAPTERS:
        raise InputError(f"Unknown solver '{name}'. Choose one of: {', '.join(SOLVER_NAMES)}.")
    module = importlib.import_module(f"reluplan.optimisation.solvers.{name}")
    solver: Solver = getattr(module, _ADAPTERS[name])()
    return solver
