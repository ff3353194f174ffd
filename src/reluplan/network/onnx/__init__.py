"""ONNX files: the exchange format of networks."""

from reluplan.network.onnx.call import Call
from reluplan.network.onnx.operators import OPERATORS
from reluplan.network.onnx.read import read_onnx
from reluplan.network.onnx.write import write_onnx

__all__ = ["OPERATORS", "Call", "read_onnx", "write_onnx"]
