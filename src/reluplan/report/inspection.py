"""An inspection as people read it: a screenful of facts, then what to do."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from reluplan.inspection.guess import Guess, Trial
from reluplan.inspection.lipschitz import Lipschitz
from reluplan.inspection.model_size import ModelSize
from reluplan.inspection.network_size import LayerSize, NetworkSize
from reluplan.inspection.report import Inspection
from reluplan.inspection.undecided import UndecidedSteps, UndecidedUnits
from reluplan.report.console import ResultConsole
from reluplan.report.lines import Line, print_lines
from reluplan.report.settings import DEFAULT_TERMINAL, TerminalSettings


def print_inspection(
    found: Inspection, console: Console | None = None, settings: TerminalSettings = DEFAULT_TERMINAL
) -> None:
    """Facts, layers, advice."""
    console = console or ResultConsole()
    print_lines(_facts(found), console)
    console.print(layer_table(found.dynamics, settings.layers, is_narrow=console.width < settings.narrow))
    print_lines(_what_to_do(found), console)


def _facts(found: Inspection) -> Iterator[Line]:
    yield "file", found.source
    yield from _variables(found)
    yield "network", _network(found)
    yield from _undecided(found)
    yield from _lipschitz(found)
    if found.model is not None and found.memory is not None:
        yield "model", _model(found.model, found.steps is None or found.steps.are_final)
        yield "memory", f"about {_bytes(found.memory)} to plan"


def _variables(found: Inspection) -> Iterator[Line]:
    known = found.variables
    if known is None:
        return
    parts = [_count(known.states, "state"), _count(known.actions, "action")]
    if known.auxiliaries:
        parts.append(_count(known.auxiliaries, "auxiliary", "auxiliaries"))
    if known.past:
        parts.append(f"{_count(known.past, 'value')} of before")
    if known.series:
        parts.append(_count(known.series, "series", "series"))
    whole = f"; {known.discrete} of them whole numbers" if known.discrete else ""
    yield "problem", f"{', '.join(parts)}{whole}; {_count(found.horizon or 0, 'step')}"


def _network(found: Inspection) -> str:
    size = found.dynamics
    if found.network is None:
        units = f"; the transitions take {_count(size.units, 'ReLU')}" if size.units else ""
        return f"none: all transitions are known{units}"
    shape = ":".join(map(str, found.network.hidden)) or "no hidden layer"
    own = found.network
    text = (
        f"{_count(own.inputs, 'input')}, {shape}, {_count(own.outputs, 'output')}; {_count(own.units, 'ReLU')}, "
        f"{own.nonzeros:,} of {own.weights:,} weights are not zero"
    )
    further = size.units - own.units
    return text + (f"; {_count(further, 'more ReLU')} for known transitions" if further else "")


def _undecided(found: Inspection) -> Iterator[Line]:
    if found.box is None:
        yield "undecided", "not known without bounds of the inputs"
    else:
        yield "undecided", _in_box(found.box, _bounds(found))
    if found.steps is not None and found.box is not None:
        yield "", _over_steps(found.steps, found.box.units, found.horizon or 0)


def _bounds(found: Inspection) -> str:
    if found.box is None:
        return "for any inputs"
    return "over the declared bounds" if found.kind == "problem" else "over the given box"


def _in_box(box: UndecidedUnits, where: str) -> str:
    seen = "" if box.seen is None else f"; {box.seen} of them seen on both sides"
    endless = f", {box.without_bounds} of them without finite bounds" if box.without_bounds else ""
    return (
        f"{box.undecided} of {_count(box.units, 'ReLU')} {where}{endless}{seen}; {box.on} always on, "
        f"{box.off} always off"
    )


def _over_steps(steps: UndecidedSteps, units: int, horizon: int) -> str:
    first = ", ".join(map(str, steps.each)) + (", ..." if horizon > len(steps.each) else "")
    bound = "" if steps.are_final else "at most "
    return f"{bound}{first} from the first state on, step by step; {bound}{steps.total:,} of {units * horizon:,} in all"


def _lipschitz(found: Inspection) -> Iterator[Line]:
    yield "lipschitz", f"{_between(found.lipschitz)} {_bounds(found)}, in the variables' own units, maximum norm"
    if found.relative is not None:
        yield "", f"{_between(found.relative)} with each variable measured in widths of its bounds"


def _between(value: Lipschitz) -> str:
    if value.sampled is None:
        return f"at most {value.proven:.4g} (proven)"
    return f"at least {value.sampled:.4g} (sampled), at most {value.proven:.4g} (proven)"


def _model(size: ModelSize, is_final: bool) -> str:
    """is_final: whether no further units will be decided before the model is built."""
    bound = "" if is_final else "at most "
    at_most = "" if bound or size.nonzeros_are_counted else "at most "
    rest = "" if size.is_whole else f"; counted over {_count(size.steps, 'step')}, the others taken to be like the last"
    return (
        f"{bound}{_count(size.columns, 'column')} ({size.integers:,} integer), {_count(size.rows, 'row')}, "
        f"{at_most}{size.nonzeros:,} non-zeros over {_count(size.horizon, 'step')}{rest}"
    )


def _what_to_do(found: Inspection) -> Iterator[Line]:
    if found.guess is not None:
        yield "outlook", _outlook(found.guess)
    elif found.model is not None:
        yield "outlook", "not known: the planner was not tried"
    for note in found.notes:
        yield "note", note
    for place, advice in enumerate(found.advice):
        yield "" if place else "to do", f"- {advice}"
    yield "time", f"{found.seconds:.1f} s"


def _outlook(guess: Guess) -> str:
    """The guess, and what it rests on."""
    trial = guess.trial
    known = guess.measured
    if trial is None:
        return "open: the model is too large for a trial, and nothing as large was measured"
    if known is None:
        word = (
            "the plan was proven to be the best" if guess.outlook == "proven" else "it was proven that no plan exists"
        )
        return f"good: in a trial of {trial.seconds:.1f} s, {word}"
    others = "" if known.gap is None else f"; the others had a gap of {known.gap:.2g} (median)"
    beyond = "; none of them had as many integers" if guess.is_beyond else ""
    return (
        f"{guess.outlook}: a trial of {trial.seconds:.1f} s {_ending(trial)}; of problems that looked like this, "
        f"{known.random_close} of {known.random_runs} random and {known.learned_close} of {known.learned_runs} learned "
        f"ones came within 1 % in ten times that{others}{beyond}"
    )


def _ending(trial: Trial) -> str:
    if trial.reward is None:
        return "found no plan yet"
    return "has no bound yet" if trial.gap is None else f"leaves a gap of {trial.gap:.2g}"


def layer_table(size: NetworkSize, most: int, is_narrow: bool = False) -> Table:
    """One row per layer of the whole dynamics, the output last; is_narrow: without magnitudes."""
    headings = ["units", "weights", "non-zero", "skips", "|w| from", "|w| to", "|b| to"][: 4 if is_narrow else 7]
    table = Table(box=None, pad_edge=False)
    table.add_column("layer", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    hidden = size.layers[:-1]
    for place, layer in enumerate(hidden[: most - 1], start=1):
        table.add_row(str(place), *_layer(layer)[: len(headings)])
    if len(hidden) >= most:
        table.add_row(f"{len(hidden) - most + 1} more", *[""] * len(headings))
    table.add_row("output", *_layer(size.layers[-1])[: len(headings)])
    return table


def _layer(layer: LayerSize) -> list[str]:
    counts = [f"{number:,}" for number in (layer.units, layer.weights, layer.nonzeros, layer.skips)]
    sizes = ["-" if size is None else f"{size:.3g}" for size in (layer.smallest_weight, layer.largest_weight)]
    return [*counts, *sizes, f"{layer.largest_bias:.3g}"]


def _count(number: int, word: str, plural: str | None = None) -> str:
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def _bytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
