"""Fixtures that several test files share, and what property tests draw.

They draw the same examples in every run (`make test`), so that a failure is a change and not chance; those that were
once found to fail stand beside their tests as @example. `make fuzz-tests` (HYPOTHESIS_PROFILE=random) draws new ones
and keeps what fails in .hypothesis until it is repaired. A busy machine is no failure: there is no deadline.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def hearing_ctrl_c() -> Iterator[None]:
    """Tests that press Ctrl-C must hear it, and so must the programs that they start; yet nohup, and the background of
    a script, start a program with SIGINT ignored, which it passes on to its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, terminate)


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
