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

from command_line import Command, Outcome, exit_code, write
from shared_data import published_folder
from systems import HARD, HARD_NETWORK, PLANT, PLANT_NETWORK, TANK

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
    return published_folder()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line inside this process."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        return Outcome(exit_code(monkeypatch, *arguments), *capsys.readouterr())

    return run


@pytest.fixture
def tank(tmp_path: Path) -> Path:
    """A problem file with a known optimum."""
    return write(tmp_path, TANK)


@pytest.fixture
def plant(tmp_path: Path) -> Path:
    """A problem file with a small network beside it."""
    PLANT_NETWORK.save(tmp_path / "network.onnx")
    return write(tmp_path, PLANT, "plant.toml")


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """A problem file that keeps every method busy for longer than a test."""
    HARD_NETWORK.save(tmp_path / "hard.onnx")
    return write(tmp_path, HARD, "hard.toml")
