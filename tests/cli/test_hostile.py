"""Files that are broken, absurd or malicious: each ends with exit code 4 and a message that names the file.

Every case goes through the whole command line. `pytest tests/cli/test_hostile.py` repeats them all; the number of
cases is the number of tests. Work is bounded by counts and by memory, never by time.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from command_line import Command, exit_code
from reluplan.data import Transitions, read_transitions, write_transitions
from reluplan.data.columns import find_columns
from reluplan.data.names import plain_name
from reluplan.network import affine
from reluplan.network.affine import LARGEST_TENSOR
from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.plan_file import plan_csv, read_plan
from reluplan.problem.problem import Problem
from reluplan.problem.rollout import simulate
from reluplan.tables.csv_names import escaped, unescaped
from reluplan.wording import SHOWN_VALUE
from systems import TANK

REWARD = "-abs(level' - 5) - 0.1*pump"
LEARNED = TANK.partition("[transition]")[0] + (
    '[network]\nfile = "network.onnx"\ninputs = ["level", "pump"]\noutputs = ["level"]\n'
)
MODULES = 2**26
"""Bytes that Python itself may take meanwhile, for modules that it imports."""
LONGEST_MESSAGE = 2000
"""Characters: more than that is no message any more."""

Writer = Callable[[Path], object]
Run = Callable[..., str]


@pytest.fixture
def refused(command: Command) -> Run:
    """Runs a command that must end with exit code 4; returns what it says."""

    def run(*arguments: object) -> str:
        done = command(*arguments)
        assert done.code == 4, done.err[:LONGEST_MESSAGE]
        assert done.err.startswith("reluplan: ")
        assert "Traceback" not in done.err
        assert "Warning" not in done.err
        assert len(done.err) <= LONGEST_MESSAGE
        return done.err

    return run


def changed(old: str, new: str, text: str = TANK) -> str:
    assert old in text
    return text.replace(old, new)


def reward(text: str) -> str:
    return changed(REWARD, text)


def content(value: str | bytes) -> bytes:
    return value.encode("utf-8") if isinstance(value, str) else value


# Problem files


HUGE = "0x" + "f" * 60_000
"""A whole number that Python refuses to print."""

PROBLEMS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "no state is declared"),
    "spaces": (" \n\t\n", "no state is declared"),
    "a byte order mark alone": (b"\xef\xbb\xbf", "no state is declared"),
    "NUL bytes": (b"\0" * 100, "is not valid TOML"),
    "NUL in a text": (changed("tank", "t\0nk"), "is not valid TOML"),
    "Latin-1": (TANK.encode().replace(b"tank", b"t\xe4nk"), "UTF-8"),
    "UTF-16": (TANK.encode("utf-16"), "UTF-8"),
    "binary": (bytes(range(256)) * 20, "UTF-8"),
    "lists 5,000 deep": ("a = " + "[" * 5000 + "]" * 5000, "too deep inside each other"),
    "tables 3,000 deep": ("a = " + "{b = " * 3000 + "1" + "}" * 3000, "too deep inside each other"),
    "an open list": ("a = " + "[" * 5000, "too deep inside each other"),
    "a key of 50,000 parts": (".".join(["a"] * 50_000) + " = 1", "dotted key"),
    "a table of 50,000 parts": ("[" + ".".join(["a"] * 50_000) + "]", "dotted key"),
    "a table where a number goes": (changed("horizon = 4", "horizon.a.b = 4"), "expected a whole number"),
    "lists where a text goes": (changed(f'"{REWARD}"', "[" * 200 + "]" * 200), "expected a text"),
    "the same key twice": ('name = "again"\n' + TANK, "is not valid TOML"),
    "an unknown key of a megabyte": ("k" * 1_000_000 + " = 1\n" + TANK, "unknown key"),
    "an unknown name of a megabyte": (reward("k" * 1_000_000), "unknown variable"),
    "a value of a megabyte": (changed("initial = 2", f'initial = "{"k" * 1_000_000}"'), "expected a number"),
    "a date": (changed("initial = 2", "initial = 1979-05-27"), "expected a number"),
    "a constant of 1e400": (TANK + "[constants]\nc = 1e400\n", "finite"),
    "a constant of 10**400": (TANK + "[constants]\nc = 1" + "0" * 400 + "\n", "too large"),
    "a constant of 10**5000": (TANK + "[constants]\nc = 1" + "0" * 5000 + "\n", "digits"),
    "a constant of 16**60000": (TANK + f"[constants]\nc = {HUGE}\n", "240000 bits"),
    "a constant that is NaN": (TANK + "[constants]\nc = nan\n", "expected a number"),
    "a bound of 16**60000": (changed("[0, 10]", f"[0, {HUGE}]"), "240000 bits"),
    "a bound that is NaN": (changed("[0, 10]", "[nan, 10]"), "expected a number"),
    "bounds of infinity": (changed("[0, 10]", "[inf, inf]"), "the box is empty"),
    "bounds the wrong way round": (changed("[0, 10]", "[10, 0]"), "the box is empty"),
    "a thousand bounds": (changed("[0, 10]", str(list(range(1000)))), "expected two numbers"),
    "bounds without an integer": (changed("[0, 3]", '[0.2, 0.8]\nkind = "integer"'), "the box is empty"),
    "a first value that is NaN": (changed("initial = 2", "initial = nan"), "expected a number"),
    "an infinite first value": (changed("initial = 2", "initial = inf"), "finite"),
    "a first value of 16**60000": (changed("initial = 2", f"initial = {HUGE}"), "too large"),
    "a first value out of bounds": (changed("initial = 2", "initial = 1e300"), "lies outside the bounds"),
    "a horizon of 0": (changed("horizon = 4", "horizon = 0"), "at least 1"),
    "a horizon of -1": (changed("horizon = 4", "horizon = -1"), "at least 1"),
    "a horizon of 4.0": (changed("horizon = 4", "horizon = 4.0"), "expected a whole number"),
    "a horizon that is NaN": (changed("horizon = 4", "horizon = nan"), "expected a whole number"),
    "a horizon of 1e9": (changed("horizon = 4", "horizon = 1000000000"), "at most 1,000,000"),
    "a horizon of 1e21": (changed("horizon = 4", "horizon = 1" + "0" * 21), "at most 1,000,000"),
    "a horizon of 16**60000": (changed("horizon = 4", f"horizon = {HUGE}"), "at most 1,000,000"),
    "a name with a line break": (changed('state."level"', 'state."le\\nvel"'), "cannot be seen"),
    "a name with a NUL": (changed('state."level"', 'state."le\\u0000vel"'), "cannot be seen"),
    "a name that turns the text round": (changed('state."level"', 'state."le\\u202evel"'), "cannot be seen"),
    "an empty name": (changed('state."level"', 'state.""'), "is empty"),
    "a name declared twice": (TANK + '[auxiliary."pump"]\nbounds = [0, 1]\n', "declared twice"),
    "a name of plan.csv": (changed("pump", "reward"), "plan.csv has a column of that name"),
    "a kind that is a list": (changed("[0, 3]", "[0, 3]\nkind = [1]"), "expected a text"),
    "10,000 brackets": (reward("(" * 10_000 + "level'" + ")" * 10_000), "more than 100 brackets"),
    "10,000 maxima": (reward("max(0, " * 10_000 + "level'" + ")" * 10_000), "more than 100 brackets"),
    "10,000 absolute values": (reward("abs(" * 10_000 + "level'" + ")" * 10_000), "more than 100 brackets"),
    "10,000 open brackets": (reward("(" * 10_000), "more than 100 brackets"),
    "100,000 signs": (reward("-" * 100_000 + "level * level"), "a product of two variables"),
    "a sum of 5,000 maxima, then a mistake": (reward("+".join(["abs(level)"] * 5000) + " + q"), "unknown variable 'q'"),
    "a sum of 20,000 numbers, then a mistake": (reward("+".join(["1"] * 20_000) + " + q"), "unknown variable 'q'"),
    "a number of 100,000 digits": (reward("9" * 100_000 + "*level'"), "is too large"),
    "a number of a million decimals": (reward("0." + "9" * 1_000_000 + "*q"), "unknown variable 'q'"),
    "a product that overflows": (reward("1e308*10*level'"), "overflow"),
    "a sum that overflows": (reward("1e308*level' + 1e308*level'"), "overflow"),
    "a quotient that overflows": (reward("level'/1e-320"), "overflow"),
    "an infinity minus itself": (changed("pump <= level + 1", "1e308*10 - 1e308*10 <= pump"), "overflow"),
    "zero times an infinity": (reward("0*(1e308*10) + level'"), "overflow"),
    "division by zero": (reward("level'/0"), "division by zero"),
    "an overflow inside a transition": (
        changed("max(level - 1, 0) + pump", "1e308*level + 1e308*pump + 1e308*max(level, pump)"), "too large",
    ),
    "a transition of 1e308": (changed("max(level - 1, 0) + pump", "max(1e308*level, -1e308*level)"), "too large"),
    "a transition of 1e20": (changed("max(level - 1, 0) + pump", "1e20*level + pump"), "must stay below 1e+15"),
    "code": (reward("__import__('os').system('true')"), "reward: "),
    "a file name of 5,000 characters": (changed("network.onnx", "a" * 5000, LEARNED), "no such file"),
    "a file name with a NUL": (changed("network.onnx", "a\\u0000b", LEARNED), "no such file"),
    "a folder as network": (changed("network.onnx", ".", LEARNED), "no such file"),
    "a device as network": (changed("network.onnx", "/dev/zero", LEARNED), "no such file"),
    "lists as inputs": (changed('["level", "pump"]', '[["level"], {a = 1}]', LEARNED), "unknown name"),
    "a name listed twice": (changed('["level", "pump"]', '["level", "level"]', LEARNED), "listed twice"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBLEMS)
def test_problem_files(case: str, refused: Run, tmp_path: Path) -> None:
    text, phrase = PROBLEMS[case]
    file = tmp_path / "problem.toml"
    file.write_bytes(content(text))
    said = refused("export", file, "--out", tmp_path / "model.lp")
    assert str(file) in said
    assert phrase in said


def make_loop(file: Path) -> None:
    file.symlink_to(file)


PLACES: dict[str, Writer] = {
    "nothing": lambda file: None,
    "a folder": Path.mkdir,
    "a link to itself": make_loop,
    "a link to nothing": lambda file: file.symlink_to("nowhere"),
}


@pytest.mark.parametrize("kind", ["problem.toml", "data.csv", "data.npz", "data.parquet", "plan.csv", "p.json"])
@pytest.mark.parametrize("case", PLACES)
def test_what_is_no_file(case: str, kind: str, refused: Run, tmp_path: Path) -> None:
    problem = tmp_path / "tank.toml"
    problem.write_text(LEARNED if kind.startswith("data") else TANK, encoding="utf-8")
    file = tmp_path / kind
    PLACES[case](file)
    out = tmp_path / "out"
    commands: dict[str, list[object]] = {
        ".toml": ["export", file, "--out", tmp_path / "model.lp"],
        ".json": ["plan", problem, "--method", "potentials", "--potentials", file, "--out", out],
    }
    default = (
        ["train", file, "--problem", problem, "--out", out / "n.onnx"] if "data" in kind else ["check", problem, file]
    )
    assert str(file) in refused(*commands.get(file.suffix, default))


# Networks


def proto(
    nodes: list[onnx.NodeProto], weights: dict[str, Any], inputs: int | str = 2, elem: int = TensorProto.DOUBLE
) -> onnx.ModelProto:
    """A graph from "x" to "y" with these nodes and weights."""
    initializers = [
        value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), name)
        for name, value in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", elem, [1, inputs])],
        [helper.make_tensor_value_info("y", elem, None)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=outputs.split()[0], **attributes)


def doubling(count: int) -> list[onnx.NodeProto]:
    """Each node makes its input twice as large."""
    names = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
    return [node("Concat", f"{a} {a}", b, axis=1) for a, b in pairwise(names)]


def constant_bomb() -> onnx.ModelProto:
    """Constants that double, before any input is read."""
    names = ["c", *(f"t{i}" for i in range(40))]
    nodes = [node("Concat", f"{a} {a}", b, axis=1) for a, b in pairwise(names)]
    return proto([*nodes, node("MatMul", "x t39")], {"c": np.ones((2, 1))})


def indices_bomb() -> onnx.ModelProto:
    """Indices that double, and then gather."""
    names = ["i", *(f"t{i}" for i in range(20))]
    nodes = [node("Concat", f"{a} {a}", b, axis=0) for a, b in pairwise(names)]
    return proto(
        [*nodes, node("Gather", "x t19", "z", axis=1), node("Gather", "z t19", "y", axis=0)],
        {"i": np.zeros(2, np.int64)},
    )


def wide_pair() -> onnx.ModelProto:
    """An outer product: two short constants make one large matrix."""
    return proto(
        [node("MatMul", "a b", "m"), node("MatMul", "x m")],
        {"a": np.ones((20_000, 1)), "b": np.ones((1, 20_000))},
        20_000,
    )


def broadcast_bomb() -> onnx.ModelProto:
    shape = {"row": np.ones((1, 1, 1, 5000)), "column": np.ones((1, 1, 5000, 1)), "more": np.ones((1, 5000, 1, 1))}
    return proto([node("Add", "row column", "a"), node("Add", "a more", "b"), node("Add", "b x")], shape)


def many_large() -> onnx.ModelProto:
    """Tensors that are all needed at the end, each within its limit: together they are not."""
    count, width = 40, 1000
    nodes = [node("MatMul", "x w", "m"), *(node("Add", f"m c{i}", f"t{i}") for i in range(count))]
    nodes.append(node("Sum", " ".join(f"t{i}" for i in range(count))))
    constants = {f"c{i}": np.array(float(i)) for i in range(count)}
    return proto(nodes, {"w": np.ones((width, width)), **constants}, width)


def declared_size(dims: list[int]) -> onnx.ModelProto:
    """Weights that claim to be larger than their bytes."""
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.DOUBLE, dims=dims, raw_data=b"\0" * 16)
    return proto([node("MatMul", "x w")], {"w": tensor})


def external(location: str) -> onnx.ModelProto:
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.DOUBLE, dims=[2, 1], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": "16"}.items():
        tensor.external_data.add(key=key, value=value)
    return proto([node("MatMul", "x w")], {"w": tensor})


def reshaped(shape: Any) -> onnx.ModelProto:
    return proto([node("Reshape", "x s")], {"s": shape})


def texts() -> onnx.TensorProto:
    return onnx.TensorProto(name="s", data_type=TensorProto.STRING, dims=[1], string_data=[b"a"])


def linear(weights: Any, bias: Any = (0.0,)) -> onnx.ModelProto:
    return proto([node("MatMul", "x w", "m"), node("Add", "m b")], {"w": np.asarray(weights), "b": np.asarray(bias)})


def folded(size: float) -> onnx.ModelProto:
    """Three layers without a ReLU between them, whose product overflows."""
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "a v", "b"), node("MatMul", "b v", "y")]
    return proto(nodes, {"w": np.full((2, 1), size), "v": np.full((1, 1), size)})


NETWORKS: dict[str, tuple[Callable[[], onnx.ModelProto] | bytes, str]] = {
    "empty": (b"", "not an ONNX file"),
    "text": (b"hello", "not an ONNX file"),
    "random bytes": (np.random.default_rng(0).bytes(5000), "not an ONNX file"),
    "a pickle": (pickle.dumps({"weights": [1.0]}), "not an ONNX file"),
    "NUL bytes": (b"\0" * 1000, "not an ONNX file"),
    "34 Concats that double": (lambda: proto(doubling(34), {}), "too large"),
    "60 Concats that double": (lambda: proto(doubling(60), {}), "too large"),
    "constants that double": (constant_bomb, "too large"),
    "indices that double": (indices_bomb, "too large"),
    "an outer product": (wide_pair, "too large"),
    "a broadcast": (broadcast_bomb, "too large"),
    "many large tensors": (many_large, "still needed"),
    "a leaky unit per entry of a huge tensor": (
        lambda: proto([node("Expand", "x s", "e"), node("LeakyRelu", "e")], {"s": np.array([200_000, 2])}),
        "too large",
    ),
    "padding by 2**40": (
        lambda: proto([node("Pad", "x p")], {"p": np.array([0, 0, 0, 2**40])}),
        "too large",
    ),
    "a range of 2**40": (
        lambda: proto(
            [node("Range", "a b c", "r"), node("Add", "x r")],
            {"a": np.array(0), "b": np.array(2**40), "c": np.array(1)},
        ),
        "",
    ),
    "an input of 2**40": (lambda: proto([node("Identity", "x")], {}, 2**40), "too large"),
    "an input of 2**62": (lambda: proto([node("Identity", "x")], {}, 2**62), "too large"),
    "an input of 100,000": (lambda: proto([node("Identity", "x")], {}, 100_000), "too large"),
    "an input of any size": (lambda: proto([node("Identity", "x")], {}, "n"), "a fixed number of entries"),
    "an input of size -1": (lambda: proto([node("Identity", "x")], {}, -1), "a fixed number of entries"),
    "weights shorter than they claim": (lambda: declared_size([2, 2**40]), ""),
    "weights of negative size": (lambda: declared_size([2, -1]), ""),
    "weights of overflowing size": (lambda: declared_size([2**40, 2**40]), ""),
    "weights above the folder": (lambda: external("../secret"), "same folder"),
    "weights at an absolute path": (lambda: external("/etc/passwd"), "same folder"),
    "weights nowhere": (lambda: external("nowhere.bin"), "same folder"),
    "weights of NaN": (lambda: linear([[np.nan], [1.0]]), "'w'"),
    "weights of infinity": (lambda: linear([[np.inf], [1.0]]), "NaN or infinite"),
    "a bias of NaN": (lambda: linear([[1.0], [1.0]], [np.nan]), "'b'"),
    "weights of 1e308": (lambda: linear([[1e308], [1e308]]), "must stay below 1e+15"),
    "weights of 1e15": (lambda: linear([[1e15], [1.0]]), "must stay below 1e+15"),
    "a bias of -1e20": (lambda: linear([[1.0], [1.0]], [-1e20]), "must stay below 1e+15"),
    "weights whose product overflows": (lambda: folded(1e200), "NaN or infinite"),
    "weights whose product is too large": (lambda: folded(1e100), "must stay below 1e+15"),
    "weights of text": (lambda: reshaped(texts()), "STRING"),
    "complex weights": (lambda: linear(np.ones((2, 1)) + 1j), "COMPLEX128"),
    "an unknown operator": (lambda: proto([node("Sigmoid", "x")], {}), "Sigmoid"),
    "a loop of nodes": (lambda: proto([node("Relu", "y", "z"), node("Relu", "z", "y")], {}), "not valid"),
    "a tensor from nowhere": (lambda: proto([node("Relu", "nothing")], {}), "nothing"),
    "no nodes": (lambda: proto([], {}), ""),
    "two inputs too many": (lambda: proto([node("Relu", "x x x")], {}), "not valid"),
    "an attribute of another type": (lambda: proto([node("Concat", "x x", axis=1.5)], {}), ""),
    "axes that are floats": (lambda: proto([node("Transpose", "x", perm=[0.5, 1.5])], {}), ""),
    "an axis of 2**62": (lambda: proto([node("Concat", "x x", axis=2**62)], {}), "axis"),
    "a reshape of 2**62": (lambda: reshaped(np.array([2**62, 2**62])), "cannot take the shape"),
    "a reshape of unknown sizes": (lambda: reshaped(np.array([-1, -1])), "cannot take the shape"),
    "an index far outside": (lambda: proto([node("Gather", "x s", axis=1)], {"s": np.array([2**62])}), "no index"),
    "a slice by nothing": (
        lambda: proto([node("Slice", "x s s a s")], {"s": np.array([0]), "a": np.array([1])}), "",
    ),
    "division by zero": (lambda: proto([node("Div", "x c")], {"c": np.zeros(1)}), "NaN or infinite"),
    "a square": (lambda: proto([node("Mul", "x x")], {}), "not piecewise linear"),
}  # fmt: skip


def write_network(file: Path, case: str) -> str:
    made, phrase = NETWORKS[case]
    file.write_bytes(made if isinstance(made, bytes) else made().SerializeToString())
    return phrase


@pytest.mark.parametrize("case", NETWORKS)
def test_networks(case: str, refused: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also: no more memory than the limits allow, whatever the file asks for; limits of some megabytes show it."""
    largest, held = 2**20, 2**22
    monkeypatch.setattr(affine, "LARGEST_TENSOR", largest)
    monkeypatch.setattr(affine, "LARGEST_HELD", held)
    (tmp_path / "secret").write_bytes(struct.pack("<2d", 1.0, 2.0))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "problem.toml").write_text(LEARNED, encoding="utf-8")
    phrase = write_network(folder / "network.onnx", case)
    tracemalloc.start()
    try:
        said = refused("export", folder / "problem.toml", "--out", tmp_path / "model.lp")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert str(folder / "network.onnx") in said
    assert phrase in said
    assert peak < 8 * (held + 3 * largest) + MODULES


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_truncated_networks(share: float, refused: Run, tmp_path: Path) -> None:
    (tmp_path / "problem.toml").write_text(LEARNED, encoding="utf-8")
    ReluNetwork.sequential([np.ones((9, 2)), np.ones((1, 9))], [np.ones(9), np.ones(1)]).save(tmp_path / "network.onnx")
    whole = (tmp_path / "network.onnx").read_bytes()
    (tmp_path / "network.onnx").write_bytes(whole[: int(len(whole) * share)])
    assert "network.onnx" in refused("export", tmp_path / "problem.toml", "--out", tmp_path / "model.lp")


