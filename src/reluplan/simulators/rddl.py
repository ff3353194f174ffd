"""RDDL domains, simulated by pyRDDLGym."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reluplan.data.names import bracket_name
from reluplan.errors import InputError, MissingExtraError
from reluplan.wording import did_you_mean

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Fluents:
    """Some fluents of a model as one vector: each is a tensor over its objects, and they stand in a row.

    shapes: of each tensor; ranges: real, int, bool, or an object type, whose objects are numbered from 0.
    """

    model: Any
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    ranges: tuple[str, ...]

    @classmethod
    def of(cls, model: Any, names: Sequence[str], values: dict[str, Any]) -> _Fluents:
        shapes = tuple(np.shape(values[name]) for name in names)
        return cls(model, tuple(names), shapes, tuple(model.variable_ranges[name] for name in names))

    @cached_property
    def sizes(self) -> list[int]:
        return [int(np.prod(shape, dtype=int)) for shape in self.shapes]

    @cached_property
    def slices(self) -> list[slice]:
        """Where each tensor stands in the vector."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(start, end) for start, end in pairwise(ends)]

    def ground_names(self) -> tuple[str, ...]:
        """One name per entry, in the order of the tensors."""
        return tuple(bracket_name(ground) for name in self.names for ground in self.model.variable_groundings[name])

    def vector(self, values: dict[str, Any]) -> Array:
        """The tensors as one vector."""
        return np.concatenate([np.ravel(values[name]) for name in self.names]).astype(np.float64)

    def tensors(self, vector: Array) -> dict[str, Any]:
        """The vector as tensors; whole numbers are rounded, truth values are those above 1/2."""
        return {
            name: _typed(vector[place].reshape(shape), kind)
            for name, place, shape, kind in zip(self.names, self.slices, self.shapes, self.ranges, strict=True)
        }

    def is_discrete(self) -> Mask:
        return np.repeat([kind != "real" for kind in self.ranges], self.sizes)

    def box(self, bounds: dict[str, tuple[Any, Any]]) -> tuple[Array, Array]:
        """Lower and upper bounds of every entry; truth values and objects have those of their numbering."""
        sides = []
        for name, shape, kind in zip(self.names, self.shapes, self.ranges, strict=True):
            lower, upper = (np.broadcast_to(side, shape).ravel() for side in bounds[name])
            if kind not in ("real", "int"):
                last = 1 if kind == "bool" else len(self.model.type_to_objects[kind]) - 1
                lower, upper = np.maximum(lower, 0.0), np.minimum(upper, last)
            sides.append((lower, upper))
        return np.concatenate([low for low, _ in sides]), np.concatenate([high for _, high in sides])


def _typed(values: Array, kind: str) -> Any:
    if kind == "real":
        return values[()]
    return (values > 0.5)[()] if kind == "bool" else np.round(values).astype(np.int64)[()]


class RddlSimulator:
    """A domain and an instance; states and actions are named as in problem files, `rlevel[t1]` for rlevel(t1).

    The state is the true one, also where the domain hides it behind observations. The instance's horizon is told, not
    enforced: longer plans can be run.
    """

    can_set_state = True

    def __init__(self, domain: Path, instance: Path | None) -> None:
        self._domain = domain
        with _quiet():
            self._sampler, bounds = _load(domain, instance)
        self._model = model = self._sampler.rddl
        self._states = _Fluents.of(model, list(model.state_fluents), self._sampler.init_values)
        self._actions = _Fluents.of(model, list(model.action_fluents), self._sampler.init_values)
        self.state_names = self._states.ground_names()
        self.action_names = self._actions.ground_names()
        self.state_lower, self.state_upper = self._states.box(bounds)
        self.action_lower, self.action_upper = self._actions.box(bounds)
        self.state_is_discrete = self._states.is_discrete()
        self.action_is_discrete = self._actions.is_discrete()
        self.default_action = self._actions.vector(self._sampler.noop_actions)
        self.horizon: int | None = int(model.horizon)

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self._sampler.seed(seed)
        self._sampler.reset()
        return self._states.vector(self._sampler.subs)

    def allows(self, action: Array) -> bool:
        tensors = self._actions.tensors(action)
        if self._changed(tensors) > self._model.max_allowed_actions:
            return False
        with _errors(self._domain):
            return bool(self._sampler.check_action_preconditions(tensors, silent=True))

    def refusal(self, action: Array) -> str | None:
        """The first broken action precondition, or the limit on actions that are not the default."""
        if self.allows(action):
            return None
        tensors = self._actions.tensors(action)
        allowed = self._model.max_allowed_actions
        changed = self._changed(tensors)
        if changed > allowed:
            return f"{changed} actions differ from their default, at most {allowed} may (max-nondef-actions)"
        return self._broken_precondition(tensors)

    def _changed(self, actions: dict[str, Any]) -> int:
        if self._model.max_allowed_actions >= len(self.default_action):
            return 0  # any number may change, so they need not be counted
        return int(np.count_nonzero(self._actions.vector(actions) != self.default_action))

    def _broken_precondition(self, actions: dict[str, Any]) -> str:
        try:
            self._sampler.check_action_preconditions(actions, silent=False)
        except Exception as error:
            condition = str(error).partition(">>")[2]  # the text before it lists all actions as arrays
            return f"the action precondition '{' '.join(condition.split())}' does not hold"
        return "an action precondition does not hold"

    def step(self, action: Array) -> tuple[Array, float, bool]:
        refused = self.refusal(action)
        if refused is not None:
            raise InputError(f"{self._domain}: the action {self._describe(action)} is refused: {refused}")
        with _errors(self._domain), np.errstate(all="ignore"):
            _, reward, terminal = self._sampler.step(self._actions.tensors(action))
            over = terminal or not self._sampler.check_state_invariants(silent=True)
        return self._states.vector(self._sampler.subs), float(reward), bool(over)

    def _describe(self, action: Array) -> str:
        return ", ".join(f"{name} = {value:g}" for name, value in zip(self.action_names, action, strict=True))

    def set_state(self, state: Array) -> None:
        """The state fluents are all that a step reads of the past; everything else is computed within the step."""
        self._sampler.subs.update(self._states.tensors(np.asarray(state, dtype=np.float64)))

    def close(self) -> None:
        """Nothing is held."""


