"""The solver in a child process: the same answers, and an answer whatever happens to the child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patience import AMPLE
from random_models import feasible_model, hard_model, infeasible_model, optimum, wide_model
from reluplan.errors import InputError, MissingExtraError, SolverError
from reluplan.optimisation.settings import WorkerSettings
from reluplan.optimisation.solvers import SOLVER_NAMES, get_solver
from reluplan.optimisation.solvers.base import Progress, SolveOptions, Solver, SolveResult, SolveStatus, StopReason
from reluplan.optimisation.workers import child as child_module
from reluplan.optimisation.workers.isolated import IsolatedSolver
from reluplan.optimisation.workers.pool import Job, WorkerPool
from reluplan.optimisation.workers.supervisor import Supervisor
from reluplan.optimisation.workers.worker import Signal
from shared_data import TESTS

Child = subprocess.Popen[bytes]
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Child]:
    """The child processes that IsolatedSolver starts, in order; none is left from before."""
    child_module.end_idle_child()
    started: list[Child] = []
    start = child_module._start_child

    def start_and_record(*arguments: Any) -> Child:
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(child_module, "_start_child", start_and_record)
    return started


@pytest.mark.parametrize("name", SOLVER_NAMES)
def test_same_result_as_direct(name: str) -> None:
    model = feasible_model(20)
    options = SolveOptions(gap=0.0, seed=1)
    direct, isolated_result = get_solver(name).solve(model, options), IsolatedSolver(name).solve(model, options)
    assert isolated_result.status is direct.status is SolveStatus.OPTIMAL
    assert isolated_result.objective == direct.objective == pytest.approx(optimum(model))
    assert isolated_result.dual_bound == direct.dual_bound
    assert isolated_result.closed_nodes == direct.closed_nodes


def test_the_child_is_kept_for_the_next_solve(children: list[Child]) -> None:
    models = [feasible_model(seed) for seed in range(4)]
    for name, model in zip(["highs", "scip", "highs", "highs"], models, strict=True):
        assert IsolatedSolver(name).solve(model, SolveOptions(gap=0.0)).objective == pytest.approx(optimum(model))
    assert len(children) == 1
    with WorkerPool("highs", 1) as pool:
        (result,) = pool.solve_all([Job(models[0], SolveOptions(gap=0.0))])
    assert result.objective == pytest.approx(optimum(models[0]))
    assert IsolatedSolver("highs").solve(models[1], SolveOptions()).solution is not None
    assert len(children) == 1
    child_module.end_idle_child()
    assert children[0].poll() is not None


def test_a_stop_does_not_reach_the_next_solve(children: list[Child]) -> None:
    """The first is stopped at once, the second must go on to its end."""
    model = feasible_model(3)
    for _ in range(5):
        stopped = IsolatedSolver("highs").solve(hard_model(), SolveOptions(should_stop=lambda: True))
        assert stopped.stop_reason is StopReason.STOPPED
        done = IsolatedSolver("highs").solve(model, SolveOptions(gap=0.0))
        assert (done.status, done.message) == (SolveStatus.OPTIMAL, "Optimal")
        assert done.objective == pytest.approx(optimum(model))


@posix_only
def test_an_idle_child_that_died_is_replaced(children: list[Child]) -> None:
    """Whether its death was noticed (it is a zombie that we have waited for) or not (it dies right before its task)."""
    solver, model = IsolatedSolver("highs"), feasible_model(3)
    for unnoticed in (False, True):
        assert solver.solve(model, SolveOptions()).solution is not None
        children[-1].kill()
        if not unnoticed:
            children[-1].wait()
        assert solver.solve(model, SolveOptions(gap=0.0)).objective == pytest.approx(optimum(model))
    assert len(children) == 3


@posix_only
def test_a_child_that_dies_after_hand_over_but_before_it_begins_is_replaced(children: list[Child]) -> None:
    """It is stopped while it is idle, so that its task waits in the pipe when it is killed; a new one solves it."""
    solver, model = IsolatedSolver("highs"), feasible_model(3)
    solver.solve(model, SolveOptions())
    children[0].send_signal(signal.SIGSTOP)

    def kill_the_first() -> bool:
        children[0].kill()
        return False

    assert solver.solve(model, SolveOptions(gap=0.0, should_stop=kill_the_first)).status is SolveStatus.OPTIMAL
    assert len(children) == 2


@posix_only
def test_a_used_child_that_dies_at_work_is_told(children: list[Child]) -> None:
    solver = IsolatedSolver("highs")
    solver.solve(feasible_model(3), SolveOptions())
    seen: list[Progress] = []
    options = SolveOptions(time_limit=60.0, on_progress=_after_incumbent(seen, lambda: _signal(children, "SIGKILL")))
    assert "died (SIGKILL" in solver.solve(hard_model(), options).message
    assert len(children) == 1


def test_a_child_of_other_surroundings_is_not_used(children: list[Child], monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules, licences and settings are found by the path and the environment of the moment."""
    solver, model = IsolatedSolver("highs"), feasible_model(3)
    solver.solve(model, SolveOptions())
    monkeypatch.setenv("RELUPLAN_TEST", "1")
    solver.solve(model, SolveOptions())
    monkeypatch.syspath_prepend("nowhere")
    solver.solve(model, SolveOptions())
    assert len(children) == 3


