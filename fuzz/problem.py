"""A planning problem as the fuzzer sees it: plain data, written to and read from the public file format."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[np.float64]

PROBLEM_FILE, NETWORK_FILE = "problem.toml", "network.onnx"
OPSET, IR_VERSION = 17, 8

STILL = 2
"""How far back the fuzzer looks at most."""


@dataclass(frozen=True)
class Variable:
    """A state, action or auxiliary; `initial` is the interval of a state's first value, None for its bounds.

    floor, ceiling: series that are its bounds as well; `lower` and `upper` are then their widest values. history: what
    was before the first step, the most recent first. max_change: (down, up) from step to step.
    """

    name: str
    kind: str = "continuous"
    lower: float = -math.inf
    upper: float = math.inf
    initial: tuple[float, float] | None = None
    floor: str | None = None
    ceiling: str | None = None
    history: tuple[float, ...] = ()
    max_change: tuple[float, float] | None = None

    @property
    def is_discrete(self) -> bool:
        return self.kind != "continuous"

    @property
    def domain(self) -> tuple[float, float]:
        """The bounds that hold: a boolean's are within 0 and 1."""
        return (max(self.lower, 0.0), min(self.upper, 1.0)) if self.kind == "boolean" else (self.lower, self.upper)

    @property
    def start(self) -> tuple[float, float]:
        """The interval of the first value, within the bounds."""
        (low, high), (first, last) = self.domain, self.initial or self.domain
        return max(low, first), min(high, last)

    @property
    def known_past(self) -> int:
        """How many steps back are known, as far as the fuzzer looks."""
        stands = self.initial is not None and self.initial[0] == self.initial[1]
        return len(self.history) or (STILL if stands else 0)

    def before(self, steps: int) -> float:
        """The value some steps before the first; a state with one first value stood still before it."""
        if len(self.history) >= steps:
            return self.history[steps - 1]
        if self.history or self.initial is None or self.initial[0] != self.initial[1]:
            raise ValueError(f"{self.name} has no past")
        return self.initial[0]


@dataclass(frozen=True)
class Series:
    """Numbers of steps 1, 2, ..., and those before, the most recent first; one that repeats begins anew."""

    name: str
    values: tuple[float, ...]
    repeats: bool = False
    history: tuple[float, ...] = ()

    def at(self, t: int) -> float:
        """The value of a step (from 0); behind the end the last one, which a valid problem does not read."""
        if self.repeats:
            return self.values[t % len(self.values)]
        return self.history[-t - 1] if t < 0 else self.values[min(t, len(self.values) - 1)]

    @property
    def past(self) -> tuple[float, ...]:
        """What is known of it before the first step, as far as the fuzzer looks."""
        return tuple(self.at(-1 - k) for k in range(STILL if self.repeats else len(self.history)))


@dataclass(frozen=True, eq=False)
class Network:
    """Layers (weights, bias); each reads the inputs and all hidden units before it, the last has no ReLU."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[tuple[Array, Array], ...]
    delta: bool = False

    @property
    def relu_count(self) -> int:
        return sum(len(bias) for _, bias in self.layers[:-1])


@dataclass(frozen=True, eq=False)
class Problem:
    """What problem.toml and network.onnx say; `kinds` tells what is special about it, for the table of counts."""

    horizon: int
    states: tuple[Variable, ...]
    actions: tuple[Variable, ...]
    auxiliaries: tuple[Variable, ...]
    network: Network | None
    transitions: dict[str, str]
    reward: str
    constraints: tuple[str, ...] = ()
    goal: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    final_reward: str | None = None
    discount: float = 1.0
    series: tuple[Series, ...] = ()
    soft: tuple[tuple[str, float], ...] = ()
    kinds: tuple[str, ...] = field(default=())

    @property
    def variables(self) -> tuple[Variable, ...]:
        return (*self.states, *self.actions, *self.auxiliaries)

    def box(self, variable: Variable, t: int) -> tuple[float, float]:
        """The bounds that hold at a step (from 0), those that are series included."""
        (low, high), series = variable.domain, {one.name: one for one in self.series}
        low = low if variable.floor is None else max(low, series[variable.floor].at(t))
        return low, high if variable.ceiling is None else min(high, series[variable.ceiling].at(t))

    def with_series(self, series: tuple[Series, ...]) -> Problem:
        """With other values of series; one that is gone is no bound any more, and its widest value stays."""
        known = {one.name: one for one in series}

        def changed(variable: Variable) -> Variable:
            floor, ceiling = known.get(variable.floor or ""), known.get(variable.ceiling or "")
            return replace(
                variable,
                floor=None if floor is None else floor.name,
                lower=variable.lower if floor is None else min(floor.values),
                ceiling=None if ceiling is None else ceiling.name,
                upper=variable.upper if ceiling is None else max(ceiling.values),
            )

        groups = (tuple(changed(v) for v in group) for group in (self.states, self.actions, self.auxiliaries))
        states, actions, auxiliaries = groups
        return replace(self, states=states, actions=actions, auxiliaries=auxiliaries, series=series)

    @property
    def step_rows(self) -> tuple[str, ...]:
        """What tables of variables imply of every step: bounds that are series, and limits of change."""
        return (*self._bound_rows(self.variables), *(row for v in self.actions for row in _change_rows(v)))

    @property
    def state_rows(self) -> tuple[str, ...]:
        """The same of the final state."""
        return self._bound_rows((*self.states, *self.auxiliaries))

    def _bound_rows(self, variables: tuple[Variable, ...]) -> tuple[str, ...]:
        floors = [f"{v.name} >= {v.floor}" for v in variables if v.floor is not None]
        return (*floors, *(f"{v.name} <= {v.ceiling}" for v in variables if v.ceiling is not None))


def _change_rows(variable: Variable) -> tuple[str, ...]:
    if variable.max_change is None:
        return ()
    change = f"{variable.name} - lag({variable.name}, 1)"
    return f"{change} >= {variable.max_change[0]!r}", f"{change} <= {variable.max_change[1]!r}"


def write_problem(problem: Problem, folder: Path) -> Path:
    """Write both files into a folder; returns the problem file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PROBLEM_FILE
    path.write_text(_toml(problem), encoding="utf-8")
    if problem.network is not None:
        onnx.save_model(_onnx(problem.network), str(folder / NETWORK_FILE))
    return path


