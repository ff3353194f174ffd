"""What other tools export, read by reluplan and compared with onnxruntime.

    python benchmarks/onnx_exporters.py [torch|sklearn|keras ...]

Piecewise-linear networks of PyTorch (both of its exporters), scikit-learn (skl2onnx) and Keras (tf2onnx). It prints for
each the number of units and the largest relative difference from onnxruntime, or why it is not read. It installs
nothing: `pip install onnxruntime torch onnxscript scikit-learn skl2onnx`, and in an environment of its own
`pip install onnxruntime tensorflow-cpu tf2onnx`.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reluplan.network.relu_network import ReluNetwork

SAMPLES = 50
Exported = Iterator[tuple[str, Callable[[Path], None]]]


def torch_cases() -> Exported:
    """PyTorch: each module by TorchScript and by torch.export ("dynamo")."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    for name, module, shape in torch_modules():
        example = torch.randn(1, *shape)
        with torch.no_grad():
            module(torch.randn(64, *shape))  # running statistics of batch norm
        module.eval()
        for exporter, dynamo in (("TorchScript", False), ("dynamo", True)):
            yield f"torch {exporter}: {name}", _torch_export(module, example, dynamo)


def _torch_export(module: Any, example: Any, dynamo: bool) -> Callable[[Path], None]:
    import torch

    def export(path: Path) -> None:
        batch: dict[str, Any] = {"dynamic_axes": {"x": {0: "batch"}}}
        if dynamo:
            batch = {"dynamic_shapes": ({0: torch.export.Dim("batch")},)}
        torch.onnx.export(module, (example,), str(path), input_names=["x"], dynamo=dynamo, **batch)

    return export


def torch_modules() -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """(name, module, shape of a sample): layers of every piecewise-linear kind between two linear ones."""
    import torch
    from torch import nn

    def function(forward: Callable[[Any], Any]) -> Any:
        class Function(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = nn.Linear(4, 6)
                self.last = nn.Linear(6, 3)

            def forward(self, x: Any) -> Any:
                return self.last(forward(self.first(x)))

        return Function()

    def layered(*layers: Any) -> Any:
        return nn.Sequential(nn.Linear(4, 6), *layers, nn.Linear(6, 3))

    modules = {
        "ReLU": nn.ReLU(),
        "LeakyReLU": nn.LeakyReLU(0.1),
        "PReLU": nn.PReLU(6),
        "RReLU": nn.RReLU(),
        "Hardtanh": nn.Hardtanh(-0.5, 0.7),
        "ReLU6": nn.ReLU6(),
        "Hardsigmoid": nn.Hardsigmoid(),
        "Softshrink": nn.Softshrink(0.3),
        "Threshold at 0": nn.Threshold(0.0, 0.0),
        "BatchNorm1d": nn.BatchNorm1d(6),
        "Dropout": nn.Dropout(0.5),
        "Identity": nn.Identity(),
        "Unflatten, Flatten": nn.Sequential(nn.Unflatten(1, (2, 3)), nn.ReLU(), nn.Flatten()),
    }
    for name, module in modules.items():
        yield name, layered(module), (4,)
    scale = torch.rand(6) + 0.5
    functions: dict[str, Callable[[Any], Any]] = {
        "clamp": lambda h: h.clamp(-0.5, 0.5),
        "clamp one side": lambda h: h.clamp(min=0.1),
        "clamp to tensors": lambda h: torch.clamp(h, -scale, scale),
        "maximum": lambda h: torch.maximum(h, 0.5 - h),
        "minimum": lambda h: torch.minimum(h, scale),
        "abs": torch.abs,
        "residual": lambda h: h + torch.relu(h),
        "concat, slice": lambda h: torch.cat([torch.relu(h[:, :3]), h[:, 3:]], dim=1),
        "chunk": lambda h: torch.cat(torch.relu(h).chunk(2, dim=1)[::-1], dim=1),
        "index": lambda h: torch.relu(h)[:, [5, 0, 1, 3, 2, 4]],
        "amax": lambda h: h - h.amax(dim=1, keepdim=True),
        "amin, mean, sum": lambda h: h * 2 - h.amin(1, True) - h.mean(1, True) + h.sum(1, True),
        "scaler": lambda h: (torch.relu(h) - scale) / (scale + 1.0),
        "stack, view": lambda h: torch.stack([h, -h], dim=1).amax(dim=1).view(h.shape[0], 6),
        "einsum": lambda h: torch.einsum("bi,i->bi", torch.relu(h), scale),
        "pad": lambda h: nn.functional.pad(h, (1, 1))[:, 1:7].relu(),
        "where by a constant": lambda h: torch.where(scale > 1.0, h, torch.relu(h)),
        "expand": lambda h: torch.relu(h[:, :1].expand(-1, 6) + h),
        "repeat": lambda h: torch.relu(h[:, :2].repeat(1, 3) + h),
        "maxout": lambda h: h.view(-1, 3, 2).amax(2).repeat(1, 2),
    }
    for name, forward in functions.items():
        yield name, function(forward), (4,)
    yield (
        "Conv2d, BatchNorm2d, MaxPool2d",
        nn.Sequential(
            nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 2)
        ),
        (1, 6, 6),
    )
    pooled = (nn.Conv1d(2, 3, 3, stride=2), nn.LeakyReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(6, 2))
    yield "Conv1d, LeakyReLU, AvgPool1d", nn.Sequential(*pooled), (2, 10)
    ends = (nn.Conv2d(1, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))
    yield "Conv2d, AdaptiveAvgPool2d(1)", nn.Sequential(*ends), (1, 4, 4)
    yield "ConvTranspose1d", nn.Sequential(nn.ConvTranspose1d(1, 2, 3, stride=2), nn.ReLU(), nn.Flatten()), (1, 4)


