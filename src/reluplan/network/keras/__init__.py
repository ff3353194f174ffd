"""Networks from Keras models; Keras itself is imported only when a model is converted."""

from reluplan.network.keras.convert import from_keras as from_keras
from reluplan.network.keras.layers import KERAS_LAYERS as KERAS_LAYERS
