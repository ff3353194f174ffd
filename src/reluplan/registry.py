"""Things that can be added without a fork: solvers, proofs, search heuristics, data formats, simulators.

Each kind has one `Registry`. A name is added by a call,

    SOLVERS.register("mine", MySolver)

or by an installed package that declares an entry point in the kind's group, found when a name is first looked up:

    [project.entry-points."reluplan.solvers"]
    mine = "my_package:MySolver"
"""

from __future__ import annotations

from importlib import import_module, metadata
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from reluplan.errors import InputError

T = TypeVar("T")


def imported(location: str) -> Any:
    """What stands at "module:attribute"."""
    module, _, attribute = location.partition(":")
    return attrgetter(attribute)(import_module(module))


def _leads_to(location: str, item: object) -> bool:
    """Whether a process that runs another script finds this very item there."""
    if location.startswith("__main__:"):
        return False
    try:
        return imported(location) is item
    except (ImportError, AttributeError, ValueError):
        return False


class Registry(Generic[T]):
    """Names and what they stand for; what is named as "module:attribute" is imported when it is first asked for.

    >>> words: Registry[type] = Registry("number", "example.numbers")
    >>> words.register("whole", int)
    >>> words["whole"], words.names()
    (<class 'int'>, ('whole',))
    """

    def __init__(self, kind: str, group: str) -> None:
        self._kind = kind
        self._group = group
        self._found: dict[str, T | str] = {}
        self._places: dict[str, str] = {}
        self._searched = False

    def register(self, name: str, item: T | str, replace: bool = False) -> None:
        """Add an item under a name; item: the thing itself, or "module:attribute", where it is."""
        if name in self._found and not replace:
            raise InputError(f"there is a {self._kind} called '{name}' already")
        self._found[name] = item
        self._places.pop(name, None)

    def remove(self, name: str) -> None:
        """Forget a name, if it is there."""
        self._found.pop(name, None)

    def names(self) -> tuple[str, ...]:
        """Every name, in the order in which they were added."""
        self._search()
        return tuple(self._found)

    def __contains__(self, name: str) -> bool:
        self._search()
        return name in self._found

    def __getitem__(self, name: str) -> T:
        self._search()
        if name not in self._found:
            raise InputError(f"unknown {self._kind} '{name}'; choose one of {', '.join(self.names())}")
        item = self._found[name]
        if isinstance(item, str):
            self._places[name] = item
            item = cast(T, imported(item))
            self._found[name] = item
        return item

    def location(self, name: str) -> str:
        """The "module:attribute" under which another process finds the item; InputError if there is none."""
        item = self[name]
        found = self._places.get(name, f"{getattr(item, '__module__', '')}:{getattr(item, '__qualname__', '')}")
        if not _leads_to(found, item):
            raise InputError(
                f"the {self._kind} '{name}' cannot be found by other processes; define it at the top of a module that "
                f"can be imported, and register it as 'module:attribute'"
            )
        return found

    def _search(self) -> None:
        """Look for entry points, once; what is registered by a call comes before what is installed."""
        if self._searched:
            return
        self._searched = True
        for point in metadata.entry_points(group=self._group):
            self._found.setdefault(point.name, point.value)
