"""The section [network] of a problem file, and the network that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from reluplan.network.relu_network import ReluNetwork
from reluplan.problem.declarations import Declarations
from reluplan.problem.lags import spelt
from reluplan.problem.toml_file import TomlFile
from reluplan.wording import did_you_mean, shortened, shown

NETWORK_KEYS = {"file", "inputs", "outputs", "predicts"}


@dataclass(frozen=True)
class NetworkSection:
    """What the section [network] of a problem file says; the file itself may not exist yet."""

    file: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    predicts: Literal["next", "delta"]


def read_network_section(file: TomlFile, declared: Declarations) -> NetworkSection | None:
    """The names and the file of [network], without a look at the file; None if there is no such section."""
    table = file.get(file.data, "network", dict, "", {})
    if not table:
        return None
    file.check_keys(table, NETWORK_KEYS, "network")
    predicts = file.get(table, "predicts", str, "network", "next")
    if predicts not in ("next", "delta"):
        raise file.error("network.predicts", f'must be "next" or "delta", got {shown(predicts)}')
    return NetworkSection(
        file=file.path.parent / file.get(table, "file", str, "network"),
        inputs=_name_list(file, table, "inputs", [v.name for v in declared.variables]),
        outputs=_name_list(file, table, "outputs", [v.name for v in declared.own_states]),
        predicts=predicts,
    )


def load_network(file: TomlFile, section: NetworkSection, given: ReluNetwork | None) -> ReluNetwork:
    """The network of the section, or one that is given instead, if it has as many inputs and outputs as are listed."""
    if given is None and not _is_file(section.file):
        raise file.error("network.file", f"no such file: {shortened(str(section.file))}")
    network = given or ReluNetwork.load(section.file)
    _check_width(file, "inputs", network.input_count, len(section.inputs), section.file)
    _check_width(file, "outputs", network.output_count, len(section.outputs), section.file)
    return network


def _name_list(file: TomlFile, table: Mapping[str, Any], key: str, known: list[str]) -> tuple[str, ...]:
    where = f"network.{key}"
    given = file.get(table, key, list, "network")
    names = [spelt(name) if isinstance(name, str) else name for name in given]
    declared = frozenset(known)
    for name in names:
        if not isinstance(name, str) or name not in declared:
            raise file.error(where, f"unknown name {shown(name)} ({did_you_mean(shown(name), known, 'declared')})")
    if len(set(names)) < len(names):
        raise file.error(where, "a name is listed twice")
    return tuple(names)


def _check_width(file: TomlFile, key: str, actual: int, listed: int, network_file: Path) -> None:
    if actual != listed:
        raise file.error(
            f"network.{key}", f"{listed} names are listed, but the network in '{network_file.name}' has {actual} {key}"
        )


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that no system takes is the name of none."""
    try:
        return path.is_file()
    except OSError:
        return False
