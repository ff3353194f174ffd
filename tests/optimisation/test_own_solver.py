"""A solver from outside the package: registered under a name, and used by that name, in worker processes too."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from random_models import feasible_model, optimum
from reluplan import Problem, plan
from reluplan.errors import InputError
from reluplan.optimisation.solvers import SOLVERS, get_solver
from reluplan.optimisation.solvers.base import SolveOptions, SolveStatus
from reluplan.optimisation.solvers.highs import HighsSolver
from reluplan.optimisation.workers.isolated import IsolatedSolver
from reluplan.optimisation.workers.pool import Job, WorkerPool
from shared_data import EXAMPLES

_MODULE = textwrap.dedent(
    '''
    """HiGHS under another name, which notes that it was asked."""
    from pathlib import Path
    from reluplan.optimisation.solvers.highs import HighsSolver

    class MySolver(HighsSolver):
        name = "mine"

        def solve(self, model, options):
            with (Path(__file__).parent / "asked").open("a") as file:
                file.write("x")
            return super().solve(model, options)
    '''
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module of a solver, where Python looks for modules."""
    (tmp_path / f"solver_of_{tmp_path.name}.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    SOLVERS.register("mine", f"solver_of_{tmp_path.name}:MySolver", replace=True)
    return tmp_path


def test_plans_are_made_with_a_solver_of_the_users_own(folder: Path) -> None:
    problem = Problem.load(EXAMPLES / "tanks/problem.toml").with_horizon(3)
    result = plan(problem, solver="mine", method="base", threads=1)
    best = plan(problem, solver="highs", method="base", threads=1)
    assert result.status == "optimal"
    assert result.reward == best.reward
    assert (folder / "asked").exists()


def test_it_works_in_this_process_in_a_child_and_in_a_pool(folder: Path) -> None:
    model, options = feasible_model(3), SolveOptions(gap=0.0)
    with WorkerPool("mine", 1) as pool:
        results = [*pool.solve_all([Job(model, options)]), IsolatedSolver("mine").solve(model, options)]
    results.append(get_solver("mine").solve(model, options))
    assert all(result.status is SolveStatus.OPTIMAL for result in results)
    assert [result.objective for result in results] == pytest.approx([optimum(model)] * 3)
    assert (folder / "asked").read_text() == "xxx"


def test_a_class_that_is_registered_itself_is_found_by_other_processes() -> None:
    SOLVERS.register("highs by its class", HighsSolver, replace=True)
    model = feasible_model(3)
    result = IsolatedSolver("highs by its class").solve(model, SolveOptions(gap=0.0))
    assert result.objective == pytest.approx(optimum(model))


def test_what_no_other_process_can_import_is_told_so() -> None:
    SOLVERS.register("nowhere", lambda: HighsSolver(), replace=True)
    assert get_solver("nowhere").solve(feasible_model(3), SolveOptions()).solution is not None
    with pytest.raises(InputError, match="'nowhere' cannot be found by other processes"):
        IsolatedSolver("nowhere").solve(feasible_model(3), SolveOptions())
