"""Reward potentials: bounds of a step's reward by the activation pattern of its ReLUs (Say, Sanner, Thiébaux, 2019).

    φ(pattern) = Σ_u [ Σ_i von_{u,i} q_{u,i} + voff_u (1 − b_u) ]  >=  R(s, a, s')     for every feasible step

The paper's symbols, and where they stand:

    φ                    RewardPotentials.value, PatternFeatures.sum_values
    von_{u,i}, voff_u    RewardPotentials.values[u, i], values[u, 0]: (K, N + 1); in the loop "values", v
    U, K = |U|           PatternFeatures.units, unit_count: the units that can switch, or all as in the paper
    N, N_u               PatternFeatures.interval_count, ceilings: intervals, proven upper bound of a unit's output
    pattern, entries     one entry for each unit: 0 = off, i = on with its output in interval i
    P^b_u = b_u          EntryColumns.binaries, of a model
    P'^b_{i,u} = q_{u,i} EntryColumns.intervals, of a model
    R*(pattern)          Subproblem.best_reward: the best reward of a step with this pattern, by an LP
    M (master, leader)   master.solve_master
    S (subproblem,       Subproblem.violated: max R − φ, with D its dual bound
       follower)
    cuts (index set K)   PatternStore.cuts
    λ = 1/√M             PotentialSettings.regulariser; M there is the big-M constant, 1e6
    violation            PatternStore.violations, StepSamples.violations, Round.violation
    S_0, S_1, S_2        strengthen.add_potential_row; entry_columns.encode_entries
    Algorithm 1          algorithm1.py, line by line

and what the paper does not have:

    D, τ                 RewardPotentials.proof_bound, margin: φ is raised by max(0, D) + τ (`anytime_shift`)
    ε                    PotentialSettings.tolerance, relative to φ
    w                    weights: the pattern at which φ is to be small; all ones is the paper's objective

From a problem to potentials: `compute`; the steps that they hold for: `domain`; what can be set: `settings`; how it
went: `report`; files are claims that are proven again: `potential_set`, `reprove`; in a plan: `strengthen`.
"""
