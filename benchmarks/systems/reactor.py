"""A stirred tank with an exothermic reaction, cooled by its jacket: the classical CSTR, held where it is unstable."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from reluplan.problem.writer import ProblemText

from .integrate import runge_kutta
from .learned import Array, Learned
from .system import System, box, names, reads

STATES = box(concentration=(0.0, 1.0), temperature=(300.0, 385.0))
ACTIONS = box(coolant=(280.0, 320.0))
MINUTES = 0.03
FEED = 350.0
ACTIVATION = 8750.0
"""E/R in K."""
FREQUENCY = 7.2e10
"""1/min."""
HEAT = 209.2
"""−ΔH/(ρ c) in K per mol/l."""
JACKET = 2.092
"""UA/(V ρ c) in 1/min."""


def slopes(now: Array, actions: Array) -> Array:
    """ċ = 1 − c − k(T) c, Ṫ = 350 − T + 209.2 k(T) c + 2.092 (T_c − T), k(T) = 7.2e10 exp(−8750/T)."""
    concentration, temperature = now.T
    rate = FREQUENCY * np.exp(-ACTIVATION / np.clip(temperature, 250.0, 500.0)) * concentration
    heat = HEAT * rate + JACKET * (actions[:, 0] - temperature)
    return np.column_stack([1.0 - concentration - rate, FEED - temperature + heat])


def step(states: Array, actions: Array) -> Array:
    """Two seconds, about, in ten parts."""
    return runge_kutta(slopes, states, actions, MINUTES, 10)


def anywhere(rng: Generator, count: int) -> Array:
    """Any mixture that has not run away."""
    return rng.uniform([0.0, 300.0], [1.0, 370.0], (count, 2))


PROBLEM = ProblemText(
    "reactor", 40, "-20*abs(concentration' - 0.5) - 0.1*abs(temperature' - 350) - 0.01*abs(coolant - 300)",
    STATES, ACTIONS,
    initial_values={"concentration": 0.9, "temperature": 320.0},
    network=reads((*names(STATES), *names(ACTIONS)), names(STATES)),
    comments=("A reactor shall be brought to 0.5 mol/l at 350 K, where it would run away if left alone.",),
)  # fmt: skip
SYSTEM = System("reactor", "stiff, unstable", "test", PROBLEM, Learned(PROBLEM, step, start=anywhere), (40,))
