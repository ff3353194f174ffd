"""Teachers: networks of any kind, evaluated from their ONNX files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from reluplan import clock
from reluplan.errors import InputError

Array = NDArray[np.float64]
Run = Callable[[Mapping[str, NDArray[Any]]], Sequence[Any]]
"""Evaluates a graph: arrays by the names of its inputs to the arrays of its outputs."""

LARGEST_FILE = 2**30
"""Bytes of a teacher with all its weights; files of 2 GiB and more cannot be parsed at all."""
CHUNK = 4096
"""Rows that are evaluated at a time, so that the layers of a large teacher fit into memory."""
TORCH_ENDINGS = (".pt", ".pth", ".pth.tar", ".ckpt", ".safetensors")


@dataclass(frozen=True)
class _Input:
    """One input of the graph: its name, type and shape without the batch; is_batched: whether it has a batch."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_batched: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Teacher:
    """f(x) of an ONNX file, by onnxruntime where it is installed and by ONNX's own evaluator elsewhere.

    Several inputs of the graph are filled one after the other from x, several outputs are put one after the other.
    """

    def __init__(self, path: Path, input_count: int, output_count: int) -> None:
        self.path = path
        self._output_count = output_count
        model = _load(path)
        self._inputs = _graph_inputs(path, model, input_count)
        self._run, self._takes_batches = self._runner(model)
        found = self._evaluate(np.zeros((1, input_count))).shape[1]
        if found != output_count:
            raise InputError(
                f"{path}: the teacher has {found} outputs, but network.outputs of the problem lists {output_count} "
                "names: they must be the same, in the same order"
            )

    def __call__(self, points: Array) -> Array:
        """The outputs (N, outputs) at points (N, inputs). Raises InputError where one is no finite number."""
        parts = [self._evaluate(points[start : start + CHUNK]) for start in range(0, len(points), CHUNK)]
        values = np.concatenate(parts) if parts else np.zeros((0, self._output_count))
        wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(wrong):
            raise InputError(
                f"{self.path}: the teacher gives NaN or infinity for the inputs {points[wrong[0]].tolist()}; "
                "narrow the bounds of the network's inputs in the problem file"
            )
        return values

    def _runner(self, model: onnx.ModelProto) -> tuple[Run, bool]:
        """How to evaluate the graph, and whether many rows at a time; a batch of one is opened if that works."""
        alone = _session(self.path, model)
        if not all(entry.is_batched for entry in self._inputs):
            return alone, False
        points = np.random.default_rng(0).uniform(-1.0, 1.0, (3, sum(entry.size for entry in self._inputs)))
        self._run, self._takes_batches = alone, False
        expected = self._evaluate(points)
        try:
            self._run, self._takes_batches = _session(self.path, _with_open_batch(model)), True
            found = self._evaluate(points)
        except InputError:
            return alone, False
        is_same = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-4, atol=1e-6, equal_nan=True)
        return (self._run, True) if is_same else (alone, False)

    def _evaluate(self, points: Array) -> Array:
        if self._takes_batches:
            return self._outputs(points)
        return np.concatenate([self._outputs(points[row : row + 1]) for row in range(len(points))])

    def _outputs(self, points: Array) -> Array:
        feed = {}
        start = 0
        for entry in self._inputs:
            part = points[:, start : start + entry.size].astype(entry.dtype)
            feed[entry.name] = (
                part.reshape(len(points), *entry.shape) if entry.is_batched else part.reshape(entry.shape)
            )
            start += entry.size
        clock.spend(1e4 * len(points))
        try:
            found = self._run(feed)
            outputs = [np.asarray(value, dtype=np.float64).reshape(len(points), -1) for value in found]
        except Exception as error:  # whatever an evaluator raises about a graph is the file's fault
            raise InputError(f"{self.path}: the teacher cannot be evaluated: {_one_line(error)}") from None
        return np.hstack(outputs)


