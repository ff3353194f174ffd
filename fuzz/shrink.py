"""From a flagged problem to a small one with the same flag: greedy, simplest changes that keep the flag."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.expression import (
    Absolute,
    Extreme,
    Name,
    Node,
    Number,
    Product,
    Scaled,
    Sum,
    children,
    names,
    parse,
    parse_row,
    rebuilt,
    write,
)
from fuzz.flags import Flag
from fuzz.planner import simplest
from fuzz.problem import Array, Network, Problem, Series, Variable, write_problem
from fuzz.simulate import Machine, names_read
from fuzz.trial import Case, draw_cases, run_cases

LONGEST_SECONDS = 60.0
"""How long one problem is made smaller."""

Keeps = Callable[[Case], bool]
ROW_KEYS = ("constraints", "goal", "initial")


def shrink_record(record: dict[str, Any], flag: dict[str, Any], folder: Path) -> Path | None:
    """Shrink the run of a log record that has this flag, and save it; as it is if the flag does not come back (a matter
    of time, or of a plan that another call found)."""
    if not record["runs"]:
        return None
    cases = draw_cases(record["seed"])
    name = flag["flag"].removeprefix("transplant:")
    case = cases[flag["run"]]
    seed = record["seed"]
    target = folder / f"{seed}-{flag['flag'].replace(':', '-')}"
    if name == "overrun" or find_flag(case, name, seed) is None:
        return save(case, name, seed, target)
    small = shrink(case, lambda candidate: find_flag(candidate, name, seed) is not None)
    return save(small, name, seed, target)


def find_flag(case: Case, name: str, seed: int) -> tuple[Flag, dict[str, Any]] | None:
    """Run a case; its flag of this name, and the plan and answer behind it."""
    try:
        oracles: dict[int, Any] = {}
        (finding,) = run_cases([case], seed, True, oracles)
    except (ValueError, KeyError, IndexError, SyntaxError, ArithmeticError):  # a candidate that is no problem any more
        return None
    for flag in finding.flags:
        if flag.name == name:
            witness = oracles[id(case.problem)].best()
            plan = None if witness is None else {**witness.plan.record(), "reward": witness.reward}
            return flag, {"plan": plan, "answer": finding.outcome.record()}
    return None


def shrink(case: Case, keeps: Keeps, seconds: float = LONGEST_SECONDS) -> Case:
    """Take the first simpler case that keeps the flag, and begin anew from it, until there is none."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for candidate in simpler(case):
            if time.monotonic() >= deadline:
                break
            if keeps(candidate):
                case, progress = candidate, True
                break
    return case


def simpler(case: Case) -> Iterator[Case]:
    """Candidates, the largest steps first. A donor is changed alongside where the change makes sense for both."""
    for config in simplest(case.config):
        yield replace(case, config=config)
    if case.donor is None or case.donor is case.problem:
        for problem in simpler_problems(case.problem):
            yield replace(case, problem=problem, donor=problem if case.donor is not None else None)
        return
    donors = dict(labelled_problems(case.donor))
    for label, problem in labelled_problems(case.problem):
        yield replace(case, problem=problem, donor=donors.pop(label, case.donor))
    for donor in donors.values():
        yield replace(case, donor=donor)


def simpler_problems(problem: Problem) -> Iterator[Problem]:
    """Fewer steps, variables, rows and neurons, simpler expressions, rounder numbers."""
    return (simple for _, simple in labelled_problems(problem))


