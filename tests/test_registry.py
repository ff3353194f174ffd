"""Names that are added from outside: by a call, by an entry point, imported when they are first needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reluplan.errors import InputError
from reluplan.registry import Registry


def test_names_are_kept_in_order_and_imported_when_asked_for() -> None:
    registry: Registry[object] = Registry("thing", "reluplan.none")
    registry.register("late", "collections:OrderedDict")
    registry.register("direct", int)
    assert registry.names() == ("late", "direct")
    assert registry["late"] is __import__("collections").OrderedDict
    assert "direct" in registry
    assert "other" not in registry


def test_unknown_and_repeated_names_are_refused() -> None:
    registry: Registry[object] = Registry("thing", "reluplan.none")
    registry.register("one", 1)
    with pytest.raises(InputError, match="unknown thing 'two'; choose one of one"):
        registry["two"]
    with pytest.raises(InputError, match="already"):
        registry.register("one", 2)
    registry.register("one", 2, replace=True)
    assert registry["one"] == 2


def test_an_installed_package_adds_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_a_test.py").write_text("VALUE = 'found'\n")
    info = tmp_path / "plugin_of_a_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-a-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[reluplan.test_things]\noutside = plugin_of_a_test:VALUE\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    registry: Registry[str] = Registry("thing", "reluplan.test_things")
    registry.register("inside", "a")
    assert registry.names() == ("inside", "outside")
    assert registry["outside"] == "found"
