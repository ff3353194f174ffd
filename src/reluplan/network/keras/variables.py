"""Numbers of Keras, whatever its backend."""

from __future__ import annotations

from typing import Any

import numpy as np

from reluplan.network.relu_network import Array


def numbers(variable: Any) -> Array:
    """The values of a variable or tensor in double precision."""
    import keras

    return np.asarray(keras.ops.convert_to_numpy(variable), dtype=np.float64)
