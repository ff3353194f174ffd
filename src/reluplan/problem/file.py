"""Reading problem files (TOML), with errors that name file, key and value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from reluplan.errors import InputError
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.declarations import Declarations, read_declarations
from reluplan.problem.dynamics import compose_dynamics, transition_order
from reluplan.problem.expression import Constraint, Scope, parse_constraints, parse_expression
from reluplan.problem.network_section import NetworkSection as NetworkSection
from reluplan.problem.network_section import load_network, read_network_section
from reluplan.problem.piecewise import PiecewiseLinear
from reluplan.problem.problem import LONGEST_HORIZON, Problem, Variable
from reluplan.problem.soft_rows import SoftRow
from reluplan.problem.tolerance import TOLERANCE
from reluplan.problem.toml_file import TomlFile, plain
from reluplan.wording import did_you_mean, shown

TOP_KEYS = {
    "name", "horizon", "reward", "final_reward", "discount", "constraints", "goal", "initial", "constants",
    "network", "state", "action", "auxiliary", "transition", "series", "soft",
}  # fmt: skip


@dataclass(frozen=True)
class VariableTable:
    """What a problem file declares before anything is learned: variables with their bounds, and its network's names.

    states and auxiliaries: the declared ones, without those of lags and series.
    """

    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    network: NetworkSection | None
    source: str
    constants: Mapping[str, float]
    series_names: tuple[str, ...] = ()


def load_problem(path: Path, network: ReluNetwork | None = None) -> Problem:
    """The problem described by a file; see the reference in docs/problem-file.md.

    network: stands in for the network file, such as one that has just been trained.
    """
    return _problem(TomlFile.read(path), network)


def problem_from(
    data: Mapping[str, Any], network: ReluNetwork | None = None, folder: str | Path = ".", name: str = "problem"
) -> Problem:
    """The problem described by the same tables as in a file, with arrays of any kind in place of lists.

    network: in place of the file that [network] names, which may then be left out. folder: of the files that it names.
    """
    tables = plain(data)
    if network is not None and isinstance(tables.get("network"), dict):
        tables["network"] = {"file": "network.onnx", **tables["network"]}
    return _problem(TomlFile(Path(folder) / name, tables), network)


def _problem(file: TomlFile, network: ReluNetwork | None) -> Problem:
    path = file.path
    file.check_keys(file.data, TOP_KEYS, "")
    declared = read_declarations(file)
    lower, upper = declared.initial_box
    scopes = declared.scopes
    step, last = scopes.step(), scopes.state("the final state")
    reward, soft = _reward(file, step), _soft(file, step)
    horizon = _horizon(file)
    for series in declared.folded:
        series.require(horizon, reads_last=False)
    return Problem(
        name=file.get(file.data, "name", str, "", path.stem),
        horizon=horizon,
        states=declared.states,
        actions=declared.actions,
        auxiliaries=declared.auxiliaries,
        initial_lower=lower,
        initial_upper=upper,
        dynamics=_dynamics(file, declared, network),
        reward=reward - PiecewiseLinear.total([row.penalty for row in soft]) if soft else reward,
        constraints=(
            *_constraints(file, "constraints", step),
            *_implied(file, declared.step_rows, step),
        ),
        initial_constraints=_constraints(file, "initial", scopes.state("the first state")),
        goal=(
            *_constraints(file, "goal", last),
            *_implied(file, declared.state_rows, last),
        ),
        final_reward=_final_reward(file, last),
        discount=_discount(file),
        source=str(path),
        series=declared.series,
        soft=soft,
        lags=declared.lags,
    )


def read_variables(path: str | Path) -> VariableTable:
    """The variables and the network section of a problem file, without the network, which may not exist yet.

    >>> table = read_variables("examples/tanks/problem.toml")
    >>> [state.name for state in table.states], table.network.predicts
    (['level[upper]', 'level[lower]'], 'delta')
    """
    file = TomlFile.read(Path(path))
    file.check_keys(file.data, TOP_KEYS, "")
    declared = read_declarations(file)
    section = read_network_section(file, declared)
    return VariableTable(
        declared.own_states,
        declared.actions,
        declared.own_auxiliaries,
        section,
        str(file.path),
        declared.constants,
        tuple(file.get(file.data, "series", dict, "", {})),
    )


def _horizon(file: TomlFile) -> int:
    horizon: int = file.get(file.data, "horizon", int, "")
    if horizon < 1:
        raise file.error("horizon", f"must be at least 1, got {shown(horizon)}")
    if horizon > LONGEST_HORIZON:
        raise file.error("horizon", f"must be at most {LONGEST_HORIZON:,}, got {shown(horizon)}")
    return horizon


def _reward(file: TomlFile, scope: Scope) -> PiecewiseLinear:
    return parse_expression(file.get(file.data, "reward", str, ""), scope, f"{file.path}: reward")


def _final_reward(file: TomlFile, scope: Scope) -> PiecewiseLinear | None:
    if "final_reward" not in file.data:
        return None
    return parse_expression(file.get(file.data, "final_reward", str, ""), scope, f"{file.path}: final_reward")


def _discount(file: TomlFile) -> float:
    discount = file.finite(file.data.get("discount", 1.0), "discount")
    if not 0.0 < discount <= 1.0:
        raise file.error("discount", f"must be above 0 and at most 1, got {shown(file.data['discount'])}")
    return discount


def _constraints(file: TomlFile, key: str, scope: Scope) -> tuple[Constraint, ...]:
    texts = file.get(file.data, key, list, "", [])
    parsed: list[Constraint] = []
    for index, text in enumerate(texts):
        where = f"{key}[{index}]"
        if not isinstance(text, str):
            raise file.error(where, f'expected a text such as "x + y <= 3", got {shown(text)}')
        for constraint in parse_constraints(text, scope, f"{file.path}: {where}"):
            _check_constant(file, constraint, where)
            parsed.append(constraint)
    return tuple(parsed)


def _implied(file: TomlFile, texts: Sequence[str], scope: Scope) -> tuple[Constraint, ...]:
    """Rows that follow from the tables of variables."""
    return tuple(row for text in texts for row in parse_constraints(text, scope, f"{file.path}: {text}"))


def _soft(file: TomlFile, scope: Scope) -> tuple[SoftRow, ...]:
    """Rows that may be broken, each with what a unit of violation costs."""
    found: list[SoftRow] = []
    for index, table in enumerate(file.get(file.data, "soft", list, "", [])):
        where = f"soft[{index}]"
        if not isinstance(table, dict):
            raise file.error(where, f'expected a table such as {{ row = "x <= 3", weight = 10 }}, got {shown(table)}')
        file.check_keys(table, {"row", "weight"}, where)
        text = file.get(table, "row", str, where)
        weight = file.finite(table.get("weight", math.nan), f"{where}.weight")
        if weight <= 0.0:
            raise file.error(f"{where}.weight", f"must be positive, got {shown(table['weight'])}")
        rows = parse_constraints(text, scope, f"{file.path}: {where}.row")
        found += [SoftRow(row, weight) for row in rows]
    return tuple(found)


def _check_constant(file: TomlFile, constraint: Constraint, where: str) -> None:
    value = constraint.function.constant
    violation = abs(value) if constraint.equality else value
    if constraint.function.is_constant and violation > TOLERANCE:
        raise file.error(where, f"'{constraint.text}' reads no variable and is never true")


def _dynamics(file: TomlFile, declared: Declarations, given: ReluNetwork | None) -> ReluNetwork:
    """The network of all states; given: stands in for the network file."""
    inputs = {v.name: i for i, v in enumerate(declared.variables)}
    outputs = {v.name: i for i, v in enumerate(declared.states)}
    transitions = _transitions(file, outputs, declared)
    section = read_network_section(file, declared)
    network = None if section is None else load_network(file, section, given)
    read = [inputs[name] for name in section.inputs] if section else []
    predicted = [outputs[name] for name in section.outputs] if section else []
    _check_cover(file, declared.states, predicted, transitions)
    is_delta = section is not None and section.predicts == "delta"
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            whole = compose_dynamics(len(inputs), len(outputs), network, read, predicted, is_delta, transitions)
        return whole.require_moderate()
    except InputError as error:  # the network alone was fine
        raise file.error("transition", f"the numbers are too large: {error}") from None


def _transitions(file: TomlFile, outputs: Mapping[str, int], declared: Declarations) -> dict[int, PiecewiseLinear]:
    """The known transitions, each behind those whose next states it reads."""
    table = file.get(file.data, "transition", dict, "", {})
    scope = declared.scopes.transition()
    transitions = {}
    own = {state.name for state in declared.own_states}
    for lag in declared.lags:
        transitions[outputs[lag.name]] = parse_expression(lag.transition, scope, lag.name)
    for name, text in table.items():
        where = f'transition."{name}"'
        if name not in own:
            raise file.error(where, f"is not a declared state ({did_you_mean(name, outputs, 'declared')})")
        if not isinstance(text, str):
            raise file.error(where, f"expected an expression, got {shown(text)}")
        transitions[outputs[name]] = parse_expression(text, scope, f"{file.path}: {where}")
    try:
        order = transition_order(len(declared.variables), transitions)
    except CycleError as error:
        cycle = [declared.states[state].name for state in reversed(error.args[1])]
        reads = ", ".join(f"{name}' reads {other}'" for name, other in pairwise(cycle))
        raise file.error(f'transition."{cycle[0]}"', f"next states wait for each other in a cycle: {reads}") from None
    return {state: transitions[state] for state in order}


def _check_cover(file: TomlFile, states: tuple[Variable, ...], predicted: list[int], known: Mapping[int, Any]) -> None:
    """Every state must be predicted, or have a known transition, and not both."""
    learned = frozenset(predicted)
    for index, state in enumerate(states):
        if index in learned and index in known:
            raise file.error("", f"state '{state.name}' is both a network output and has a known transition")
        if index not in learned and index not in known:
            raise file.error(
                "", f"state '{state.name}' has no transition: list it in network.outputs or under [transition]"
            )
