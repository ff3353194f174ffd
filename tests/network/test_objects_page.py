"""The examples of docs/network-objects.md run, each library's in one namespace."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from reluplan.network.torch import ATEN_OPERATORS
from shared_data import ROOT

PAGE = (ROOT / "docs" / "network-objects.md").read_text(encoding="utf-8")
SECTIONS = {"PyTorch": "torch", "scikit-learn": "sklearn", "Keras": "keras"}


@pytest.mark.parametrize(("title", "library"), SECTIONS.items(), ids=SECTIONS.keys())
def test_examples_run(title: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"the package '{library}' is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", os.environ.get("KERAS_BACKEND", "torch"))
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert blocks
    namespace: dict[str, object] = {}
    try:
        for block in blocks:
            exec(compile(block, "network-objects.md", "exec"), namespace)
    finally:
        ATEN_OPERATORS.remove("mine.relu_twice")
