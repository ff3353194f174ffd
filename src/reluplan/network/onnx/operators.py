"""Every ONNX operator that can be read, as a function of symbolic tensors.

An operator raises ValueError with the reason alone; the reader adds the file and the node.
"""

from __future__ import annotations

from reluplan.network.affine import NotPiecewiseLinearError
from reluplan.network.onnx import arithmetic, arrangement, piecewise, scikit, sliding
from reluplan.network.onnx.call import Call, Operator, Result, on_constants
from reluplan.network.onnx.refused import LOOPING, REASONS
from reluplan.registry import Registry

OPERATORS: Registry[Operator] = Registry("ONNX operator", "reluplan.onnx_operators")
"""By their names in ONNX, with the domain in front unless it is ONNX's own: "Relu", "ai.onnx.ml.Scaler". A further one
is registered by its name. A piecewise-linear one makes units with `call.builder`."""


def _refusing(name: str, reason: str) -> Operator:
    """An operator that is computed of constants, if it can be, and refused of anything else."""
    function = arithmetic.CONSTANT_FUNCTIONS.get(name)
    folded = None if function is None else on_constants(function)

    def evaluated(call: Call) -> Result:
        if folded is None or not call.is_constant:
            raise ValueError(reason) if reason is LOOPING else NotPiecewiseLinearError(reason)
        return folded(call)

    return evaluated


def _built_in() -> dict[str, Operator]:
    """Those that are refused first, so that an operator that takes constants is its own."""
    tables = (arithmetic.OPERATORS, arrangement.OPERATORS, piecewise.OPERATORS, sliding.OPERATORS)
    found = {name: _refusing(name, reason) for name, reason in REASONS.items()}
    for table in tables:
        found.update(table)
    found.update((f"ai.onnx.ml.{name}", operator) for name, operator in scikit.OPERATORS.items())
    return dict(sorted(found.items()))


for _name, _operator in _built_in().items():
    OPERATORS.register(_name, _operator)
