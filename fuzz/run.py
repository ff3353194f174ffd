"""Many seeds on all cores: workers under a watchdog, an append-only log that can be resumed, tables of counts."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fuzz.flags import overruns
from fuzz.planner import Config
from fuzz.trial import answer, draw_cases, run_seed

HUNG_SECONDS = 90.0
"""A seed that takes longer is hung: its limits add up to a few seconds."""

SEEDS_PER_WORKER = 400
"""Then a worker is replaced, so that nothing that piles up in it lasts."""

SEED_STRIDE = 10_000_000
"""Seeds of a run are S · stride, S · stride + 1, ...: runs with different S share none."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Settings:
    """One run of the fuzzer; it ends after the minutes or the number of problems, whichever comes first."""

    seed: int
    jobs: int
    minutes: float = float("inf")
    problems: int | None = None
    folder: Path = Path("out/fuzz")
    resume: bool = False

    @property
    def log(self) -> Path:
        return self.folder / f"{self.seed}.jsonl"


@dataclass(eq=False)
class Log:
    """One line of JSON for each seed; a line that a crash cut short is ignored and its seed run again."""

    path: Path

    def read(self) -> list[Record]:
        if not self.path.exists():
            return []
        records, text = [], self.path.read_text(encoding="utf-8")
        if text and not text.endswith("\n"):
            self.path.write_text(text + "\n", encoding="utf-8")
        for line in text.splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
        return records

    def append(self, record: Record) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def set_aside(self) -> None:
        """Keep an old log under another name."""
        number = 1
        while (other := self.path.with_suffix(f".{number}.jsonl")).exists():
            number += 1
        if self.path.exists():
            self.path.rename(other)


@dataclass(eq=False)
class Worker:
    """A process that handles one seed after another; it leads a process group, so that its children end with it."""

    process: BaseProcess
    pipe: Connection
    seed: int | None = None
    since: float = 0.0
    handled: int = 0

    @classmethod
    def start(cls, folder: str) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, folder))
        process.start()
        theirs.close()
        return cls(process, ours)

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.pipe.send(seed)

    def end(self) -> None:
        self.pipe.close()
        if self.process.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()


def serve(pipe: Connection, folder: str) -> None:
    """The worker's side. Ctrl-C at the terminal is the parent's business, hence a process group of its own.

    Files go below the folder, which the parent removes: a worker that is killed cannot.
    """
    os.setpgid(0, 0)
    tempfile.tempdir = folder
    silence_native_output()
    with contextlib.suppress(EOFError, OSError):
        while True:
            seed = pipe.recv()
            try:
                record = run_seed(seed)
            except Exception as error:  # the fuzzer's own error: it must be seen, and must not end the run
                record = failed(seed, "fuzzer_error", f"{type(error).__name__}: {error}")
            pipe.send(record)


