"""Who reads the networks that reluplan writes: each installed reader on a sequential and on a dense network.

    python benchmarks/onnx_readers.py

It prints, for each reader, its version, and the largest difference between its values and ours, or why it does not read
the file. It installs nothing; `pip install omlt gurobi-machinelearning onnxruntime` into an environment of your own.
gurobi-machinelearning needs no licence for networks of this size.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

from reluplan.network.relu_network import Array, Layer, ReluNetwork

SAMPLES = 20
Reader = Callable[[Path, Array], Array]


def sequential(sizes: list[int], seed: int) -> ReluNetwork:
    """A random network, each layer of which reads the one before."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(after, before)) for before, after in pairwise(sizes)]
    return ReluNetwork.sequential(weights, [rng.normal(size=size) for size in sizes[1:]])


def dense(sizes: list[int], seed: int) -> ReluNetwork:
    """A random network, each layer of which reads the inputs and all layers before."""
    rng = np.random.default_rng(seed)
    reads = np.cumsum(sizes)
    layers = [Layer(rng.normal(size=(n, k)), rng.normal(size=n)) for n, k in zip(sizes[1:], reads, strict=False)]
    return ReluNetwork(sizes[0], tuple(layers[:-1]), layers[-1])


def by_onnxruntime(path: Path, inputs: Array) -> Array:
    """Its values for a batch."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["outputs"], {"inputs": inputs})[0])


def by_reference(path: Path, inputs: Array) -> Array:
    """ONNX's checker, with inferred shapes, and its reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    onnx.checker.check_model(str(path), full_check=True)
    return np.asarray(ReferenceEvaluator(str(path)).run(None, {"inputs": inputs})[0])


def by_omlt(path: Path, inputs: Array) -> Array:
    """The values of OMLT's layers, in their order."""
    from omlt.io.onnx import load_onnx_neural_network

    layers = list(load_onnx_neural_network(onnx.load(path)).layers)
    results = []
    for sample in inputs:
        for layer in layers[1:]:
            sample = layer.eval_single_layer(sample)
        results.append(sample)
    return np.array(results)


def by_gurobi_machinelearning(path: Path, inputs: Array) -> Array:
    """The values of the outputs in Gurobi's model, with the inputs fixed."""
    import gurobipy as gp
    from gurobi_ml.onnx import add_onnx_constr

    results = []
    with gp.Env(params={"OutputFlag": 0}) as environment:
        for sample in inputs:
            with gp.Model(env=environment) as model:
                variables = model.addMVar((1, len(sample)), lb=sample[None], ub=sample[None])
                built = add_onnx_constr(model, onnx.load(path), variables)
                model.optimize()
                results.append(np.asarray(built.output_values).ravel())
    return np.array(results)


READERS: dict[str, Reader] = {
    "onnx": by_reference,
    "onnxruntime": by_onnxruntime,
    "omlt": by_omlt,
    "gurobi-machinelearning": by_gurobi_machinelearning,
}


def outcome(reader: Reader, network: ReluNetwork) -> str:
    """The largest difference of its values from ours, or its refusal."""
    inputs = np.random.default_rng(1).normal(size=(SAMPLES, network.input_count))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        network.save(path)
        try:
            found = reader(path, inputs)
        except Exception as error:  # whatever another package raises is its answer
            return f"not read: {' '.join(str(error).split())[:90]}"
    return f"differs by at most {np.abs(found - network.forward(inputs)).max():.1e}"


def main() -> None:
    """One line per reader and network."""
    networks = {"sequential": sequential([3, 8, 6, 2], 0), "dense": dense([3, 8, 6, 2], 0)}
    for package, reader in READERS.items():
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            print(f"{package:24} not installed")
            continue
        for name, network in networks.items():
            print(f"{package:24} {version:10} {name:12} {outcome(reader, network)}")


if __name__ == "__main__":
    main()