def sklearn_cases() -> Exported:
    """scikit-learn's pipelines, in single and in double precision."""
    from skl2onnx import to_onnx

    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    y = np.c_[np.abs(x[:, 0]) + x[:, 1], x[:, 2] - x[:, 3]]
    for name, pipeline in sklearn_pipelines():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pipeline.fit(x, y)
        for kind in (np.float32, np.float64):

            def export(path: Path, pipeline: Any = pipeline, kind: Any = kind) -> None:
                path.write_bytes(to_onnx(pipeline, x[:1].astype(kind)).SerializeToString())

            yield f"skl2onnx {np.dtype(kind).name}: {name}", export


def sklearn_pipelines() -> Iterator[tuple[str, Any]]:
    """(name, pipeline) of scalers, PCA, linear models and networks."""
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Lasso, LinearRegression, Ridge
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    def network(activation: str = "relu") -> Any:
        return MLPRegressor(hidden_layer_sizes=(8, 6), activation=activation, max_iter=20, random_state=0)

    yield "StandardScaler + MLPRegressor", make_pipeline(StandardScaler(), network())
    yield "MinMaxScaler + MLPRegressor", make_pipeline(MinMaxScaler(), network())
    yield "MinMaxScaler(clip) + MLPRegressor", make_pipeline(MinMaxScaler(clip=True), network())
    yield "MaxAbsScaler + MLPRegressor (identity)", make_pipeline(MaxAbsScaler(), network("identity"))
    yield "RobustScaler + MLPRegressor", make_pipeline(RobustScaler(), network())
    yield "StandardScaler + PCA + MLPRegressor", make_pipeline(StandardScaler(), PCA(3), network())
    yield "LinearRegression", LinearRegression()
    yield "StandardScaler + Ridge", make_pipeline(StandardScaler(), Ridge())
    yield "Lasso", Lasso(0.1)
    columns = ColumnTransformer(
        [("a", StandardScaler(), [0, 2]), ("b", MinMaxScaler(), [1]), ("c", "passthrough", [3])]
    )
    yield "ColumnTransformer + MLPRegressor", make_pipeline(columns, network())
    yield "TransformedTargetRegressor", TransformedTargetRegressor(network(), transformer=StandardScaler())


