"""The pool of solver processes: right answers in order, and no harm from dying children or Ctrl-C."""

from __future__ import annotations

import math
import os
import signal
import threading
import time

import pytest

from patience import LIMITS
from random_models import feasible_model, hard_model, optimum
from reluplan.errors import SolverError
from reluplan.optimisation.solvers.base import Progress, SolveOptions, SolveResult, SolveStatus, StopReason
from reluplan.optimisation.workers.child import Child
from reluplan.optimisation.workers.pool import Job, WorkerPool


def test_results_come_in_order_from_processes_that_stay() -> None:
    models = [feasible_model(seed) for seed in range(12)]
    told: list[int] = []
    with WorkerPool("highs", 2) as pool:
        jobs = [Job(model, SolveOptions(gap=0.0)) for model in models]
        results = pool.solve_all(jobs, lambda index, _: told.append(index))
        again = pool.solve_all(jobs)
        assert len(pool._idle) <= 2
    assert told == list(range(12))
    assert [r.objective for r in results] == pytest.approx([optimum(model) for model in models])
    assert [r.objective for r in results] == [r.objective for r in again]


def test_a_pool_may_use_fewer_processes_for_a_while() -> None:
    models = [feasible_model(seed) for seed in range(4)]
    jobs = [Job(model, SolveOptions()) for model in models]
    with WorkerPool("highs", 2) as pool:
        for count in (2, 1, 2):
            pool.use(count)
            assert pool.worker_count == count
            found = [result.objective for result in pool.solve_all(jobs)]
            assert found == pytest.approx([optimum(model) for model in models], abs=1e-6)


def test_a_stopped_job_does_not_stop_the_next() -> None:
    with WorkerPool("highs", 1) as pool:
        (stopped,) = pool.solve_all([Job(hard_model(), SolveOptions(should_stop=lambda: True))])
        (done,) = pool.solve_all([Job(feasible_model(3), SolveOptions(gap=0.0))])
    assert stopped.stop_reason is StopReason.STOPPED
    assert done.objective == pytest.approx(optimum(feasible_model(3)))


def test_time_limits_hold_in_a_pool() -> None:
    with WorkerPool("highs", 2) as pool:
        results = pool.solve_all([Job(hard_model(), SolveOptions(time_limit=0.5)) for _ in range(3)])
    assert all(r.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION) for r in results)


def test_jobs_share_the_time_until_a_deadline() -> None:
    """Ten hard models and little time: each gets some of it, none waits for its own full limit after another's."""
    with WorkerPool("highs", 2) as pool:
        pool.call_all(time.sleep, [(0.5,), (0.5,)])  # both processes have started
        jobs = [Job(hard_model(), SolveOptions(time_limit=60.0)) for _ in range(10)]
        for seconds in LIMITS:  # a busy machine proves less in as many
            results = pool.solve_all(jobs, deadline=time.monotonic() + seconds)
            if sum(r.dual_bound < math.inf for r in results) >= 5:
                break
        late = pool.solve_all(jobs[:1], deadline=time.monotonic() - 1.0)
    assert all(r.status in (SolveStatus.FEASIBLE, SolveStatus.NO_SOLUTION) for r in results)
    assert sum(r.dual_bound < math.inf for r in results) >= 5
    assert (late[0].stop_reason, late[0].message) == (StopReason.TIME_LIMIT, "no time was left")
    assert late[0].dual_bound == math.inf


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_child_that_dies_costs_only_its_own_job() -> None:
    models = [feasible_model(seed) for seed in range(4)]
    working: list[Child] = []

    def kill_at_work(progress: Progress) -> None:
        working[0]._process.kill()

    with WorkerPool("highs", 1) as pool:
        pool.solve_all([Job(models[0], SolveOptions())])
        working.extend(pool._idle)
        jobs = [Job(hard_model(), SolveOptions(on_progress=kill_at_work))]
        results = pool.solve_all([*jobs, *(Job(model, SolveOptions(gap=0.0)) for model in models)])
    assert "died" in results[0].message
    assert [r.objective for r in results[1:]] == pytest.approx([optimum(model) for model in models])


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_an_idle_child_that_died_is_replaced() -> None:
    with WorkerPool("highs", 1) as pool:
        pool.solve_all([Job(feasible_model(3), SolveOptions())])
        pool._idle[0]._process.kill()
        (result,) = pool.solve_all([Job(feasible_model(3), SolveOptions(gap=0.0))])
        pool._idle[0]._process.kill()
        pool._idle[0]._process.wait()
        (answer,) = pool.call_all(math.sqrt, [(4.0,)])
    assert result.objective == pytest.approx(optimum(feasible_model(3)))
    assert answer == 2.0


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_stops_all_jobs_and_is_raised() -> None:
    def press(index: int, result: SolveResult) -> None:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    jobs = [Job(feasible_model(1), SolveOptions()), *(Job(hard_model(), SolveOptions()) for _ in range(3))]
    with pytest.raises(KeyboardInterrupt), WorkerPool("highs", 2) as pool:
        pool.solve_all(jobs, press)


def test_calls_return_values_and_errors_in_order() -> None:
    with WorkerPool("highs", 2) as pool:
        answers = pool.call_all(math.sqrt, [(4.0,), (-1.0,), (9.0,)])
        (result,) = pool.solve_all([Job(feasible_model(3), SolveOptions(gap=0.0))])
    assert (answers[0], answers[2]) == (2.0, 3.0)
    assert isinstance(answers[1], SolverError)
    assert result.objective == pytest.approx(optimum(feasible_model(3)))
