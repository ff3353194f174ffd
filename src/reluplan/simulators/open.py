"""Opening a simulator by what the user calls it.

RDDL, gymnasium and Python functions are built in. Another kind is added by a call before a simulator is opened,

    SIMULATORS.register("fmu", open_fmu)          # opens `fmu:anything` and `file.fmu`

or by an installed package with an entry point of that name in the group `reluplan.simulators`. Several processes that
collect data know the installed ones only: what was added by a call is unknown to the processes that they start.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from reluplan.registry import Registry
from reluplan.simulators.base import Simulator

Opener = Callable[[str, str | None], Simulator]
"""Opens the simulator that a text names, without the prefix of its kind; the instance is None if none was named."""

SIMULATORS: Registry[Opener] = Registry("kind of simulator", "reluplan.simulators")
"""How simulators are opened, by the prefix or the ending of what the user calls them."""

SIMULATORS.register("rddl", "reluplan.simulators.rddl:open_rddl")
SIMULATORS.register("gym", "reluplan.simulators.gymnasium_env:open_gymnasium")
SIMULATORS.register("python", "reluplan.simulators.function:open_function")


def open_simulator(spec: str, instance: str | None = None) -> Simulator:
    """The simulator that a text names.

    `domain.rddl` with an instance file (or `domain.rddl,instance.rddl`), or a name of rddlrepository with an instance;
    `gym:EnvId` for gymnasium; `python:file.py:function` or `package.module:function` for a Python function; and what
    was registered in `SIMULATORS`.
    """
    prefix, colon, rest = spec.partition(":")
    if colon and prefix in SIMULATORS:
        return SIMULATORS[prefix](rest, instance)
    return SIMULATORS[_kind(spec)](spec, instance)


def _kind(spec: str) -> str:
    """The kind that a text without a prefix stands for: by its ending, else a function or a name of rddlrepository."""
    ending = PurePath(spec).suffix.removeprefix(".")
    if ending in SIMULATORS:
        return ending
    return "python" if ":" in spec or ending == "py" else "rddl"
