"""What a network reads and predicts, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The inputs and outputs of the network, in its order, and which of all names are states."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[str, ...]
