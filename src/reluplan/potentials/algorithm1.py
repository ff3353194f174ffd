"""Algorithm 1 of the paper, in a form that is sound whenever it stops: reward potentials by constraint generation.

    In: a domain of steps, its units U with N intervals each, λ, weights w (where φ is to be small), tolerance ε.
    φ_v(p) = Σ_u v[u, p_u] is the potential of a pattern p; R*(p) the best reward of a step with this pattern.
    In brackets: the line of the paper.

     1  K ← {};  known ← patterns of the best sampled steps;  proof ← (0, max R over the box)                  [1]
     2  while D of the proof of v exceeds ε, and there is time                                                 [2]
     3      v ← argmin w·v + λ|v|²  subject to  φ_v(p) >= R*(p) for p in K             (master problem M)      [3]
     4      P ← known patterns with R*(p) − φ_v(p) > ε/2;  if any: K ← K ∪ P, go to 2                       [5, 6]
     5      known ← known ∪ patterns that a heuristic search finds;  if any is violated: go to 2               [4]
     6      p, D ← max R − φ_v over all steps, by MILP, D its dual bound               (subproblem S)          [4]
     7      proof ← (v, D) if φ_v + D is smaller at w than that of the proof so far
     8      known ← known ∪ {p and its neighbours}, each with R* by an LP;  violation ← max R* − φ_v        [4, 5]
     9      if D <= ε: converged, proof ← (v, D);  if violation <= ε/2: stuck, end                             [2]
    10  return v + (max(0, D) + τ)/|U| of the proof, which holds for every step

The paper ends when the violation that a solver reports is zero; here only a dual bound ends the loop, and what ends it
early (time, Ctrl-C, a solver that fails) leaves potentials that are valid, if larger. The moves stand in files of their
own: line 1 `initial_cuts`, 3 `master`, 4 `pattern_store`, 5 `heuristic_separation`, 6 and 8 `milp_separation`, 7 and 9
`proof`, 10 `anytime_shift`. Everything that can be set is in `settings`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reluplan import clock
from reluplan.potentials.anytime_shift import proven_potentials
from reluplan.potentials.domain import StepDomain
from reluplan.potentials.generation import Generation, OnRound, Round
from reluplan.potentials.heuristic_separation import HeuristicSeparation
from reluplan.potentials.master import master_potentials
from reluplan.potentials.milp_separation import solve_patterns, solve_patterns_around, solve_subproblem
from reluplan.potentials.potential_search import PotentialSearch
from reluplan.potentials.proof import Proof
from reluplan.potentials.settings import Objective, PotentialSettings
from reluplan.potentials.subproblem import Violations

Array = NDArray[np.float64]

CONSTANT_TOLERANCE = 1e-6
"""Of the largest reward of a step, where there are no units and φ is that constant."""


def generate_potentials(
    domain: StepDomain,
    settings: PotentialSettings,
    deadline: float = math.inf,
    on_round: OnRound | None = None,
) -> Generation:
    """Potentials for all steps of a domain; stops at convergence, at the deadline (of clock.now) or at Ctrl-C."""
    return optimise(PotentialSearch(domain, settings, deadline), None, deadline, on_round)


def optimise(
    search: PotentialSearch,
    weights: Array | Objective | None = None,
    deadline: float = math.inf,
    on_round: OnRound | None = None,
) -> Generation:
    """The potentials that are smallest at a pattern: weights (K, N + 1), at most one each, or an objective; by default
    that of the search's settings."""
    run = _Run(search, deadline, on_round)
    try:
        run.follow(search.settings.objective if weights is None else weights)
    except KeyboardInterrupt:
        run.state = replace(run.state, interrupted=True)
    return run.generation()


@dataclass(frozen=True, eq=False)
class State:
    """Where the algorithm is; replaced, never changed, so that Ctrl-C finds it whole.

    values: v of the last master problem. proof: the best so far. milp_count: subproblems solved.
    """

    values: Array
    proof: Proof
    rounds: tuple[Round, ...] = ()
    milp_count: int = 0
    converged: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


