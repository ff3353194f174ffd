"""What the documentation shows, runs."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

from shared_data import ROOT


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_python_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("optimal\n")


def modules_with_examples() -> list[str]:
    """The modules whose docstrings show how they are used."""
    source = ROOT / "src"
    files = [path for path in sorted(source.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(source).with_suffix("").parts) for path in files]


@pytest.mark.parametrize("module", modules_with_examples())
def test_the_examples_of_docstrings_run(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0
