"""Problems from the text files of HD-MILP-Plan (Say et al., IJCAI 2017).

How the files are understood: `constraints` hold at t = 1..H, `goal` at H+1, `initial` at t = 1; the auxiliaries of
step t belong to the state of step t; a known transition is an equation for a next state. Three things are rewritten:

- Auxiliaries that write |e| or max(0, e) as a linear reward become abs and max (see `hd_milp_plan_patterns`).
- Rows of one variable become bounds where that is the same. The bounds of a state also hold at H+1, so a row on a state
  becomes a bound only if the goal implies it there; the others stay constraints.
- The published planner applies rows that read no action at H+1 too. Here that is done for rows on auxiliaries alone,
  which would otherwise be loose at the final state; whoever wants another row there has the goal file to say so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from reluplan.errors import InputError
from reluplan.problem.hd_milp_plan.bounds import Box, initial_boxes, is_implied, variable_boxes
from reluplan.problem.hd_milp_plan.files import Instance, Role, Row, read_instance
from reluplan.problem.hd_milp_plan.network import LearnedTransition, learned_transition
from reluplan.problem.hd_milp_plan.penalties import Penalty, recognise_penalties
from reluplan.problem.problem import Variable
from reluplan.problem.writer import NetworkEntry, ProblemText, format_row, format_sum, name_in_expression

HORIZONS = {"navigation": 100, "hvac": 100, "reservoir": 500}
OTHER_HORIZON = 10


def convert(
    folder: Path,
    name: str,
    out: Path,
    action_bounds: tuple[float, float] | None = None,
    examples: Sequence[str] = (),
    horizon: int | None = None,
) -> Path:
    """Write `out/problem.toml` and `out/network.onnx` for an instance; returns the path of the problem.

    folder: holds `dnn/` and `translation/`. action_bounds: (lower, upper), narrows the bounds of every action.
    examples: kinds of files (goal, pvariables, transitions) to be read from their `example_` variants.
    horizon: by default that of the published experiments, and 10 for other domains.

    >>> convert(Path("hd-milp-plan"), "hvac_3", Path("hvac"), action_bounds=(0, 5))            # doctest: +SKIP
    PosixPath('hvac/problem.toml')
    """
    instance = read_instance(folder, name, examples)
    transitions = known_transitions(instance)
    learned = learned_transition(instance, transitions)
    _check_cover(instance, transitions, learned)
    text = translate(instance, transitions, learned, _horizon(name, horizon), action_bounds)
    _make_folder(out)
    if learned is not None:
        learned.network.save(out / "network.onnx")
    text.write(out / "problem.toml")
    return out / "problem.toml"


def known_transitions(instance: Instance) -> dict[str, Row]:
    """State to the row of its known transition, divided by the coefficient of the next state."""
    known: dict[str, Row] = {}
    for row in instance.transitions:
        primed = [name for name in row.terms if name.endswith("'")]
        if row.sign != "==":
            raise row.line.error(f"a known transition is an equation: write == in place of {row.sign}")
        if len(primed) != 1:
            raise row.line.error(f"a known transition has one next state (x'), found {', '.join(primed) or 'none'}")
        state = primed[0].removesuffix("'")
        divisor = row.terms[primed[0]]
        if state in known:
            raise row.line.error(f"'{state}' has a known transition already, on line {known[state].line.number}")
        terms = {name: coefficient / divisor for name, coefficient in row.terms.items()}
        known[state] = Row(terms, "==", row.constant / divisor, row.line)
    return known


def translate(
    instance: Instance,
    transitions: dict[str, Row],
    learned: LearnedTransition | None,
    horizon: int,
    action_bounds: tuple[float, float] | None = None,
) -> ProblemText:
    """The content of the problem file."""
    penalties = recognise_penalties(instance)
    replaced = {name for penalty in penalties for name in penalty.auxiliaries}
    constraints = _distinct(row for row in instance.constraints if not row.reads(replaced))
    goal = _distinct([*(row for row in instance.goal if not row.reads(replaced)), *_final_rows(instance, constraints)])
    boxes = variable_boxes(instance, constraints, goal, action_bounds)
    starts = initial_boxes(instance)
    initial = [row for row in instance.initial if not _is_about_one_state(instance, row)]
    constraints = [row for row in constraints if not is_implied(row, boxes)] + _exact_steps(instance, transitions)
    goal = [row for row in goal if not is_implied(row, boxes)]
    return ProblemText(
        name=instance.name,
        horizon=horizon,
        reward=_reward(instance, penalties, replaced),
        states=_variables(instance, "state", boxes, replaced),
        actions=_variables(instance, "action", boxes, replaced),
        auxiliaries=_variables(instance, "auxiliary", boxes, replaced),
        initial_values={name: box.lower if box.is_point else (box.lower, box.upper) for name, box in starts.items()},
        constraints=_texts(constraints),
        goal=_texts(goal),
        initial=_texts(initial),
        network=NetworkEntry("network.onnx", learned.inputs, learned.outputs) if learned else None,
        transitions={state: _right_hand_side(state, row) for state, row in transitions.items()},
        comments=_comments(instance, replaced),
    )


def _variables(instance: Instance, role: Role, boxes: dict[str, Box], replaced: set[str]) -> tuple[Variable, ...]:
    return tuple(
        Variable(name, instance.variables[name].kind, boxes[name].lower, boxes[name].upper)
        for name in instance.names(role)
        if name not in replaced
    )


def _final_rows(instance: Instance, constraints: Sequence[Row]) -> list[Row]:
    """The constraints on auxiliaries that also hold at the final state: those without actions."""
    auxiliaries = instance.names("auxiliary")
    actions = instance.names("action")
    return [row for row in constraints if row.reads(auxiliaries) and not row.reads(actions)]


def _is_about_one_state(instance: Instance, row: Row) -> bool:
    return len(row.terms) == 1 and row.reads(instance.names("state"))


def _exact_steps(instance: Instance, transitions: dict[str, Row]) -> list[Row]:
    """Known transitions of discrete states as constraints too, unless rounding cannot change their values.

    To `Problem` the next value of a discrete state is the rounded prediction; in the files the equation holds exactly.
    """
    return [row for state, row in transitions.items() if not _is_unchanged_by_rounding(instance, state, row)]


def _is_unchanged_by_rounding(instance: Instance, state: str, row: Row) -> bool:
    """True for continuous states, and for integer ones with whole numbers on the right; booleans are cut to 0..1."""
    if instance.variables[state].kind != "integer":
        return instance.variables[state].kind == "continuous"
    discrete = all(instance.variables[name.removesuffix("'")].kind != "continuous" for name in row.terms)
    return discrete and all(value.is_integer() for value in (row.constant, *row.terms.values()))


def _right_hand_side(state: str, row: Row) -> str:
    """The row (next state's coefficient 1) solved for the next state."""
    rest = [(-coefficient, name_in_expression(name)) for name, coefficient in row.terms.items() if name != f"{state}'"]
    return format_sum([*rest, (row.constant, "")])


def _reward(instance: Instance, penalties: Sequence[Penalty], replaced: set[str]) -> str:
    """The linear terms in the file's order, then the penalties state by state: abs, too low, too high."""
    linear = [
        (weight, name_in_expression(name))
        for name, weight in instance.reward.items()
        if name.removesuffix("'") not in replaced
    ]
    order = {name: at for at, name in enumerate(instance.variables)}
    by_state = sorted(penalties, key=lambda p: (order[next(iter(p.terms))], -len(p.auxiliaries), p.below is None))
    return format_sum([*linear, *(term for penalty in by_state for term in penalty.reward_terms(instance.reward))])


def _check_cover(instance: Instance, transitions: dict[str, Row], learned: LearnedTransition | None) -> None:
    predicted = learned.outputs if learned else ()
    for state in instance.names("state"):
        if state not in transitions and state not in predicted:
            raise InputError(
                f"{instance.name}: nothing predicts the state '{state}': map an output unit to it in "
                f"mappings_{instance.name}.txt, or give its transition in transitions_{instance.name}.txt"
            )


def _horizon(name: str, horizon: int | None) -> int:
    if horizon is None:
        return next((steps for domain, steps in HORIZONS.items() if name.startswith(domain)), OTHER_HORIZON)
    if horizon < 1:
        raise InputError(f"the horizon must be at least 1, got {horizon}")
    return horizon


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be made a folder ({error.strerror}); choose another place") from None


def _comments(instance: Instance, replaced: set[str]) -> tuple[str, ...]:
    sources = ", ".join(instance.sources)
    paragraphs = [f"The HD-MILP-Plan instance {instance.name}, converted by reluplan from {sources}."]
    if replaced:
        names = ", ".join(name for name in instance.names("auxiliary") if name in replaced)
        paragraphs.append(f"The reward says with abs and max what these files say with the auxiliaries {names}.")
    wrapper = textwrap.TextWrapper(110, break_long_words=False, break_on_hyphens=False)
    return tuple(line for text in paragraphs for line in wrapper.wrap(text))


def _distinct(rows: Iterable[Row]) -> list[Row]:
    """The rows without repetitions."""
    first: dict[object, Row] = {}
    for row in rows:
        first.setdefault(row.key, row)
    return list(first.values())


def _texts(rows: Iterable[Row]) -> tuple[str, ...]:
    solved = [row.solved() for row in rows]
    return tuple(format_row(row.terms, row.sign, row.constant) for row in solved)