class _Run:
    """One objective's run through the lines of the algorithm."""

    def __init__(self, search: PotentialSearch, deadline: float, on_round: OnRound | None) -> None:
        self._search = search
        self._settings = search.settings
        self._store = search.store
        self._deadline = deadline
        self._on_round = on_round
        self._began = clock.now()
        self._weights = np.ones(search.features.shape)
        nothing = np.zeros(search.features.shape)
        self.state = State(nothing, Proof.by_intervals(search.domain, nothing))  # 1

    def follow(self, weights: Array | Objective) -> None:
        """Lines 1 to 9."""
        if self._out_of_time():
            return
        self._search.prepare(self._deadline)  # 1
        self._weights = self._search.weights_at(weights) if isinstance(weights, str) else weights
        if self._search.features.unit_count == 0:
            self._bound_constant()
            return
        while not self.state.converged and len(self.state.rounds) < (self._settings.max_rounds or math.inf):  # 2
            if self._out_of_time():
                return
            self._solve_master()  # 3
            if self._cut_known_patterns():  # 4
                continue
            if self._search_violated_patterns():  # 5
                continue
            if not self._ask_subproblem():  # 6 to 9
                return

    def generation(self) -> Generation:
        """Line 10: potentials shifted by the best proof there is."""
        state = self.state
        proof = state.proof
        domain = self._search.domain
        potentials = proven_potentials(
            self._search.features, proof.values, proof.bound, proof.source, domain.first, domain.last, proof.margin
        )
        return Generation(
            potentials=potentials,
            converged=state.converged,
            objective=self._potential_at_objective(potentials.values) + potentials.constant,
            rounds=state.rounds,
            cut_count=len(self._store.cuts),
            pattern_count=len(self._store),
            milp_count=state.milp_count,
            seconds=clock.now() - self._began,
            interrupted=state.interrupted,
            notes=state.notes,
        )

    def _solve_master(self) -> None:
        """Line 3."""
        values = master_potentials(self._store, self._weights, self._search.regulariser)
        self.state = replace(self.state, values=values)

    def _cut_known_patterns(self) -> bool:
        """Line 4: whether there were any to cut."""
        count = self._store.add_cuts(self.state.values, self._cut_tolerance(), self._settings.cuts_per_round)
        return count > 0

    def _search_violated_patterns(self) -> bool:
        """Line 5: whether one was found; line 4 of the next round makes a cut of it."""
        if not self._settings.heuristics or self._store.is_complete:
            return False
        found = self._heuristics().search(self.state.values)
        if found:
            self._record(float(self._store.violations(self.state.values).max()), None, "search")
        return found

    def _ask_subproblem(self) -> bool:
        """Lines 6 to 9: whether to go on; not if converged, interrupted, or stuck."""
        tolerance = self._tolerance()
        # in the paper's setting only the most violated pattern will do; otherwise one that is nearly as bad
        ratio = self._settings.early_stop_ratio if self._settings.heuristics else math.inf
        found = self._solve_subproblem(tolerance, ratio)  # 6, 7
        violation = self._solve_patterns(found)  # 8
        self._record(violation, found.dual_bound, "MILP")
        if found.dual_bound <= tolerance * (1.0 + 1e-9):  # 9
            self.state = replace(self.state, converged=True, proof=Proof.of_optimum(self.state.values, found))
        self.state = replace(self.state, interrupted=found.interrupted)
        ended = self.state.converged or self.state.interrupted
        if violation <= self._cut_tolerance() and not (ended or self._out_of_time()):
            self._note_stuck(violation, found.dual_bound)
            return False
        return not ended

    def _solve_subproblem(self, tolerance: float, early_stop_ratio: float) -> Violations:
        """Lines 6 and 7: what the MILP proves is kept at once."""
        values = self.state.values
        found = solve_subproblem(
            self._store, self._search.domain.whole, values, tolerance, early_stop_ratio, self._settings.threads,
            self._deadline,
        )  # fmt: skip
        proof = Proof.by_milp(values, found, self._potential_at_objective(values))
        self.state = replace(self.state, milp_count=self.state.milp_count + 1, proof=self.state.proof.or_better(proof))
        return found

    def _solve_patterns(self, found: Violations) -> float:
        """Line 8: the largest violation that is known then."""
        if self._settings.heuristics:
            return solve_patterns_around(found, self.state.values, self._heuristics())
        return solve_patterns(found, self.state.values, self._store, self._deadline)

    def _bound_constant(self) -> None:
        """Without units φ is a constant: the largest reward of a step, proven."""
        found = self._solve_subproblem(CONSTANT_TOLERANCE, math.inf)
        converged = not found.interrupted and not self._out_of_time()
        self.state = replace(self.state, converged=converged, interrupted=found.interrupted)

    def _heuristics(self) -> HeuristicSeparation:
        return HeuristicSeparation(
            self._store, self._search.samples, self._cut_tolerance(), self._deadline, self._settings.separation
        )

    def _tolerance(self) -> float:
        """ε."""
        return self._settings.tolerance * max(1.0, abs(self._potential_at_objective(self.state.values)))

    def _cut_tolerance(self) -> float:
        """What is worth a cut: half the tolerance, since the MILP proves no more than the other half."""
        return 0.5 * self._tolerance()

    def _potential_at_objective(self, values: Array) -> float:
        """φ at the objective's pattern: each unit's weights scaled to sum to one."""
        weights = self._weights
        return float((weights * values).sum() / max(1e-12, weights.sum())) * self._search.features.unit_count

    def _out_of_time(self) -> bool:
        return clock.now() >= self._deadline

    def _record(self, violation: float, dual_bound: float | None, source: str) -> None:
        entry = Round(clock.now() - self._began, violation, dual_bound, len(self._store.cuts), source)
        self.state = replace(self.state, rounds=(*self.state.rounds, entry))
        if self._on_round is not None:
            self._on_round(entry)

    def _note_stuck(self, violation: float, dual_bound: float) -> None:
        note = (
            f"stopped: the subproblem's bound is {dual_bound:.3g}, but its patterns violate the potentials "
            f"by {violation:.3g} only; the potentials are valid with that bound"
        )
        self.state = replace(self.state, notes=(*self.state.notes, note))
