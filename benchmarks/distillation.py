"""How like a smooth teacher a ReLU student is, over activations and sizes.

    python benchmarks/distillation.py [--epochs N] [--samples N]

Teachers: random networks of 4 inputs, 16 smooth units and 2 outputs over the box [-2, 2]^4. Errors are in deviations of
the teacher's output, those of the worse output: at 20,000 fresh samples mean, 99 % and largest, and the largest found.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from reluplan.learning.distillation.distil import distil
from reluplan.learning.distillation.names import Names
from reluplan.learning.distillation.region import box_region
from reluplan.learning.distillation.settings import DistilSettings
from reluplan.learning.distillation.teacher import Teacher
from reluplan.learning.settings import TrainingSettings
from reluplan.problem.problem import Variable

INPUTS = 4
UNITS = 16
OUTPUTS = 2
ACTIVATIONS = ("Tanh", "Sigmoid", "Gelu", "Softplus")
STUDENTS = ((8,), (32,), (16, 16), (32, 32))


def save_teacher(path: Path, activation: str) -> Path:
    """x -> act(x W + b) V in a file."""
    rng = np.random.default_rng(11)
    weights = {
        "w": rng.normal(size=(INPUTS, UNITS)),
        "b": rng.normal(size=UNITS),
        "v": rng.normal(size=(UNITS, OUTPUTS)) / UNITS,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["h"]),
        helper.make_node(activation, ["h"], ["a"]),
        helper.make_node("MatMul", ["a", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "teacher",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["N", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["N", OUTPUTS])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), str(path))
    return path


def main() -> None:
    """A row per teacher and student."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=8_000)
    options = parser.parse_args()
    names = tuple(f"x{i}" for i in range(INPUTS))
    region = box_region([Variable(name, lower=-2.0, upper=2.0) for name in names], "box")
    print(
        "| teacher | student | mean | 99 % | largest sample | largest found | seconds |\n|---|---|---|---|---|---|---|"
    )
    for activation in ACTIVATIONS:
        with tempfile.TemporaryDirectory() as folder:
            teacher = Teacher(save_teacher(Path(folder) / "teacher.onnx", activation), INPUTS, OUTPUTS)
        for hidden in STUDENTS:
            began = time.monotonic()
            training = TrainingSettings(hidden=hidden, epochs=options.epochs)
            settings = DistilSettings(samples=options.samples)
            found = distil(teacher, Names(names, names[:OUTPUTS], names), region, training, settings).report.outputs
            errors = [(o.mean, o.percentile_99, o.sampled_worst, o.worst) for o in found]
            largest = np.max(np.array(errors) / np.array([o.spread for o in found])[:, None], axis=0)
            cells = " | ".join(f"{value:.4f}" for value in largest)
            shape = ":".join(map(str, hidden))
            print(f"| {activation} | {shape} | {cells} | {time.monotonic() - began:.0f} |", flush=True)


if __name__ == "__main__":
    main()
