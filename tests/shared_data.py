"""Where tests find files: of this repository, and of collections that may lie beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
EXAMPLES = ROOT / "examples"
REGRESSIONS = TESTS / "regressions"
SHARED = ROOT.parent / "shared"


def bugs_folder(name: str) -> Path:
    """A folder of the collection of problems that were once answered wrongly."""
    folder = SHARED / "bugs" / name
    if not folder.is_dir():
        pytest.skip(f"the collection of problems with wrong answers is not at {folder}")
    return folder


def published_folder() -> Path:
    """The folder of the published HD-MILP-Plan instances."""
    folder = Path(os.environ.get("RELUPLAN_HD_MILP_PLAN", SHARED / "hd-milp-plan"))
    if not folder.is_dir():
        pytest.skip(
            f"the published HD-MILP-Plan instances are not at {folder}; set RELUPLAN_HD_MILP_PLAN to their folder"
        )
    return folder