def read_problem(path: Path) -> Problem:
    """Read what `write_problem` wrote (or a person, within the same dialect)."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    section = data.get("network")
    network = None if section is None else _read_network(path.parent / section["file"], section)
    series = {name: _read_series(name, table) for name, table in data.get("series", {}).items()}
    return Problem(
        horizon=data["horizon"],
        states=_read_variables(data["state"], series),
        actions=_read_variables(data["action"], series),
        auxiliaries=_read_variables(data.get("auxiliary", {}), series),
        network=network,
        transitions=data.get("transition", {}),
        reward=data["reward"],
        constraints=tuple(data.get("constraints", ())),
        goal=tuple(data.get("goal", ())),
        initial=tuple(data.get("initial", ())),
        final_reward=data.get("final_reward"),
        discount=float(data.get("discount", 1.0)),
        series=tuple(series.values()),
        soft=tuple((table["row"], float(table["weight"])) for table in data.get("soft", ())),
    )


def _toml(problem: Problem) -> str:
    lines = ['name = "fuzz"', f"horizon = {problem.horizon}", f"reward = {json.dumps(problem.reward)}"]
    if problem.final_reward is not None:
        lines.append(f"final_reward = {json.dumps(problem.final_reward)}")
    if problem.discount != 1.0:
        lines.append(f"discount = {problem.discount!r}")
    for key in ("constraints", "goal", "initial"):
        rows = getattr(problem, key)
        if rows:
            lines.append(f"{key} = {json.dumps(list(rows))}")
    if problem.soft:
        soft = ", ".join(f"{{ row = {json.dumps(row)}, weight = {weight!r} }}" for row, weight in problem.soft)
        lines.append(f"soft = [{soft}]")
    if problem.series:
        lines += ["[series]", *(_series_line(series) for series in problem.series)]
    if problem.network is not None:
        net = problem.network
        lines += ["[network]", f'file = "{NETWORK_FILE}"', f"inputs = {json.dumps(list(net.inputs))}"]
        lines += [f"outputs = {json.dumps(list(net.outputs))}", f'predicts = "{"delta" if net.delta else "next"}"']
    for section in ("state", "action", "auxiliary"):
        for variable in {"state": problem.states, "action": problem.actions, "auxiliary": problem.auxiliaries}[section]:
            lines += _variable_lines(section, variable)
    if problem.transitions:
        lines.append("[transition]")
        lines += [f"{name} = {json.dumps(text)}" for name, text in problem.transitions.items()]
    return "\n".join(lines) + "\n"


def _variable_lines(section: str, variable: Variable) -> list[str]:
    lines = [f"[{section}.{variable.name}]", f'kind = "{variable.kind}"']
    if not (math.isinf(variable.lower) and math.isinf(variable.upper)):
        lower = repr(variable.lower) if variable.floor is None else json.dumps(variable.floor)
        upper = repr(variable.upper) if variable.ceiling is None else json.dumps(variable.ceiling)
        lines.append(f"bounds = [{lower}, {upper}]")
    if variable.initial is not None:
        first, last = variable.initial
        lines.append(f"initial = {first!r}" if first == last else f"initial = [{first!r}, {last!r}]")
    if variable.history:
        is_short = section == "action" and len(variable.history) == 1
        lines.append(f"previous = {variable.history[0]!r}" if is_short else f"history = {list(variable.history)!r}")
    if variable.max_change is not None:
        down, up = variable.max_change
        lines.append(f"max_change = {up!r}" if down == -up else f"max_change = [{down!r}, {up!r}]")
    return lines


def _series_line(series: Series) -> str:
    parts = [f"values = {list(series.values)!r}"]
    parts += ["repeat = true"] if series.repeats else []
    parts += [f"history = {list(series.history)!r}"] if series.history else []
    return f"{series.name} = {{ {', '.join(parts)} }}"


def _read_series(name: str, table: dict[str, Any]) -> Series:
    return Series(name, _numbers(table["values"]), table.get("repeat", False), _numbers(table.get("history", ())))


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _read_variables(tables: dict[str, Any], series: dict[str, Series]) -> tuple[Variable, ...]:
    return tuple(_read_variable(name, table, series) for name, table in tables.items())


def _read_variable(name: str, table: dict[str, Any], series: dict[str, Series]) -> Variable:
    lower, upper = table.get("bounds", (-math.inf, math.inf))
    floor, ceiling = (bound if isinstance(bound, str) else None for bound in (lower, upper))
    value = table.get("initial")
    initial = None if value is None else tuple(value) if isinstance(value, list) else (value, value)
    span = None if initial is None else (float(initial[0]), float(initial[1]))
    change = table.get("max_change")
    limits = None if change is None else (change[0], change[1]) if isinstance(change, list) else (-change, change)
    return Variable(
        name,
        table.get("kind", "continuous"),
        float(lower) if floor is None else min(series[floor].values),
        float(upper) if ceiling is None else max(series[ceiling].values),
        span,
        floor,
        ceiling,
        _numbers([table["previous"]] if "previous" in table else table.get("history", ())),
        limits,
    )


def _onnx(network: Network) -> onnx.ModelProto:
    """Gemm on the Concat of the blocks that a layer gives any weight, Relu between layers, in double precision."""
    blocks = [("inputs", len(network.inputs))]
    nodes, weights = [], []
    for number, (matrix, bias) in enumerate(network.layers):
        last = number == len(network.layers) - 1
        before = "outputs" if last else f"before_{number}"
        edges = np.cumsum([0, *(size for _, size in blocks)])
        read = [k for k in range(len(blocks)) if matrix[:, edges[k] : edges[k + 1]].any()] or [0]
        columns = np.concatenate([np.arange(edges[k], edges[k + 1]) for k in read])
        source = blocks[read[0]][0]
        if len(read) > 1:
            source = f"read_{number}"
            nodes.append(helper.make_node("Concat", [blocks[k][0] for k in read], [source], axis=1))
        weights.append(numpy_helper.from_array(np.ascontiguousarray(matrix[:, columns].T), f"w{number}"))
        weights.append(numpy_helper.from_array(np.ascontiguousarray(bias), f"b{number}"))
        nodes.append(helper.make_node("Gemm", [source, f"w{number}", f"b{number}"], [before]))
        if not last:
            nodes.append(helper.make_node("Relu", [before], [f"hidden_{number}"]))
            blocks.append((f"hidden_{number}", len(bias)))
    graph = helper.make_graph(
        nodes,
        "fuzz",
        [helper.make_tensor_value_info("inputs", TensorProto.DOUBLE, ["batch", len(network.inputs)])],
        [helper.make_tensor_value_info("outputs", TensorProto.DOUBLE, ["batch", len(network.outputs)])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _read_network(path: Path, section: dict[str, Any]) -> Network:
    """Every tensor as an affine function of (inputs, hidden units so far, 1): each Relu adds a layer."""
    graph = onnx.load_model(str(path)).graph
    constants = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in graph.initializer}
    inputs = len(section["inputs"])
    tensors: dict[str, tuple[Array, Array]] = {"inputs": (np.eye(inputs), np.zeros(inputs))}
    layers: list[tuple[Array, Array]] = []
    width = inputs
    for node in graph.node:
        arguments = [tensors.get(name) for name in node.input]
        if node.op_type == "Relu":
            matrix, bias = _known(arguments[0])
            layers.append((_padded(matrix, width), bias))
            tensors[node.output[0]] = np.eye(len(bias), width + len(bias), width), np.zeros(len(bias))
            width += len(bias)
        elif node.op_type == "Concat":
            parts = [_known(argument) for argument in arguments]
            matrix = np.vstack([_padded(part, width) for part, _ in parts])
            tensors[node.output[0]] = matrix, np.concatenate([bias for _, bias in parts])
        elif node.op_type == "Gemm":
            matrix, bias = _known(arguments[0])
            by = constants[node.input[1]]
            by = by if any(a.name == "transB" and a.i for a in node.attribute) else by.T
            tensors[node.output[0]] = by @ matrix, by @ bias + constants[node.input[2]]
        else:
            raise ValueError(f"{path}: the fuzzer does not read {node.op_type}")
    matrix, bias = tensors["outputs"]
    layers.append((_padded(matrix, width), bias))
    outputs = tuple(section["outputs"])
    return Network(tuple(section["inputs"]), outputs, tuple(layers), section.get("predicts") == "delta")


def _known(tensor: tuple[Array, Array] | None) -> tuple[Array, Array]:
    if tensor is None:
        raise ValueError("a node reads a tensor that is not computed before it")
    return tensor


def _padded(matrix: Array, width: int) -> Array:
    return np.hstack([matrix, np.zeros((len(matrix), width - matrix.shape[1]))])
