"""Problem files and networks of the systems, a folder each."""

from __future__ import annotations

from pathlib import Path

from .registry import SYSTEMS

MADE = Path(__file__).parent / "made"
"""Where they are made if no other folder is given."""


def prepared(name: str, folder: Path = MADE, anew: bool = False) -> Path:
    """The problem file of a system; it is made if it is missing or wanted anew."""
    path = folder / name / "problem.toml"
    return SYSTEMS[name].make(path.parent) if anew or not path.exists() else path
