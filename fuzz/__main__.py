"""`python -m fuzz`: random problems through the planner, and what is wrong with its answers."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from pathlib import Path

from fuzz.run import Fuzzer, Log, Record, Settings, confirm_overruns, tables
from fuzz.shrink import shrink_record

SHRINK_PER_FLAG = 2


def main() -> int:
    """Run, confirm, shrink, and print the tables; 1 if anything is flagged."""
    arguments = _parser().parse_args()
    settings = Settings(
        seed=arguments.seed if arguments.seed is not None else secrets.randbelow(10_000),
        jobs=arguments.jobs,
        minutes=arguments.minutes,
        problems=arguments.problems,
        folder=arguments.out,
        resume=arguments.resume,
    )
    print(f"seed {settings.seed}, {settings.jobs} jobs, log in {settings.log}", flush=True)
    fuzzer = Fuzzer(settings, lambda text: print(text, flush=True))
    records = fuzzer.run()
    if not fuzzer.interrupted:
        confirm_overruns(records, print)
        _shrink(records, arguments.found, arguments.shrink)
    text = tables(records)
    settings.folder.mkdir(parents=True, exist_ok=True)
    settings.log.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)
    if fuzzer.interrupted:
        print("interrupted; --resume goes on")
    return int(any(record["flags"] for record in records))


def _shrink(records: list[Record], folder: Path, limit: int) -> None:
    """The first few of each flag, made small and saved."""
    done: dict[str, int] = {}
    for record in records:
        for flag in record["flags"]:
            name = flag["flag"]
            if done.get(name, 0) >= limit:
                continue
            done[name] = done.get(name, 0) + 1
            try:
                saved = shrink_record(record, flag, folder)
            except KeyboardInterrupt:
                return
            print(f"seed {record['seed']}: {name}: {flag['detail']}" + (f" -> {saved}" if saved else ""), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after so many minutes")
    parser.add_argument("--jobs", type=int, default=cores, help="worker processes; all cores by default")
    parser.add_argument("--seed", type=int, help="which problems; random by default")
    parser.add_argument("--problems", type=int, help="stop after so many problems")
    parser.add_argument("--resume", action="store_true", help="go on with the log of this seed")
    parser.add_argument("--shrink", type=int, default=SHRINK_PER_FLAG, help="how many of each flag to make small")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="folder of the log")
    parser.add_argument("--found", type=Path, default=Path("fuzz/found"), help="folder of small flagged problems")
    return parser


__all__ = ["Log", "main"]

if __name__ == "__main__":
    sys.exit(main())