def test_a_child_whose_message_was_cut_short_is_not_kept(children: list[Child]) -> None:
    """As by Ctrl-C in the middle of sending it: the next message would be taken for the rest of it."""
    child = child_module.take_child()
    child.is_whole = False
    supervisor = Supervisor(child, "highs", feasible_model(3), SolveOptions())
    assert supervisor.run().status is SolveStatus.OPTIMAL
    assert not supervisor.is_free
    child_module.give_back(child, supervisor.is_free)
    assert children[0].poll() is not None


@posix_only
def test_forks_and_threads_have_children_of_their_own(tmp_path: Path) -> None:
    """A forked process must neither use nor end its parent's idle child; threads at once each get their own."""
    script = tmp_path / "script.py"
    script.write_text(_FORKING_SCRIPT)
    command = [sys.executable, str(script), str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["forked", "parent", "threads"]), done.stderr


_FORKING_SCRIPT = textwrap.dedent(
    """
    import os, sys, threading
    sys.path.append(sys.argv[1])
    from random_models import wide_model
    from reluplan.optimisation.workers import child as child_module
    from reluplan.optimisation.workers.isolated import IsolatedSolver
    from reluplan.optimisation.solvers.base import SolveOptions

    def solve(size=5):
        assert IsolatedSolver("highs").solve(wide_model(size), SolveOptions()).objective == float(size)

    solve()
    (kept,) = child_module._idle
    pid = os.fork()
    if pid == 0:
        assert not child_module._idle
        solve()
        print("forked", flush=True)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert child_module._idle == [kept] and kept.is_ready()
    solve()
    print("parent")
    threads = [threading.Thread(target=solve, args=(size,)) for size in (3, 4, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(child_module._idle) == 1
    print("threads")
    """
)


def test_statuses_and_start_cross_the_pipe() -> None:
    assert IsolatedSolver("highs").solve(infeasible_model(0), SolveOptions()).status is SolveStatus.INFEASIBLE
    model = hard_model()
    seen: list[Progress] = []
    first = SolveOptions(on_progress=seen.append, should_stop=lambda: any(p.incumbent is not None for p in seen))
    good = get_solver("highs").solve(model, first)
    nothing_new = SolveOptions(warm_start=good.solution, should_stop=lambda: len(seen) > 1, on_progress=seen.append)
    again = IsolatedSolver("highs").solve(model, nothing_new)
    assert again.objective is not None
    assert good.objective is not None
    assert again.objective >= good.objective - 1e-6


def test_progress_is_streamed() -> None:
    model = hard_model()
    seen: list[Progress] = []
    options = SolveOptions(time_limit=AMPLE, on_progress=seen.append, should_stop=lambda: len(seen) > 5)
    result = IsolatedSolver("highs").solve(model, options)
    assert result.stop_reason is StopReason.STOPPED
    assert result.status is SolveStatus.FEASIBLE
    for progress in seen:
        if progress.solution is not None:
            assert model.value(progress.solution) == progress.incumbent
    assert result.objective is not None
    assert result.objective >= max(p.incumbent for p in seen if p.incumbent is not None) - 1e-6


