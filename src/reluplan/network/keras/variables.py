"""What layers read: their own numbers, whatever the backend of Keras, and the tensors that they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reluplan.network.affine import Affine
from reluplan.network.relu_network import Array


def numbers(variable: Any) -> Array:
    """The values of a variable or tensor in double precision."""
    import keras

    return np.asarray(keras.ops.convert_to_numpy(variable), dtype=np.float64)


def first(arguments: Sequence[Any]) -> Affine:
    """The first argument, which must be a tensor."""
    if not arguments or not isinstance(arguments[0], Affine):
        raise ValueError("its first argument is not a tensor")
    return arguments[0]