def test_external_weights_do_not_follow_a_link_out_of_the_folder(refused: Run, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(struct.pack("<2d", 1.0, 2.0))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "weights.bin").symlink_to(tmp_path / "secret")
    (folder / "problem.toml").write_text(LEARNED, encoding="utf-8")
    (folder / "network.onnx").write_bytes(external("weights.bin").SerializeToString())
    assert "weights" in refused("export", folder / "problem.toml", "--out", tmp_path / "model.lp")


def test_a_wide_network_is_within_the_limits(tmp_path: Path) -> None:
    """The limits are for bombs: a layer of 4096 units after another of 4096 would fit seven times."""
    assert LARGEST_TENSOR >= 8 * 4096 * 4096
    network = ReluNetwork.sequential([np.ones((1024, 2)), np.ones((1, 1024))], [np.ones(1024), np.ones(1)])
    network.save(tmp_path / "wide.onnx")
    assert ReluNetwork.load(tmp_path / "wide.onnx").fingerprint() == network.fingerprint()


# Data


LOG = "timestamp,iteration,epoch,level,reward,done\n1,1,1,1,1,1\n"
GOOD = "level,pump\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(50))


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, **arrays)
    return buffer.getvalue()


def named_npz(names: Any) -> bytes:
    return npz(states=np.zeros((3, 1)), actions=np.zeros((3, 1)), state_names=names, action_names=names)


