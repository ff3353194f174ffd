"""What is wrong with an answer of the planner, given plans that it does not know.

A plan counts against an answer only if it is strictly feasible in exact arithmetic (`ExactRun.is_strict`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fuzz.oracle import Oracle, Witness
from fuzz.planner import Config, Outcome
from fuzz.simulate import Amount, ExactRun, Machine

ROUNDING = 1e-9
"""A bound may be below a plan by this much (relative)."""

INEXACT = 1e-6
"""The same for plans whose equalities hold only within their tolerance."""

TOLERANCE = 1e-6
"""A plan of the planner may violate a row by this much, times the size of its terms if that is above one."""

SMALL_TOLERANCE = 1e-4
"""The same relative to the largest size that the row's terms can have, if that is small: 1e-6 means nothing for data of
1e-6."""

SIMULATION = 1.001e-12
"""Relative to the largest size that the row's terms can have: simulation in floating point does not do much better."""

REWARD = 1e-6
"""The reward may differ from the other simulator's by this much (relative), beside rounding."""

OVERRUN_SHARE, OVERRUN_SECONDS = 0.1, 2.0
"""The time limit is kept within these."""

FLAGS = (
    "bound_too_low",
    "false_infeasible",
    "false_optimal",
    "plan_invalid",
    "tie_flip",
    "reward_differs",
    "reward_above_bound",
    "crash",
    "overrun",
    "hang",
)
"""Every flag; "transplant:" before one says that the potentials of another problem were given."""

NOTES = ("missed_plan", "refused", "licence", "no_bound")
"""What is counted, but is not wrong."""


@dataclass(frozen=True)
class Flag:
    """A flag with a sentence that says what was seen."""

    name: str
    detail: str


def judge(machine: Machine, config: Config, outcome: Outcome, oracle: Oracle) -> list[Flag]:
    """All flags of one answer; the oracle has looked already."""
    if outcome.status == "crash":
        return [Flag("crash", outcome.message)]
    if outcome.status in ("refused", "licence"):
        return []
    flags: list[Flag] = []
    if outcome.plan is not None:
        discrete = [variable.is_discrete for variable in machine.problem.states]
        flags += _judge_plan(machine.exact(outcome.plan, define=False), outcome, discrete)
    flags += _judge_claims(config, outcome, oracle)
    if overruns(config, outcome.seconds):
        flags.append(Flag("overrun", f"{outcome.seconds:.1f} s for a limit of {config.time_limit} s"))
    return flags


def notes(outcome: Outcome, oracle: Oracle, config: Config) -> list[str]:
    """What is worth counting though no claim is wrong."""
    found = [outcome.status] if outcome.status in ("refused", "licence") else []
    early = outcome.seconds < 0.7 * config.time_limit
    if outcome.status == "no_plan" and early and math.isfinite(oracle.search.clear_reward):
        found.append("missed_plan")
    if outcome.status in ("feasible", "no_plan") and outcome.bound is None:
        found.append("no_bound")
    return found


def overruns(config: Config, seconds: float) -> bool:
    """Whether a call took longer than its limit allows."""
    return seconds > (1.0 + OVERRUN_SHARE) * config.time_limit + OVERRUN_SECONDS


def _judge_plan(run: ExactRun, outcome: Outcome, discrete: list[bool]) -> list[Flag]:
    flags = []
    if _flipped(run, outcome, discrete):
        return [Flag("tie_flip", "a discrete state differs: its prediction is a tie in float64 but not in fact")]
    for amount in run.amounts:
        excess = abs(amount.amount) if amount.equality else amount.amount
        if excess > _allowed(amount) + amount.noise:
            detail = f"step {amount.step}: {amount.text} is off by {float(excess):.3g} (size {amount.size:.3g})"
            flags.append(Flag("plan_invalid", detail))
            break
    reward = outcome.reward if outcome.reward is not None else math.nan
    difference = abs(float(run.reward) - reward)
    if not difference <= REWARD * abs(float(run.reward)) + run.noise:
        flags.append(Flag("reward_differs", f"{reward!r} is reported, {float(run.reward)!r} is true"))
    if outcome.bound is not None and reward > outcome.bound + 1e-12 * abs(reward):
        flags.append(Flag("reward_above_bound", f"reward {reward!r}, bound {outcome.bound!r}"))
    return flags


def _allowed(amount: Amount) -> float:
    relative = min(TOLERANCE * 1.001 * max(1.0, amount.size), SMALL_TOLERANCE * amount.scale)
    return max(relative, SIMULATION * amount.scale)


def _flipped(run: ExactRun, outcome: Outcome, discrete: list[bool]) -> bool:
    """Whether a discrete state is another one because its prediction is within rounding of a tie."""
    if outcome.states is None or run.tie_margin >= 1.0:
        return False
    return any(
        is_discrete and value != other
        for exact, given in zip(run.states, outcome.states.tolist(), strict=True)
        for value, other, is_discrete in zip(exact, given, discrete, strict=True)
    )


def _judge_claims(config: Config, outcome: Outcome, oracle: Oracle) -> list[Flag]:
    """Bounds and statuses against the best plan known; exact arithmetic is used only if float64 sees something."""
    best = oracle.estimate
    if not math.isfinite(best):
        return []
    suspicious = outcome.status == "infeasible"
    suspicious |= outcome.bound is not None and best > outcome.bound
    suspicious |= outcome.status == "optimal" and outcome.reward is not None and best > outcome.reward
    if not suspicious:
        return []
    witness = oracle.best()
    return [] if witness is None else _compare(config, outcome, witness)


def _compare(config: Config, outcome: Outcome, witness: Witness) -> list[Flag]:
    flags, reward = [], witness.reward
    allowance = (ROUNDING if witness.run.is_exact else INEXACT) * (
        abs(reward) if witness.run.is_exact else max(1.0, abs(reward))
    )
    if outcome.status == "infeasible" and witness.run.is_exact:
        flags.append(Flag("false_infeasible", f"a plan with reward {reward!r} is known"))
    if outcome.bound is not None and reward > outcome.bound + allowance:
        flags.append(Flag("bound_too_low", f"bound {outcome.bound!r}, a plan has {reward!r}"))
    if outcome.status == "optimal" and outcome.reward is not None:
        claimed = outcome.reward + config.gap * max(1.0, abs(outcome.reward))
        if reward > claimed + allowance:
            flags.append(Flag("false_optimal", f"reward {outcome.reward!r} at gap {config.gap}, a plan has {reward!r}"))
    return flags
