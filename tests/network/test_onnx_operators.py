"""Every ONNX operator with random shapes and attributes, against onnxruntime and ONNX's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from onnx_cases import CASES, Case
from reluplan.network.onnx import read_onnx

SEEDS = 8
SAMPLES = 5


def runtime(model: onnx.ModelProto) -> Any:
    """A session, or None where onnxruntime has no kernel for that operator, type and version."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "Type Error" in str(error) or "INVALID_GRAPH" in str(error):
            return None
        raise


def expected(case: Case, samples: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The outputs and how exact they are: onnxruntime in doubles, else in singles."""
    for single in (False, True):
        session = runtime(case.model(single)) if case.opset > 6 else None
        if session is not None:
            outputs = run(session, case, samples.astype(np.float32 if single else np.float64))
            return outputs, 1e-5 if single or case.is_single or is_single(session) else 1e-9
    return reference(case, samples), 1e-9


def run(session: Any, case: Case, samples: NDArray[Any]) -> NDArray[np.float64]:
    outputs = [session.run(["y"], {"x": sample.reshape(case.shape)})[0].ravel() for sample in samples]
    return np.array(outputs, dtype=np.float64)


def is_single(session: Any) -> bool:
    return str(session.get_outputs()[0].type) == "tensor(float)"


def reference(case: Case, samples: NDArray[np.float64]) -> NDArray[np.float64]:
    if case.function is not None:
        return np.array([np.ravel(case.function(sample.reshape(case.shape))) for sample in samples])
    evaluator: Any = ReferenceEvaluator(case.model())
    return np.array([np.ravel(evaluator.run(["y"], {"x": sample.reshape(case.shape)})[0]) for sample in samples])


@pytest.mark.parametrize("name", CASES)
def test_operator_agrees_with_onnxruntime(name: str, tmp_path: Path) -> None:
    for seed in range(SEEDS):
        case = CASES[name](np.random.default_rng(seed))
        path = tmp_path / f"{seed}.onnx"
        path.write_bytes(case.model().SerializeToString())
        network = read_onnx(path)
        samples = np.random.default_rng(seed).normal(scale=2.0, size=(SAMPLES, int(np.prod(case.shape)))).round(2)
        outputs, exactness = expected(case, samples)
        scale = max(1.0, float(np.abs(outputs).max(initial=0.0)))
        found = network.forward(samples)
        np.testing.assert_allclose(found, outputs, rtol=exactness, atol=exactness * scale, err_msg=f"seed {seed}")