def zipped(**entries: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, value in entries.items():
            file.writestr(name, value)
    return buffer.getvalue()


def npy_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def claimed_size(size: int) -> bytes:
    """An NPZ file whose directory claims so many bytes for each of two arrays."""
    array = npy_header((3,)) + b"\0" * 24
    first, *entries = zipped(**{"level.npy": array, "pump.npy": array}).split(b"PK\x01\x02")
    return b"PK\x01\x02".join([first, *(entry[:20] + struct.pack("<I", size) + entry[24:] for entry in entries)])


class Evil:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('code of a data file was run')",))


FLOATS, ZEROS = np.arange(3.0), np.zeros(3)
DATA: dict[str, tuple[str, str | bytes, str]] = {
    "csv: empty": ("csv", "", "is empty"),
    "csv: 300,000 spaces": ("csv", " " * 300_000, "is empty"),
    "csv: a byte order mark alone": ("csv", b"\xef\xbb\xbf", "is empty"),
    "csv: a header alone": ("csv", "level,pump\n", "no rows"),
    "csv: one row": ("csv", "level,pump\n1,2\n", "single row"),
    "csv: numbers for a header": ("csv", "1,2\n3,4\n", "its first line holds numbers"),
    "csv: binary": ("csv", bytes(range(256)) * 10, "not a text file"),
    "csv: NUL": ("csv", GOOD + "1\0,2\n", "not a text file"),
    "csv: NUL far down": ("csv", GOOD + "1,2\n" * 1000 + "1\0,2\n", "line 1052"),
    "csv: half a UTF-16 character": ("csv", b"\xff\xfe" + GOOD.encode("utf-16-le") + b"x", "is missing"),
    "csv: a lone surrogate": ("csv", b"\xff\xfe\x00\xd8", "is missing"),
    "csv: a cell of 140,000 characters": ("csv", f'level,pump\n"{"1" * 140_000}",2\n3,4\n', "131072"),
    "csv: a name of 140,000 characters": ("csv", f"level,pump,{'x' * 140_000}\n1,2,3\n3,4,5\n", "131072"),
    "csv: a number of 140,000 digits": ("csv", GOOD + "1" * 140_000 + ",2\n", "line 52"),
    "csv: a text of 100,000 characters": ("csv", GOOD + "x" * 100_000 + ",2\n", "expected a number"),
    "csv: a quote without an end": ("csv", 'level,pump\n1,"2\n' + "3,4\n" * 60_000, "closing quote"),
    "csv: NaN": ("csv", GOOD + "nan,2\n", "line 52"),
    "csv: infinity": ("csv", GOOD + "inf,2\n", "the value is inf"),
    "csv: 1e400": ("csv", GOOD + "1e400,2\n", "the value is inf"),
    "csv: 1_000": ("csv", GOOD + "1_000,2\n", "expected a number"),
    "csv: a formula": ("csv", GOOD + "=1+2,2\n", "expected a number"),
    "csv: two names alike": ("csv", "level,level,pump\n1,2,3\n", "two columns are named"),
    "csv: two names alike, one escaped": ("csv", "'=a,=a,level,pump\n1,2,3,4\n", "two columns are named"),
    "csv: a cell too many": ("csv", GOOD + "1,2,3\n", "line 52 has 3 cells"),
    "csv: 100,000 open brackets": ("csv", "level,pump," + "[," * 100_000 + "\n1,2\n", "2 cells"),
    "csv: 100,000 open brackets in a name": ("csv", "lev,pump," + "[" * 100_000 + "\n1,2\n", "is missing"),
    "csv: 100,000 open parentheses": ("csv", "lev,pump," + "(" * 100_000 + "\n1,2\n", "is missing"),
    "csv: a name of 100,000 spaces": ("csv", "lev,pump,a" + " " * 100_000 + "(\n1,2\n", "is missing"),
    "csv: 100,000 columns": ("csv", ",".join(f"c{i}" for i in range(100_000)) + "\n1\n", "is missing"),
    "csv: an infinite step": ("csv", "level,pump,step\n1,2,inf\n1,2,3\n", "expected a whole number"),
    "csv: a step of 1e300": ("csv", "level,pump,step\n1,2,1e300\n1,2,3\n", "expected a whole number"),
    "csv: steps that repeat": ("csv", "level,pump,step,episode\n1,2,1,1\n1,2,1,1\n1,2,2,1\n", "more than once"),
    "csv: logs of two problems": ("csv", LOG + LOG.replace("level", "pump"), "logs of different problems"),
    "npz: empty": ("npz", b"", "cannot be read as NPZ"),
    "npz: text": ("npz", "hello", "cannot be read as NPZ"),
    "npz: a pickle": ("npz", pickle.dumps(Evil()), "cannot be read as NPZ"),
    "npz: pickled objects": ("npz", npz(level=np.array([Evil(), None], dtype=object), pump=np.zeros(2)), "pickled"),
    "npz: a pickled scalar": ("npz", npz(level=np.array(Evil(), dtype=object), pump=np.zeros(2)), "pickled"),
    "npz: pickled names": ("npz", named_npz(np.array([Evil()], dtype=object)), "pickled"),
    "npz: a pickle as a member": ("npz", zipped(**{"level.npy": pickle.dumps(Evil())}), "expected one number per row"),
    "npz: no arrays": ("npz", npz(), "is missing"),
    "npz: empty arrays": ("npz", npz(level=np.zeros(0), pump=np.zeros(0)), "no rows"),
    "npz: a scalar": ("npz", npz(level=np.float64(3), pump=ZEROS), "one number per row"),
    "npz: scalar states": ("npz", npz(states=np.float64(3)), "'state_names'"),
    "npz: a scalar name": ("npz", named_npz(np.str_("level")), "'state_names'"),
    "npz: names in a matrix": ("npz", named_npz(np.array([["level"]])), "'state_names'"),
    "npz: numbers for names": ("npz", named_npz(np.array([3])), "is missing"),
    "npz: no names": ("npz", npz(states=np.zeros((3, 1)), actions=np.zeros((3, 1))), "'state_names'"),
    "npz: texts": ("npz", npz(level=np.array(["a", "b"]), pump=np.array(["1", "2"])), "expected numbers"),
    "npz: bytes": ("npz", npz(level=np.array([b"a", b"b"]), pump=np.zeros(2)), "expected numbers"),
    "npz: complex numbers": ("npz", npz(level=ZEROS + 1j, pump=ZEROS), "expected numbers"),
    "npz: dates": ("npz", npz(level=np.zeros(3, dtype="M8[s]"), pump=ZEROS), "expected numbers"),
    "npz: records": ("npz", npz(level=np.zeros(3, dtype=[("a", "f8")]), pump=ZEROS), "expected numbers"),
    "npz: raw memory": ("npz", npz(level=np.zeros(3, dtype="V8"), pump=ZEROS), "expected numbers"),
    "npz: numbers above float64": ("npz", npz(level=np.full(3, np.longdouble("1e4000")), pump=ZEROS), "inf"),
    "npz: three axes": ("npz", npz(level=np.zeros((3, 1, 1)), pump=ZEROS), "one number per row"),
    "npz: NaN": ("npz", npz(level=np.full(3, np.nan), pump=ZEROS), "row 1"),
    "npz: different lengths": ("npz", npz(level=FLOATS, pump=np.zeros(4)), "different lengths"),
    "npz: truncated": ("npz", npz(level=np.zeros(300), pump=np.zeros(300))[:2000], "cannot be read as NPZ"),
    "npz: damaged": ("npz", npz(level=FLOATS, pump=ZEROS).replace(b"NUMPY", b"NUMPX"), "cannot be read"),
    "npz: an array of 8 TiB": ("npz", zipped(**{"level.npy": npy_header((2**40,)) + b"\0" * 99}), "cannot be read"),
    "npz: 8 GiB of zeros, compressed": ("npz", claimed_size(2**32 - 2), "split it into several files"),
    "npz: no arrays inside": ("npz", zipped(level=b"abc", pump=b"abc"), "one number per row"),
    "parquet: empty": ("parquet", b"", "cannot be read as Parquet"),
    "parquet: text": ("parquet", "PAR1hello", "cannot be read as Parquet"),
    "parquet: magic bytes alone": ("parquet", b"PAR1" * 1000, "cannot be read as Parquet"),
    "an ending that is no data": ("pickle", pickle.dumps(Evil()), "must be a file ending in"),
}  # fmt: skip


@pytest.mark.parametrize("case", DATA)
def test_data(case: str, refused: Run, tmp_path: Path) -> None:
    ending, value, phrase = DATA[case]
    problem, file = tmp_path / "problem.toml", tmp_path / f"data.{ending}"
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    problem.write_text(LEARNED, encoding="utf-8")
    file.write_bytes(content(value))
    said = refused("train", file, "--problem", problem, "--out", tmp_path / "network.onnx")
    assert str(file) in said
    assert phrase in said


PARQUET: dict[str, dict[str, Any]] = {
    "lists": {"level": [[1], [2]], "pump": [1.0, 2.0]},
    "records": {"level": [{"a": 1}, {"a": 2}], "pump": [1.0, 2.0]},
    "texts": {"level": ["a", "b"], "pump": [1.0, 2.0]},
    "nothing but gaps": {"level": [None, None], "pump": [1.0, 2.0]},
    "a gap": {"level": [1.0, None], "pump": [1.0, 2.0]},
    "no rows": {"level": [], "pump": []},
    "no columns": {},
    "NaN": {"level": [float("nan"), 1.0], "pump": [1.0, 2.0]},
}


@pytest.mark.parametrize("case", [*PARQUET, "truncated", "damaged"])
def test_parquet(case: str, refused: Run, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    problem, file = tmp_path / "problem.toml", tmp_path / "data.parquet"
    problem.write_text(LEARNED, encoding="utf-8")
    parquet.write_table(pyarrow.table(PARQUET.get(case, {"level": [1.0] * 99, "pump": [1.0] * 99})), file)
    whole = bytearray(file.read_bytes())
    if case == "truncated":
        file.write_bytes(whole[:-20])
    if case == "damaged":
        whole[30:60] = b"\xff" * 30
        file.write_bytes(whole)
    assert str(file) in refused("train", file, "--problem", problem, "--out", tmp_path / "network.onnx")


# Plans and potentials


PLANS: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "has no plan"),
    "a header alone": ("step,level,pump\n", "has no plan"),
    "a row without actions": ("step,level,pump\n1,2,\n", "has no plan"),
    "NUL": ("step,level,pump\n1,\0,2\n2,3,\n", "expected a number"),
    "binary": (bytes(range(256)) * 10, "cannot be read as CSV"),
    "UTF-16": ("step,level,pump\n1,2,3\n".encode("utf-16"), "cannot be read as CSV"),
    "a cell of 140,000 characters": ("step,level,pump\n1,2," + "1" * 140_000 + "\n", "131072"),
    "a text of 100,000 characters": ("step,level,pump\n1,2," + "x" * 100_000 + "\n", "expected a number"),
    "NaN": ("step,level,pump\n1,2,nan\n", "not a finite number"),
    "infinity": ("step,level,pump\n1,2,inf\n", "not a finite number"),
    "1e400": ("step,level,pump\n1,1e400,1\n", "not a finite number"),
    "infinite steps": ("step,level,pump\ninf,2,1\ninf,2,1\n", "not a finite number"),
    "steps that jump": ("step,level,pump\n1,2,1\n3,2,1\n", "steps count up by one"),
    "a cell too few": ("step,level,pump\n1,2\n", "2 fields"),
    "two names alike": ("step,level,pump,pump\n1,2,3,4\n", "the same name"),
    "200,000 columns": (",".join(f"c{i}" for i in range(200_000)) + "\n1\n", "1 fields"),
    "200,000 columns, none of them ours": (
        ",".join(f"c{i}" for i in range(200_000)) + "\n" + ",".join(["1"] * 200_000) + "\n", "is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_plans(case: str, refused: Run, tmp_path: Path) -> None:
    text, phrase = PLANS[case]
    problem, file = tmp_path / "problem.toml", tmp_path / "plan.csv"
    problem.write_text(TANK, encoding="utf-8")
    file.write_bytes(content(text))
    said = refused("check", problem, file)
    assert str(file) in said
    assert phrase in said


POTENTIALS: dict[str, str | bytes] = {
    "empty": "",
    "lists 100,000 deep": "[" * 100_000,
    "tables 50,000 deep": '{"a":' * 50_000,
    "a list": "[1]",
    "a text": '"abc"',
    "null": "null",
    "an empty table": "{}",
    "a number of 5,000 digits": '{"format": ' + "9" * 5000 + "}",
    "NaN": '{"format": NaN}',
    "NUL": b"\0",
    "UTF-16": "{}".encode("utf-16"),
    "a pickle": pickle.dumps(Evil()),
    "lists for everything": json.dumps({key: [] for key in ("format", "fingerprint", "valid_for", "units", "bound")}),
}


@pytest.mark.parametrize("case", POTENTIALS)
def test_potentials(case: str, refused: Run, tmp_path: Path) -> None:
    problem, file = tmp_path / "problem.toml", tmp_path / "potentials.json"
    problem.write_text(TANK, encoding="utf-8")
    file.write_bytes(content(POTENTIALS[case]))
    said = refused("plan", problem, "--method", "potentials", "--potentials", file, "--out", tmp_path / "run")
    assert str(file) in said


# Simulators are programs, and fail as such


SYSTEM = """
STATES = {"level": (0, 1)}
ACTIONS = {"pump": (0, 1)}
INITIAL = {"level": 1}
HORIZON = 3
def step(state, action):
    return state
"""
SIMULATORS: dict[str, str] = {
    "no file": "",
    "a syntax error": "def step(:\n",
    "an error": "raise ValueError('no')\n",
    "nothing said": "def step(state, action): return state\n",
    "bounds that are texts": changed('"level": (0, 1)', '"level": ("a", "b")', SYSTEM),
    "bounds that are NaN": changed('"level": (0, 1)', '"level": (float("nan"), 1)', SYSTEM),
    "a first value that is a text": changed('{"level": 1}', '{"level": "a"}', SYSTEM),
    "a horizon that is a text": changed("HORIZON = 3", "HORIZON = 'x'", SYSTEM),
    "a horizon below 1": changed("HORIZON = 3", "HORIZON = -3", SYSTEM),
    "a step that fails": changed("return state", "return 1 / 0", SYSTEM),
    "a step of another size": changed("return state", "return [1, 2, 3]", SYSTEM),
}


@pytest.mark.parametrize("case", SIMULATORS)
def test_simulators(case: str, refused: Run, tmp_path: Path) -> None:
    file = tmp_path / "system.py"
    if SIMULATORS[case]:
        file.write_text(SIMULATORS[case], encoding="utf-8")
    assert "system.py" in refused("collect", f"{file}:step", "--episodes", 2, "--out", tmp_path / "data.csv")


@pytest.mark.parametrize("command", ["check", "collect", "control"])
def test_the_help_says_that_simulators_run(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exit_code(monkeypatch, command, "--help")
    assert "they run with your rights" in " ".join(capsys.readouterr().out.split())


# Names that spreadsheets would compute


FORMULAS = ["=1+2", "+cmd|/C calc!A0", "-2+3", "@SUM(A1)", "=HYPERLINK(x)"]


@pytest.mark.parametrize("name", [*FORMULAS, "'=1", "''@x", "plain", "x'", "", "'", "\tx"])
def test_escaping_is_undone(name: str) -> None:
    assert unescaped(escaped(name)) == name
    assert not escaped(name).startswith(("=", "+", "-", "@", "\t"))


@pytest.mark.parametrize("name", FORMULAS)
def test_no_plan_holds_a_formula(name: str, tmp_path: Path) -> None:
    text = (
        TANK.replace('state."level"', f'state."{name}"')
        .replace('"level" =', f'"{name}" =')
        .replace("level", f"`{name}`")
    )
    text = text.replace(f'state."`{name}`"', f'state."{name}"').replace(f'"`{name}`" =', f'"{name}" =')
    (tmp_path / "problem.toml").write_text(text, encoding="utf-8")
    problem = Problem.load(tmp_path / "problem.toml")
    trajectory = simulate(problem, np.array([2.0]), np.ones((4, 1)), np.zeros((5, 0)))
    plan = plan_csv(problem, trajectory)
    header = plan.partition("\n")[0].split(",")
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in header)
    for written in (plan, plan.replace(f"'{name}", name)):
        (tmp_path / "plan.csv").write_text(written, encoding="utf-8")
        stored = read_plan(problem, tmp_path / "plan.csv")
        assert stored.states is not None
        np.testing.assert_array_equal(stored.states, trajectory.states)


@pytest.mark.parametrize("name", FORMULAS)
def test_no_data_file_holds_a_formula(name: str, tmp_path: Path) -> None:
    values = np.array([[-1.5], [2.0], [3.0]])
    made = Transitions((name,), ("-push",), np.zeros(3, np.int64), np.arange(3), values, values, values)
    write_transitions(made, tmp_path / "data.csv")
    header, first, *_ = (tmp_path / "data.csv").read_text(encoding="utf-8").split("\n")
    assert f"'{name}" in header
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in header.split(","))
    assert first == "0,0,-1.5,-1.5,-1.5", "numbers stay numbers"
    np.testing.assert_array_equal(read_transitions(tmp_path / "data.csv", [name], ["-push"]).next_states, values)


# Size


def test_a_header_is_read_once_however_many_names_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 states in another spelling: each column is normalised a few times, not once for each state."""
    calls = 0

    def counted(name: str) -> str:
        nonlocal calls
        calls += 1
        return plain_name(name)

    monkeypatch.setattr("reluplan.data.columns.plain_name", counted)
    names = [f"x{i}" for i in range(3000)]
    header = [*(name.upper() for name in names), "a", *(f"next_{name.upper()}" for name in names)]
    places = find_columns(Path("data.csv"), header, names, ["a"])
    assert places.states == tuple(range(3000))
    assert places.next_states == tuple(range(3001, 6001))
    assert calls < 6 * len(header)


def test_many_states_are_composed_once(tmp_path: Path) -> None:
    """The matrix of the outputs is put together once: 400 copies of it would be 250 MB."""
    names = [f"x{i}" for i in range(400)]
    text = 'horizon = 2\nreward = "0"\n[action.a]\nbounds = [0, 1]\n'
    text += "".join(f"[state.{name}]\nbounds = [0, 10]\ninitial = 1\n" for name in names)
    text += "[transition]\n" + "".join(f'{name} = "max(0.5*{name} + a, {name}) - 1"\n' for name in names)
    (tmp_path / "problem.toml").write_text(text, encoding="utf-8")
    problem = Problem.load(tmp_path / "problem.toml")
    assert problem.dynamics.output.weights.shape == (400, 801)
    np.testing.assert_allclose(problem.dynamics.forward(np.ones(401)), 0.5)


def test_messages_stay_short_whatever_they_show() -> None:
    assert SHOWN_VALUE < LONGEST_MESSAGE / 3