def open_rddl(domain: str, instance: str | None = None) -> RddlSimulator:
    """A domain file with its instance file, or a name and an instance of rddlrepository."""
    if "," in domain and instance is None:
        domain, instance = domain.split(",", 1)
    if domain.endswith(".rddl"):
        return RddlSimulator(_file(Path(domain), "domain"), _instance_file(Path(domain), instance))
    return RddlSimulator(*_from_repository(domain, instance or "0"))


def _file(path: Path, what: str) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: no such RDDL {what} file")
    return path


def _instance_file(domain: Path, instance: str | None) -> Path | None:
    """The file of an instance: a path, or what its name beside the domain ends in: 3 for instance3 or instance_3."""
    if instance is None:
        if "instance" in domain.read_text(encoding="utf-8", errors="replace"):
            return None  # domain and instance in one file
        others = sorted(path.name for path in domain.parent.glob("*.rddl") if path != domain)
        beside = f"; beside it: {', '.join(others)}" if others else ""
        raise InputError(f"{domain}: which instance? Name its file, as in {domain.name},instance.rddl{beside}")
    names = (instance, f"{instance}.rddl", f"instance{instance}.rddl", f"instance_{instance}.rddl")
    candidates = [Path(instance), *(domain.parent / name for name in names)]
    return next((path for path in candidates if path.is_file()), None) or _file(Path(instance), "instance")


def _from_repository(name: str, instance: str) -> tuple[Path, Path]:
    try:
        with _quiet():
            from rddlrepository import RDDLRepoManager
    except ImportError:
        raise MissingExtraError("rddlrepository", "rddl", f"The domain '{name}'") from None
    manager = RDDLRepoManager()
    known = manager.list_problems()
    if name not in known:
        hint = did_you_mean(name, known, "such as")
        raise InputError(f"simulator '{name}': neither an .rddl file nor a domain of rddlrepository ({hint})")
    problem = manager.get_problem(name)
    if instance not in problem.list_instances():
        raise InputError(
            f"simulator '{name}': has no instance '{instance}'; it has {', '.join(problem.list_instances())}"
        )
    return Path(problem.get_domain()), Path(problem.get_instance(instance))


def _load(domain: Path, instance: Path | None) -> tuple[Any, dict[str, tuple[Any, Any]]]:
    """pyRDDLGym's simulator and the bounds it finds in preconditions and invariants."""
    try:
        from pyRDDLGym.core.compiler.model import RDDLLiftedModel
        from pyRDDLGym.core.constraints import RDDLConstraints
        from pyRDDLGym.core.parser.parser import RDDLParser
        from pyRDDLGym.core.parser.reader import RDDLReader
        from pyRDDLGym.core.simulator import RDDLSimulator
    except ImportError:
        raise MissingExtraError("pyRDDLGym", "rddl", "An RDDL simulator") from None
    with _errors(domain):
        parser = RDDLParser()
        parser.build(debug=False, write_tables=False)  # tables would be written into the installed package
        model = RDDLLiftedModel(parser.parse(RDDLReader(domain, instance).rddltxt))
        sampler = RDDLSimulator(model, keep_tensors=True, objects_as_strings=False)
        return sampler, RDDLConstraints(sampler, vectorized=True).bounds


@contextlib.contextmanager
def _errors(domain: Path) -> Iterator[None]:
    """pyRDDLGym's errors as ours, in one line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{domain}: pyRDDLGym cannot use it: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    """The first and the last line of an error, and the one that it points at; without terminal codes."""
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
    pointed = [line for line in lines if line.startswith(">>")]
    kept = list(dict.fromkeys([*lines[:1], *pointed, *lines[-1:]]))
    kind = "" if type(error).__name__.startswith("RDDL") else f"{type(error).__name__}: "
    return kind + " ".join(" ".join(kept).split())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """pyRDDLGym and what it imports print notes about themselves, which mean nothing to the user."""
    nowhere = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        yield
