"""What to do about what an inspection found."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reluplan.inspection.report import Inspection

LARGE_WEIGHT = 1e4
"""Weights of this size make solvers' tolerances matter: scales of the variables that differ that much."""
MANY = 0.3
"""A share of units that is worth a word."""


def advise(found: Inspection, input_names: Sequence[str] = (), hardly_fits: bool = False) -> Inspection:
    """The inspection with advice. input_names: of the network's inputs, empty where it may well
    leave one unread; hardly_fits: whether the memory is short."""
    advice = [*_bounds(found), *_network(found, input_names), *_model(found, hardly_fits)]
    if found.guess is not None and not advice and not found.is_proven_infeasible:
        advice = [f"nothing: reluplan plan {shlex.quote(found.source)} --out run"]
    return replace(found, advice=tuple(advice))


def _bounds(found: Inspection) -> Iterator[str]:
    unbounded = found.variables.unbounded if found.variables else ()
    names = ", ".join(repr(name) for name in unbounded)
    if unbounded and found.box is not None and found.box.without_bounds:
        yield f"give bounds = [lower, upper] to {names}: without, {found.box.without_bounds} ReLUs can take any value"
    elif unbounded and found.steps is None:
        yield f"give bounds = [lower, upper] to {names}"
    if found.box is not None and found.box.seen is not None:
        loose = found.box.undecided - found.box.seen
        if loose > MANY * found.box.units:
            yield (
                f"narrow the declared bounds where you can: {loose} of the undecided ReLUs were never seen to switch "
                "in samples, so tighter boxes may decide them"
            )


def _network(found: Inspection, input_names: Sequence[str]) -> Iterator[str]:
    """About the network as it was learned."""
    unread = [input_names[place] for place in found.dynamics.unread_inputs if place < len(input_names)]
    unread = [name for name in unread if name]
    if unread:
        yield f"{', '.join(map(repr, unread))} changes no state: leave it out, or check the data"
    largest = max((layer.largest_weight or 0.0 for layer in found.dynamics.layers), default=0.0)
    if largest >= LARGE_WEIGHT:
        yield f"scale the variables: the largest weight is {largest:.2g}, which strains the solver's tolerances"
    if found.network is None or found.box is None:
        return
    idle = found.box.on + found.box.off
    if idle and idle >= MANY * found.box.units:
        yield (
            f"fewer units (reluplan train without --hidden finds how many are needed): {idle} of {found.box.units} "
            "ReLUs never switch within the bounds"
        )


def _smaller(found: Inspection) -> Iterator[str]:
    """Ways to fewer undecided units, cheapest first."""
    if found.network is None or not found.network.units or found.steps is None or not found.steps.total:
        return
    half = " ".join(str(max(1, units // 2)) for units in found.network.hidden)
    yield (
        f"a smaller network: reluplan train DATA --problem {shlex.quote(found.source)} without --hidden looks for the "
        f"smallest one that is as good; or --hidden {half}, and compare the errors"
    )
    yield "units that do not switch within the bounds: --stability 0.001 (0.01 fixes more and costs accuracy)"
    if found.network.sparsity < MANY:
        yield "fewer weights: --prune 0.3, or --sparsity 0.001, which may leave no ReLU where the system is linear"


def _model(found: Inspection, hardly_fits: bool) -> Iterator[str]:
    if found.guess is not None and found.guess.outlook == "open":
        yield from _smaller(found)
        yield "a shorter horizon: --horizon N, or reluplan control --lookahead N, which plans anew at every step"
    if hardly_fits and found.memory is not None:
        size = f"{found.memory / 1e9:.1f} GB"
        yield f"a smaller network or a shorter horizon: planning takes about {size}, which hardly fits into the memory"
