"""Episodes that are run by several processes."""

from __future__ import annotations

import signal
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from reluplan.errors import ReluplanError
from reluplan.interrupts import SIGNALS
from reluplan.simulators.collector import Collection, Collector, Episode

_worker: list[Collector] = []
"""The collector of a worker process, which opens its simulator once."""


def _start_worker(work: Collection) -> None:
    for number in SIGNALS:  # the parent's to answer, even if a whole group of processes hears them
        signal.signal(number, signal.SIG_IGN)
    _worker.append(Collector(work))


def _run_in_worker(number: int) -> Episode:
    return _worker[0].run(number)


def run_in_processes(work: Collection, steps: int, processes: int) -> Generator[Episode, None, None]:
    """Episodes in their order, run by several processes that share nothing.

    At Ctrl-C nothing more is wanted of them: they are killed, whatever a simulator is doing.
    """
    processes = min(processes, work.episodes)
    chunk = max(1, min(work.episodes // (8 * processes), work.settings.chunk_steps // steps))
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _start_worker, (work,))
    try:
        yield from pool.map(_run_in_worker, range(work.episodes), chunksize=chunk)
    except BrokenProcessPool:
        raise ReluplanError("a process that runs the simulator ended; try --processes 1") from None
    except (KeyboardInterrupt, GeneratorExit):
        for process in list(pool._processes.values()):
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
