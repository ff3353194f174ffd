"""ReLU networks: the class, ONNX in and out, torch modules in."""