def labelled_problems(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """The same with what was done, so that one thing can be done to two problems that are nearly the same."""
    if problem.horizon > 1:
        yield "one step", replace(problem, horizon=1)
        yield "a step less", replace(problem, horizon=problem.horizon - 1)
    for key in ROW_KEYS:
        rows = getattr(problem, key)
        for at, row in enumerate(rows):
            yield f"without {key} {row}", _with(problem, key, (*rows[:at], *rows[at + 1 :]))
    yield from _without_additions(problem)
    for variable in (*problem.auxiliaries, *problem.actions, *problem.states):
        without = _without(problem, variable)
        if without is not None:
            yield f"without {variable.name}", without
    if problem.network is not None:
        for number, network in enumerate(_simpler_networks(problem.network)):
            yield f"network {number}", replace(problem, network=network)
    for reward in _simpler_texts(problem.reward):
        yield f"reward {reward}", replace(problem, reward=reward)
    if problem.discount != 1.0:
        yield "no discount", replace(problem, discount=1.0)
    if problem.final_reward is not None:
        yield "no final reward", replace(problem, final_reward=None)
        for reward in _simpler_texts(problem.final_reward):
            yield f"final reward {reward}", replace(problem, final_reward=reward)
    for name, text in problem.transitions.items():
        for other in _simpler_texts(text):
            yield f"transition {name} {other}", replace(problem, transitions={**problem.transitions, name: other})
    for key in ROW_KEYS:
        rows = getattr(problem, key)
        for at, row in enumerate(rows):
            for other in _simpler_rows(row):
                yield f"{key} {row} to {other}", _with(problem, key, (*rows[:at], other, *rows[at + 1 :]))
    yield from _simpler_variables(problem)


def save(case: Case, flag: str, seed: int, folder: Path) -> Path:
    """problem.toml, network.onnx and config.json with the call, the flag, and the plan that proves it."""
    write_problem(case.problem, folder)
    if case.donor is not None:
        write_problem(case.donor, folder / "donor")
    found = find_flag(case, flag, seed)
    content = {
        "seed": seed,
        "flag": flag,
        "detail": None if found is None else found[0].detail,
        "change": case.change,
        "edit_seed": case.edit_seed,
        "config": case.config.record(),
        **({} if found is None else found[1]),
    }
    (folder / "config.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return folder


def _without(problem: Problem, variable: Variable) -> Problem | None:
    """The problem with a variable put to a constant; None if it is the last of its sort."""
    is_state, is_action = variable in problem.states, variable in problem.actions
    if (is_state and len(problem.states) == 1) or (is_action and len(problem.actions) == 1):
        return None
    value = (
        variable.initial[0] if variable.initial is not None else min(max(0.0, variable.domain[0]), variable.domain[1])
    )
    rest = replace(
        problem,
        states=tuple(v for v in problem.states if v is not variable),
        actions=tuple(v for v in problem.actions if v is not variable),
        auxiliaries=tuple(v for v in problem.auxiliaries if v is not variable),
        transitions={name: text for name, text in problem.transitions.items() if name != variable.name},
    )
    forms = {variable.name, variable.name + "'", *_lags_of(problem, variable.name)}
    return _put(_rows_dropped(rest, forms), dict.fromkeys(forms, value))


def _rows_dropped(problem: Problem, forms: set[str]) -> Problem:
    """Without the rows that read any of the names."""
    for key in ROW_KEYS:
        kept = tuple(row for row in getattr(problem, key) if not names(parse_row(row).node) & forms)
        problem = _with(problem, key, kept)
    return replace(problem, soft=tuple(soft for soft in problem.soft if not names(parse_row(soft[0]).node) & forms))


def _put(problem: Problem, values: dict[str, float]) -> Problem:
    """The problem with names put to numbers; they are no inputs of the network any more, unless it has no other."""
    network = problem.network
    for name in values:
        if network is not None and name in (*network.inputs, *network.outputs):
            network = _network_without(network, name, values[name])
    for key in ROW_KEYS:
        problem = _with(problem, key, tuple(_fixed_row(row, values) for row in getattr(problem, key)))
    return replace(
        problem,
        network=network,
        transitions={name: _fixed(text, values) for name, text in problem.transitions.items()},
        reward=_fixed(problem.reward, values),
        final_reward=None if problem.final_reward is None else _fixed(problem.final_reward, values),
        soft=tuple((_fixed_row(row, values), weight) for row, weight in problem.soft),
    )


def _lags_of(problem: Problem, name: str) -> set[str]:
    return {lag for lag, (of, _) in Machine(problem).lags.items() if of == name}


def _without_additions(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """Without a series, lag, limit of change or soft row, or with simpler ones."""
    for at, (row, weight) in enumerate(problem.soft):
        before, after = problem.soft[:at], problem.soft[at + 1 :]
        yield f"without soft {row}", replace(problem, soft=(*before, *after))
        for other in _simpler_rows(row):
            yield f"soft {row} to {other}", replace(problem, soft=(*before, (other, weight), *after))
        if _short(weight) != weight:
            yield f"soft {row} of rounder weight", replace(problem, soft=(*before, (row, _short(weight)), *after))
    for at, series in enumerate(problem.series):
        before_, after_ = problem.series[:at], problem.series[at + 1 :]
        forms = {series.name, series.name + "'", *_lags_of(problem, series.name)}
        rest = _put(problem.with_series((*before_, *after_)), dict.fromkeys(forms, series.at(0)))
        if not set(_inputs(rest)) & forms:
            yield f"without {series.name}", rest
        for shorter in _simpler_series(series, problem.horizon):
            yield f"{series} to {shorter}", problem.with_series((*before_, shorter, *after_))
    read, variables = names_read(problem), {v.name: v for v in problem.variables}
    lags = {name: of for name, (of, _) in Machine(problem).lags.items() if name in read}
    for name, of in lags.items():
        without = _put(problem, {name: variables[of].before(1) if of in variables else 0.0})
        if name not in _inputs(without):
            yield f"without {name}", without
    for key in ("states", "actions"):
        idle = [bool(v.history) and v.name not in lags.values() for v in getattr(problem, key)]
        if any(idle):
            kept = zip(getattr(problem, key), idle, strict=True)
            yield (
                f"without histories of {key}",
                _with(problem, key, tuple(replace(v, history=()) if drop else v for v, drop in kept)),
            )


def _inputs(problem: Problem) -> tuple[str, ...]:
    return () if problem.network is None else problem.network.inputs


def _simpler_series(series: Series, horizon: int) -> Iterator[Series]:
    """One value, no more values than the horizon needs, rounder ones."""
    same = replace(series, values=(series.values[0],) * len(series.values))
    fewer = series if series.repeats else replace(series, values=series.values[: horizon + 1])
    once = replace(series, values=tuple(series.at(t) for t in range(horizon + 1)), repeats=False, history=series.past)
    rounder = replace(
        series, values=tuple(_short(v) for v in series.values), history=tuple(map(_short, series.history))
    )
    yield from (other for other in (same, fewer, once, rounder) if other != series)


def _network_without(network: Network, name: str, value: float) -> Network | None:
    layers = [(weights.copy(), bias.copy()) for weights, bias in network.layers]
    inputs, outputs = list(network.inputs), list(network.outputs)
    if name in outputs:
        at = outputs.index(name)
        outputs.remove(name)
        layers[-1] = np.delete(layers[-1][0], at, axis=0), np.delete(layers[-1][1], at)
    if name in inputs and len(inputs) > 1:
        at = inputs.index(name)
        inputs.remove(name)
        layers = [(np.delete(weights, at, axis=1), bias + weights[:, at] * value) for weights, bias in layers]
    return Network(tuple(inputs), tuple(outputs), tuple(layers), network.delta) if outputs else None


def _simpler_networks(network: Network) -> Iterator[Network]:
    """One hidden unit less, no differences, no bias, rounder weights."""
    first = len(network.inputs)
    for number, (_, bias) in enumerate(network.layers[:-1]):
        for unit in range(len(bias)):
            if len(bias) > 1:
                yield replace(network, layers=_layers_without(network.layers, number, unit, first + unit))
        first += len(bias)
    if len(network.layers) > 1:
        first = len(network.inputs)
        last_weights, last_bias = network.layers[-1]
        yield replace(network, layers=((last_weights[:, :first], last_bias),))
    if network.delta:
        yield replace(network, delta=False)
    for digits in (1, 2, 3):
        rounded = tuple((_rounded(w, digits), _rounded(b, digits)) for w, b in network.layers)
        same = all(
            np.array_equal(w, v) and np.array_equal(b, c)
            for (w, b), (v, c) in zip(rounded, network.layers, strict=True)
        )
        if not same:
            yield replace(network, layers=rounded)
    for number, (weights, bias) in enumerate(network.layers):
        for at in zip(*np.nonzero(weights), strict=True):
            changed = weights.copy()
            changed[at] = 0.0
            yield replace(network, layers=(*network.layers[:number], (changed, bias), *network.layers[number + 1 :]))
        for unit in np.flatnonzero(bias).tolist():
            other = bias.copy()
            other[unit] = 0.0
            yield replace(network, layers=(*network.layers[:number], (weights, other), *network.layers[number + 1 :]))


def _layers_without(
    layers: tuple[tuple[Array, Array], ...], number: int, unit: int, column: int
) -> tuple[tuple[Array, Array], ...]:
    changed = []
    for at, (weights, bias) in enumerate(layers):
        if at == number:
            weights, bias = np.delete(weights, unit, axis=0), np.delete(bias, unit)
        elif at > number:
            weights = np.delete(weights, column, axis=1)
        changed.append((weights, bias))
    return tuple(changed)


def _rounded(values: Array, digits: int) -> Array:
    return np.array([float(f"{value:.{digits}g}") for value in values.ravel().tolist()]).reshape(values.shape)


def _simpler_texts(text: str) -> Iterator[str]:
    for node in _simpler_nodes(parse(text)):
        yield write(node)


def _simpler_rows(text: str) -> Iterator[str]:
    row = parse_row(text)
    sign = "==" if row.equality else "<="
    if isinstance(row.node, Sum) and len(row.node.parts) == 2 and isinstance(row.node.parts[1], Scaled):
        left, right = row.node.parts[0], row.node.parts[1].inner
        for other in _simpler_nodes(left):
            yield f"{write(other)} {sign} {write(right)}"
        for other in _simpler_nodes(right):
            yield f"{write(left)} {sign} {write(other)}"


def _simpler_nodes(node: Node) -> Iterator[Node]:
    """A part in place of the whole, a sum without one term, a rounder number; then the same further down."""
    if not isinstance(node, (Number, Name)):
        yield from children(node)
    match node:
        case Number(value):
            if value != 0.0:
                yield from (
                    Number(other) for other in (0.0, float(f"{value:.1g}"), float(f"{value:.2g}")) if other != value
                )
        case Sum(parts):
            if len(parts) > 2:
                yield from (Sum((*parts[:at], *parts[at + 1 :])) for at in range(len(parts)))
            for at, part in enumerate(parts):
                yield from (Sum((*parts[:at], other, *parts[at + 1 :])) for other in _simpler_nodes(part))
        case Extreme(largest, parts):
            if len(parts) > 2:
                yield from (Extreme(largest, (*parts[:at], *parts[at + 1 :])) for at in range(len(parts)))
            for at, part in enumerate(parts):
                yield from (Extreme(largest, (*parts[:at], other, *parts[at + 1 :])) for other in _simpler_nodes(part))
        case Scaled(factor, inner):
            rounder = (1.0, float(f"{factor:.1g}"), float(f"{factor:.2g}"))
            yield from (Scaled(other, inner) for other in rounder if other not in (factor, 0.0))
            yield from (Scaled(factor, other) for other in _simpler_nodes(inner))
        case Absolute(inner):
            yield from (Absolute(other) for other in _simpler_nodes(inner))
        case Product(factor, inner, divides):
            yield from (Product(factor, other, divides) for other in _simpler_nodes(inner))
            yield from (Product(other, inner, divides) for other in _simpler_nodes(factor))


def _with(problem: Problem, key: str, value: tuple[Any, ...]) -> Problem:
    changes: dict[str, Any] = {key: value}
    return replace(problem, **changes)


def _simpler_variables(problem: Problem) -> Iterator[tuple[str, Problem]]:
    for key in ("states", "actions", "auxiliaries"):
        variables = getattr(problem, key)
        for at, variable in enumerate(variables):
            for other in _simpler_variable(variable):
                yield (
                    f"{variable} to {other}",
                    _with(problem, key, (*variables[:at], other, *variables[at + 1 :])),
                )


def _simpler_variable(variable: Variable) -> Iterator[Variable]:
    if variable.max_change is not None:
        yield replace(variable, max_change=None)
    if variable.history and any(variable.history):
        yield replace(variable, history=(0.0,) * len(variable.history))
        yield replace(variable, history=tuple(_short(value) for value in variable.history))
    if variable.initial is not None and variable.initial[0] < variable.initial[1]:
        yield replace(variable, initial=(variable.initial[0], variable.initial[0]))
        yield replace(variable, initial=(variable.initial[1], variable.initial[1]))
    if variable.initial is not None and variable.initial != (0.0, 0.0):
        yield replace(variable, initial=(0.0, 0.0))
        yield replace(variable, initial=(_short(variable.initial[0]), _short(variable.initial[1])))
    if variable.is_discrete:
        yield replace(variable, kind="continuous")
    shorter = replace(variable, lower=_short(variable.lower), upper=_short(variable.upper))
    if shorter != variable:
        yield shorter


def _fixed_row(text: str, values: dict[str, float]) -> str:
    """A row with names put to numbers; as it is if it reads none of them."""
    row = parse_row(text)
    if not names(row.node) & values.keys():
        return text
    return f"{write(_substituted(row.node, values))} {'==' if row.equality else '<='} 0.0"


def _short(value: float) -> float:
    return float(f"{value:.1g}")


def _fixed(text: str, values: dict[str, float]) -> str:
    return write(_substituted(parse(text), values))


def _substituted(node: Node, values: dict[str, float]) -> Node:
    if isinstance(node, Name):
        return Number(values[node.name]) if node.name in values else node
    return rebuilt(node, lambda part: _substituted(part, values))
