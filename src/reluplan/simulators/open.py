"""Opening a simulator by what the user calls it."""

from __future__ import annotations

from reluplan.errors import InputError
from reluplan.simulators.base import Simulator


def open_simulator(spec: str, instance: str | None = None) -> Simulator:
    """The simulator that a text names.

    `domain.rddl` with an instance file (or `domain.rddl,instance.rddl`), or a name of rddlrepository with an instance;
    `gym:EnvId` for gymnasium; `python:file.py:function` or `package.module:function` for a Python function.
    """
    if instance is not None and ":" in spec and not spec.endswith(".rddl"):
        raise InputError(f"simulator '{spec}': only RDDL domains have instances; leave out '{instance}'")
    if spec.startswith("gym:"):
        from reluplan.simulators.gymnasium_env import open_gymnasium

        return open_gymnasium(spec.removeprefix("gym:"))
    if (":" in spec and not spec.endswith(".rddl")) or spec.endswith(".py"):
        from reluplan.simulators.function import open_function

        return open_function(spec.removeprefix("python:"))
    from reluplan.simulators.rddl import open_rddl

    return open_rddl(spec, instance)