def silence_native_output() -> None:
    """Solvers print on file descriptor 1 from C++; nobody reads it."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)


def failed(seed: int, flag: str, detail: str) -> Record:
    """The record of a seed that has no answer."""
    flags = [{"flag": flag, "run": 0, "detail": detail}]
    return {"seed": seed, "kinds": [], "runs": [], "best": None, "flags": flags, "notes": [], "seconds": 0.0}


@dataclass(eq=False)
class Fuzzer:
    """Hands out seeds until the time or the seeds are up."""

    settings: Settings
    tell: Callable[[str], None] = print
    records: list[Record] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    interrupted: bool = False
    scratch: str = ""

    def run(self) -> list[Record]:
        """All records of the log, old and new."""
        log = Log(self.settings.log)
        if not self.settings.resume:
            log.set_aside()
        self.records = log.read()
        seeds = self._seeds({record["seed"] for record in self.records})
        with tempfile.TemporaryDirectory(prefix="fuzz-", ignore_cleanup_errors=True) as self.scratch:
            try:
                for record in self._work(seeds):
                    log.append(record)
                    self.records.append(record)
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                for worker in self.workers:
                    worker.end()
        return self.records

    def _seeds(self, done: set[int]) -> Iterator[int]:
        first, number = self.settings.seed * SEED_STRIDE, 0
        while self.settings.problems is None or number < self.settings.problems:
            if first + number not in done:
                yield first + number
            number += 1

    def _work(self, seeds: Iterator[int]) -> Iterator[Record]:
        until, shown, began = time.monotonic() + 60.0 * self.settings.minutes, 0.0, time.monotonic()
        self.workers = []
        open_seeds, count = True, 0
        while True:
            open_seeds = open_seeds and time.monotonic() < until
            while open_seeds and len(self._busy()) < self.settings.jobs:
                seed = next(seeds, None)
                if seed is None:
                    open_seeds = False
                else:
                    self._idle_worker().give(seed)
            if not self._busy():
                return
            for record in self._collect():
                count += 1
                yield record
            if time.monotonic() > shown + 10.0:
                shown = time.monotonic()
                flagged = sum(bool(record["flags"]) for record in self.records)
                pace = count / (shown - began + 1e-9)
                self.tell(f"{len(self.records):,} problems, {pace:.2f} a second, {flagged} with flags")

    def _busy(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.seed is not None]

    def _idle_worker(self) -> Worker:
        for worker in [w for w in self.workers if w.seed is None]:
            if worker.handled < SEEDS_PER_WORKER:
                return worker
            self._drop(worker)
        self.workers.append(Worker.start(self.scratch))
        return self.workers[-1]

    def _drop(self, worker: Worker) -> None:
        worker.end()
        self.workers.remove(worker)

    def _collect(self) -> Iterable[Record]:
        """What arrived within a second; workers that died or hang are replaced and their seeds flagged."""
        busy = self._busy()
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for worker in busy:
            seed = worker.seed if worker.seed is not None else -1
            if worker.pipe in ready:
                try:
                    record = worker.pipe.recv()
                except (EOFError, OSError):
                    self._drop(worker)
                    yield failed(seed, "crash", f"the process died ({worker.process.exitcode})")
                    continue
                worker.seed, worker.handled = None, worker.handled + 1
                yield record
            elif time.monotonic() > worker.since + HUNG_SECONDS:
                self._drop(worker)
                yield failed(seed, "hang", f"no answer after {HUNG_SECONDS:g} s")


def confirm_overruns(records: list[Record], tell: Callable[[str], None]) -> None:
    """Run calls that took too long once more, alone; a busy machine is no fault of the planner's. Changes records."""
    for record in records:
        for flag in list(record["flags"]):
            if not flag["flag"].endswith("overrun"):
                continue
            case = draw_cases(record["seed"])[flag["run"]]
            seconds = answer(case).seconds
            if not overruns(case.config, seconds):
                record["flags"].remove(flag)
                record["notes"].append("slow_when_busy")
                tell(f"seed {record['seed']}: {flag['detail']}, but {seconds:.1f} s alone")


def tables(records: list[Record]) -> str:
    """Counts by kind and by flag, and what each method and solver was asked, as markdown."""
    kinds: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    for record in records:
        kinds.update(record["kinds"])
        if record["flags"]:
            flagged.update(record["kinds"])
    lines = [f"{len(records):,} problems, {sum(len(r['runs']) for r in records):,} calls.", ""]
    lines += ["| kind | problems | with flags |", "|---|---|---|"]
    lines += [f"| {kind} | {count:,} | {flagged[kind]:,} |" for kind, count in sorted(kinds.items())]
    runs = [run for record in records for run in record["runs"]]
    calls = Counter((run["method"], run["solver"]) for run in runs)
    statuses = Counter((run["method"], run["solver"], run["status"]) for run in runs)
    shown = sorted({status for _, _, status in statuses})
    lines += ["", f"| method, solver | calls | {' | '.join(shown)} |", "|---" * (2 + len(shown)) + "|"]
    for (method, solver), count in sorted(calls.items()):
        cells = " | ".join(f"{statuses[method, solver, status]:,}" for status in shown)
        lines.append(f"| {method}, {solver} | {count:,} | {cells} |")
    flags = Counter(flag["flag"] for record in records for flag in record["flags"])
    lines += ["", "| flag | times | seeds |", "|---|---|---|"]
    for flag, count in sorted(flags.items()):
        seeds = [str(r["seed"]) for r in records if any(f["flag"] == flag for f in r["flags"])]
        lines.append(f"| {flag} | {count:,} | {', '.join(seeds[:8])}{', ...' if len(seeds) > 8 else ''} |")
    if not flags:
        lines.append("| none | 0 | |")
    notes = Counter(note for record in records for note in record["notes"])
    lines += ["", "| counted, not wrong | times |", "|---|---|"]
    lines += [f"| {note} | {count:,} |" for note, count in sorted(notes.items())]
    return "\n".join(lines) + "\n"


def config_of(run: Record) -> Config:
    """The configuration of a run in the log."""
    return Config(**{key: run[key] for key in Config().record()})
