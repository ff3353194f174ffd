"""Solver adapters behind one interface: `get_solver("highs").solve(model, options)`.

A solver of your own is registered under a name, and then used by that name everywhere:

    SOLVERS.register("mine", "my_package:MySolver")
    plan(problem, solver="mine")

What is registered is a class, or another callable without arguments, that makes a `Solver`; subclass `Adapter` to get
scaling, honest statuses and Ctrl-C for free. Solvers run in processes of their own, which import them by that place.
"""

from __future__ import annotations

from collections.abc import Callable

from reluplan.optimisation.solvers.base import Solver
from reluplan.registry import Registry, imported

SOLVERS: Registry[Callable[[], Solver]] = Registry("solver", "reluplan.solvers")
"""Every solver by its name; only the module of one that is asked for is imported."""

SOLVERS.register("highs", "reluplan.optimisation.solvers.highs:HighsSolver")
SOLVERS.register("scip", "reluplan.optimisation.solvers.scip:ScipSolver")
SOLVERS.register("gurobi", "reluplan.optimisation.solvers.gurobi:GurobiSolver")
SOLVERS.register("cplex", "reluplan.optimisation.solvers.cplex:CplexSolver")

SOLVER_NAMES = ("highs", "scip", "gurobi", "cplex")
"""Those that come with the package."""


def get_solver(name: str) -> Solver:
    """The solver of that name; its package is not imported before it is used."""
    return SOLVERS[name]()


def solver_at(location: str) -> Solver:
    """The solver that is registered as "module:attribute" in another process."""
    make: Callable[[], Solver] = imported(location)
    return make()