def keras_cases() -> Exported:
    """Keras, through tf2onnx."""
    import keras
    import tensorflow as tf
    import tf2onnx
    from keras import layers

    keras.utils.set_random_seed(0)
    middles: dict[str, list[Any]] = {
        "Dense relu": [layers.Dense(6, activation="relu")],
        "LeakyReLU": [layers.Dense(6), layers.LeakyReLU(negative_slope=0.2)],
        "PReLU": [layers.Dense(6), layers.PReLU()],
        "ReLU(max_value=6)": [layers.Dense(6), layers.ReLU(max_value=6.0)],
        "hard_sigmoid": [layers.Dense(6, activation="hard_sigmoid")],
        "relu6": [layers.Dense(6, activation="relu6")],
        "BatchNormalization": [layers.Dense(6), layers.BatchNormalization(), layers.ReLU()],
        "Normalization": [layers.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0, 2.0, 3.0, 4.0])],
        "Rescaling, Dropout": [layers.Rescaling(0.1), layers.Dropout(0.5), layers.Dense(6, activation="relu")],
        "Reshape, Conv1D, MaxPooling1D": [
            layers.Reshape((4, 1)),
            layers.Conv1D(3, 2, padding="same", activation="relu"),
            layers.MaxPooling1D(2),
            layers.Flatten(),
        ],
        "Conv2D, AveragePooling2D": [
            layers.Reshape((2, 2, 1)),
            layers.Conv2D(2, 2, padding="same", activation="relu"),
            layers.AveragePooling2D(2),
            layers.Flatten(),
        ],
    }
    for name, middle in middles.items():
        model = keras.Sequential([layers.Input((4,)), *middle, layers.Dense(3)])
        yield f"tf2onnx: {name}", _keras_export(tf, tf2onnx, model)
    x = layers.Input((4,))
    h = layers.Dense(6)(x)
    joined = {"Maximum": layers.Maximum()([h, -h]), "Add": layers.Add()([h, layers.ReLU()(h)])}
    joined["Concatenate"] = layers.Concatenate()([h, layers.ReLU()(h)])
    for name, end in joined.items():
        yield f"tf2onnx: {name}", _keras_export(tf, tf2onnx, keras.Model(x, layers.Dense(2)(end)))


def _keras_export(tf: Any, tf2onnx: Any, model: Any) -> Callable[[Path], None]:
    def export(path: Path) -> None:
        signature = [tf.TensorSpec((None, 4), tf.float32, name="x")]
        function = tf.function(lambda x: model(x, training=False), input_signature=signature)
        tf2onnx.convert.from_function(function, input_signature=signature, opset=17, output_path=str(path))

    return export


def outcome(export: Callable[[Path], None]) -> str:
    """Units and the largest difference from onnxruntime, relative to the largest output; or what went wrong."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                export(path)
        except Exception as error:  # whatever another package raises is its answer
            return f"not exported: {' '.join(str(error).split())[:100]}"
        try:
            network = ReluNetwork.load(path)
        except Exception as error:
            return f"NOT READ: {str(error).removeprefix(f'{path}: ')}"
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        entry, *further = session.get_inputs()
        if further:
            return f"not exported: the exporter made inputs of constants ({', '.join(value.name for value in further)})"
        kind = np.float64 if "double" in entry.type else np.float32
        samples = np.random.default_rng(0).normal(size=(SAMPLES, network.input_count)).astype(kind)
        shape = [size if isinstance(size, int) else 1 for size in entry.shape]
        found = np.array([session.run(None, {entry.name: sample.reshape(shape)})[0].ravel() for sample in samples])
        error = np.abs(found - network.forward(samples)).max() / max(1.0, float(np.abs(found).max()))
        return f"{network.relu_count:4d} units, {error:.1e}" + ("" if error < 1e-5 else "  DIFFERS")


def main() -> None:
    """One line per exporter and network."""
    families = {"torch": torch_cases, "sklearn": sklearn_cases, "keras": keras_cases}
    warnings.simplefilter("ignore")
    for family in sys.argv[1:] or families:
        for name, export in families[family]():
            print(f"{name:60} {outcome(export)}", flush=True)


if __name__ == "__main__":
    main()
