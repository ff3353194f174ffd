"""Networks from PyTorch modules; torch itself is imported only when a module is converted."""

from reluplan.network.torch.convert import from_torch as from_torch
from reluplan.network.torch.operators import ATEN_OPERATORS as ATEN_OPERATORS
