"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def published_instances() -> Path:
    """The folder of the published HD-MILP-Plan instances, which lies beside the repository where it is available."""
    beside = Path(__file__).parents[2] / "shared" / "hd-milp-plan"
    folder = Path(os.environ.get("RELUPLAN_HD_MILP_PLAN", beside))
    if not folder.is_dir():
        pytest.skip(
            f"the published HD-MILP-Plan instances are not at {folder}; set RELUPLAN_HD_MILP_PLAN to their folder"
        )
    return folder
