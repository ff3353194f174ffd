"""ONNX files: the exchange format of networks."""

from reluplan.importers.onnx_read import read_onnx
from reluplan.importers.onnx_write import write_onnx

__all__ = ["read_onnx", "write_onnx"]