@posix_only
def test_child_that_ignores_the_limit_is_killed(children: list[Child]) -> None:
    """A stopped process (SIGSTOP) is the most stubborn of solvers: it hears nothing and overshoots for ever."""

    def freeze_until_the_limit() -> None:
        _signal(children, "SIGSTOP")
        supervisor._started -= 60.0

    seen: list[Progress] = []
    options = SolveOptions(time_limit=60.0, on_progress=_after_incumbent(seen, freeze_until_the_limit))
    impatient = WorkerSettings(limit_grace=-100.0)
    supervisor = Supervisor(child_module.take_child(), "highs", hard_model(), options, impatient)
    result = supervisor.run()
    assert not supervisor.is_free
    child_module.give_back(supervisor.child, supervisor.is_free)
    assert children[0].poll() is not None
    assert result.stop_reason is StopReason.TIME_LIMIT
    _check_honest(result, seen)


@posix_only
def test_child_that_dies_leaves_what_it_found(children: list[Child]) -> None:
    seen: list[Progress] = []
    options = SolveOptions(time_limit=60.0, on_progress=_after_incumbent(seen, lambda: _signal(children, "SIGKILL")))
    result = IsolatedSolver("highs").solve(hard_model(), options)
    assert result.stop_reason is StopReason.FAILED
    assert "died (SIGKILL" in result.message
    _check_honest(result, seen)


def test_child_that_dies_at_once_is_an_error(children: list[Child]) -> None:
    def kill_once() -> bool:
        children[0].kill()
        return False

    with pytest.raises(SolverError, match="process died"):
        IsolatedSolver("highs").solve(hard_model(), SolveOptions(time_limit=60.0, should_stop=kill_once))


@posix_only
def test_ctrl_c_returns_what_was_found() -> None:
    seen: list[Progress] = []
    interrupt = _after_incumbent(seen, lambda: os.kill(os.getpid(), signal.SIGINT))
    result = IsolatedSolver("highs").solve(hard_model(), SolveOptions(time_limit=60.0, on_progress=interrupt))
    assert result.is_interrupted
    _check_honest(result, seen)


@posix_only
def test_second_ctrl_c_does_not_wait(children: list[Child]) -> None:
    def freeze_and_interrupt() -> None:
        _signal(children, "SIGSTOP")
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        os.kill(os.getpid(), signal.SIGINT)

    seen: list[Progress] = []
    options = SolveOptions(on_progress=_after_incumbent(seen, freeze_and_interrupt))
    result = IsolatedSolver("highs", WorkerSettings(stop_grace=600.0)).solve(hard_model(), options)
    assert result.is_interrupted
    _check_honest(result, seen)


def test_messages_that_arrive_during_a_slow_hook_count(children: list[Child]) -> None:
    """The hook takes longer than the limit and its grace; the final answer waits in the queue."""
    waiting: list[Any] = []

    def take_until_the_end() -> None:
        supervisor._started -= 60.0
        supervisor.child.send(Signal.STOP)
        while not (waiting and isinstance(waiting[-1], SolveResult)):
            waiting.append(supervisor.child.messages.get())
        for message in waiting:
            supervisor.child.messages.put(message)

    seen: list[Progress] = []
    options = SolveOptions(time_limit=60.0, on_progress=_after_incumbent(seen, take_until_the_end))
    impatient = WorkerSettings(limit_grace=-100.0)
    supervisor = Supervisor(child_module.take_child(), "highs", hard_model(), options, impatient)
    result = supervisor.run()
    child_module.give_back(supervisor.child, supervisor.is_free)
    assert (result.closed_nodes, result.objective) == (waiting[-1].closed_nodes, waiting[-1].objective)
    assert result.dual_bound == waiting[-1].dual_bound
    _check_honest(result, seen)


def test_errors_of_hooks_end_the_child(children: list[Child]) -> None:
    def fail(_progress: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        IsolatedSolver("highs").solve(hard_model(), SolveOptions(time_limit=60.0, on_progress=fail))
    assert children[0].poll() is not None


def test_errors_of_the_child_are_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pyscipopt.py").write_text("raise ModuleNotFoundError('no module', name='pyscipopt')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"reluplan\[scip\]"):
        IsolatedSolver("scip").solve(wide_model(3), SolveOptions())


