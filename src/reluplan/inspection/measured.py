"""Measured numbers behind guesses, as `benchmarks/provability.py` measured them (docs/experiments/provability.md)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredOutlook:
    """How problems ended that looked alike after a trial, in ten times its seconds, with one thread: runs of random
    systems and of learned ones, and how many of each were proven or came within a gap of 1 %. gap: the median of the
    others, worst_gap their largest; None if there are none."""

    random_runs: int
    random_close: int
    learned_runs: int
    learned_close: int
    gap: float | None
    worst_gap: float | None


@dataclass(frozen=True)
class OutlookSettings:
    """The rule: a problem that the trial did not prove is likely to be proven, or to come within 1 %, if the trial's
    gap is at most small_gap, or there are at most few_integers, or few_states, which a grid handles; else it is open.

    Fitted to 45 runs of random systems, of which it is right about 43 ("open" counts as "not within 1 %"). Of 55 runs
    that had no part in it, it is right about 46: 15 of 16 random systems and 31 of 39 learned ones, of which it left
    open eight that came within 1 % all the same. The counts below are of all 100 runs.

    trial_seconds: what the runs had; most_integers: what the largest of them had. largest_model: non-zeros; beyond it
    there is no trial. bytes_per_entry: of memory, 70 here and 160 in the solver's process; base_bytes: both processes
    without any model.
    """

    small_gap: float = 0.1
    few_integers: int = 50
    few_states: int = 1
    trial_seconds: float = 2.0
    most_integers: int = 6_568
    largest_model: int = 3_000_000
    bytes_per_entry: float = 230.0
    base_bytes: float = 1.4e8
    likely: MeasuredOutlook = MeasuredOutlook(9, 8, 15, 15, 0.18, 0.18)
    open: MeasuredOutlook = MeasuredOutlook(40, 2, 11, 8, 0.88, 11.0)