def _load(path: Path) -> onnx.ModelProto:
    if path.name.lower().endswith(TORCH_ENDINGS):
        raise InputError(
            f"{path}: a torch file holds weights and code but no graph; export the model with "
            "torch.onnx.export(model, example, 'teacher.onnx') and name that file"
        )
    try:
        _check_size(path, path.stat().st_size)
        model = onnx.load(str(path), load_external_data=False)
        _check_size(path, path.stat().st_size + _external_bytes(model))
        onnx.load_external_data_for_model(model, str(path.parent))
    except OSError as error:
        raise InputError(f"{path}: the teacher cannot be read: {error.strerror or error}") from None
    except InputError:
        raise
    except Exception as error:  # protobuf's DecodeError, or whatever its version raises in place of it
        raise InputError(f"{path}: this is not an ONNX file that can be read ({_one_line(error)})") from None
    if not model.ir_version or not model.graph.output:
        raise InputError(f"{path}: this is not an ONNX file")
    return model


def _check_size(path: Path, size: int) -> None:
    if size > LARGEST_FILE:
        raise InputError(
            f"{path}: a teacher of {size / 1e9:.1f} GB is too large; at most {LARGEST_FILE / 1e9:.1f} GB are read"
        )


def _external_bytes(model: onnx.ModelProto) -> int:
    """Of weights that are kept in other files."""
    entries = [entry for tensor in model.graph.initializer for entry in tensor.external_data]
    return sum(int(entry.value) for entry in entries if entry.key == "length" and entry.value.isdecimal())


def _graph_inputs(path: Path, model: onnx.ModelProto, input_count: int) -> list[_Input]:
    weights = {tensor.name for tensor in model.graph.initializer}
    entries = [entry for entry in model.graph.input if entry.name not in weights]
    inputs = [_graph_input(path, entry, input_count if len(entries) == 1 else None) for entry in entries]
    found = sum(entry.size for entry in inputs)
    if found != input_count:
        raise InputError(
            f"{path}: the teacher has {found} inputs, but network.inputs of the problem lists {input_count} names: "
            "they must be the same, in the same order"
        )
    return inputs


def _graph_input(path: Path, entry: onnx.ValueInfoProto, expected: int | None) -> _Input:
    """expected: the size of an axis whose size the file leaves open."""
    tensor = entry.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    except KeyError:
        dtype = np.dtype(object)
    if dtype.kind != "f":
        raise InputError(f"{path}: the input '{entry.name}' of the teacher must hold floating-point numbers")
    sizes = [dim.dim_value for dim in tensor.shape.dim]
    batch, shape = (sizes[:1], sizes[1:]) if len(sizes) > 1 else ([], sizes)
    if batch and batch[0] > 1:
        raise InputError(
            f"{path}: the input '{entry.name}' of the teacher is a fixed batch of {batch[0]} samples: export it with a "
            "batch of 1 or of any size"
        )
    if len(shape) == 1 and shape[0] == 0 and expected is not None:
        shape = [expected]
    if not shape or min(shape) < 1:
        raise InputError(
            f"{path}: the input '{entry.name}' of the teacher must have a fixed number of entries, as in (n) or "
            "(batch, n)"
        )
    return _Input(entry.name, dtype, tuple(shape), bool(batch))


def _with_open_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with a batch of any size; what it says about shapes inside is dropped."""
    opened = onnx.ModelProto()
    opened.CopyFrom(model)
    weights = {tensor.name for tensor in opened.graph.initializer}
    for entry in (*opened.graph.input, *opened.graph.output):
        dims = entry.type.tensor_type.shape.dim
        if entry.name not in weights and len(dims) > 1:
            dims[0].dim_param = "batch"
    del opened.graph.value_info[:]
    return opened


def _session(path: Path, model: onnx.ModelProto) -> Run:
    """onnxruntime lacks some operators in double precision, which ONNX's own evaluator has."""
    if find_spec("onnxruntime"):
        with suppress(Exception):
            return _onnxruntime(model)
    try:
        return _reference(model)
    except Exception as error:  # whatever an evaluator raises about a graph is the file's fault
        raise InputError(f"{path}: the teacher cannot be evaluated: {_one_line(error)}") from None


def _onnxruntime(model: onnx.ModelProto) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the same sums in the same order everywhere
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda feed: list(session.run(None, dict(feed)))


def _reference(model: onnx.ModelProto) -> Run:
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model)
    return lambda feed: list(evaluator.run(None, dict(feed)))


def _one_line(error: Exception) -> str:
    """The message in one paragraph of moderate length."""
    text = "".join(char if char.isprintable() else "?" for char in " ".join(str(error).split()))
    return text if len(text) <= 300 else f"{text[:300]}..."