def test_error_after_a_report_leaves_what_was_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The child's HiGHS is the real one, but fails at the end of its run."""
    (tmp_path / "highspy.py").write_text(_FAILING_HIGHS)
    monkeypatch.syspath_prepend(str(tmp_path))
    seen: list[Progress] = []
    result = IsolatedSolver("highs").solve(hard_model(), SolveOptions(time_limit=60.0, on_progress=seen.append))
    assert "out of luck" in result.message
    assert "this is what it had found" in result.message
    _check_honest(result, seen)
    with pytest.raises(SolverError, match="out of luck"):
        IsolatedSolver("highs").solve(infeasible_model(0), SolveOptions())


_FAILING_HIGHS = textwrap.dedent(
    """
    import importlib, sys
    place, shim = sys.path.pop(0), sys.modules.pop("highspy")
    real = importlib.import_module("highspy")

    class Highs(real.Highs):
        def run(self):
            self.setOptionValue("time_limit", 2.0)
            super().run()
            raise RuntimeError("out of luck")

    real.Highs = Highs
    sys.path.insert(0, place)
    """
)


def test_solver_errors_of_the_child_are_raised() -> None:
    model = wide_model(3)
    model.objective[0] = np.nan
    with pytest.raises(SolverError, match="not a number"):
        IsolatedSolver("highs").solve(model, SolveOptions())


def test_unknown_solver() -> None:
    with pytest.raises(InputError, match="glpk"):
        IsolatedSolver("glpk")


@pytest.mark.parametrize("name", ["highs", "scip"])
def test_version(name: str) -> None:
    solver: Solver = IsolatedSolver(name)
    assert solver.version() == get_solver(name).version()


@posix_only
def test_script_without_main_guard_and_orphans(tmp_path: Path) -> None:
    """The script has no __main__ guard, and dies in the middle of a solve: its child must follow."""
    script = tmp_path / "script.py"
    script.write_text(_ORPHANING_SCRIPT)
    command = [sys.executable, str(script), str(TESTS)]
    parent = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=AMPLE / 2.0, check=False)
    assert parent.returncode == -signal.SIGKILL
    child = int(parent.stdout)
    deadline = time.monotonic() + AMPLE / 2.0
    while _is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


_ORPHANING_SCRIPT = textwrap.dedent(
    """
    import os, signal, sys
    sys.path.append(sys.argv[1])
    from random_models import hard_model, wide_model
    from reluplan.optimisation.workers import child as child_module
    from reluplan.optimisation.workers.isolated import IsolatedSolver
    from reluplan.optimisation.solvers.base import SolveOptions

    started = []
    start = child_module._start_child
    child_module._start_child = lambda *arguments: started.append(start(*arguments)) or started[-1]
    assert IsolatedSolver("highs").solve(wide_model(5), SolveOptions()).objective == 5.0

    def die(progress):
        if progress.incumbent is not None:
            print(started[-1].pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    IsolatedSolver("highs").solve(hard_model(), SolveOptions(time_limit=60.0, on_progress=die))
    """
)


def _check_honest(result: SolveResult, seen: list[Progress]) -> None:
    """A solution, at least as good as the best that was streamed, and a valid bound of the hard model."""
    assert result.status is SolveStatus.FEASIBLE
    assert result.objective is not None
    assert result.objective >= max(p.incumbent for p in seen if p.incumbent is not None) - 1e-6
    assert result.dual_bound >= -1e-6


def _after_incumbent(seen: list[Progress], action: Callable[[], None]) -> Callable[[Progress], None]:
    """A progress hook that acts once, when there is an incumbent."""

    def listen(progress: Progress) -> None:
        first = progress.incumbent is not None and not any(p.incumbent is not None for p in seen)
        seen.append(progress)
        if first:
            action()

    return listen


def _signal(children: list[Child], name: str) -> None:
    children[-1].send_signal(signal.Signals[name])


def _is_alive(pid: int) -> bool:
    """Whether a process that is not our child runs; a zombie waiting for init does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")
