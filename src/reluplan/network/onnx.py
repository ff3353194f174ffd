"""ONNX files: the exchange format of networks."""

from reluplan.network.onnx_read import read_onnx
from reluplan.network.onnx_write import write_onnx

__all__ = ["read_onnx", "write_onnx"]
