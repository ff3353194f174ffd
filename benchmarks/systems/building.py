"""Two zones of a building through a day; the weather follows a clock that is part of the state."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from reluplan.problem.writer import ProblemText

from .learned import Array, Learned
from .system import System, box, names, reads

STATES = box(north=(5.0, 40.0), south=(5.0, 40.0), mass=(5.0, 40.0), clock_cos=(-1.01, 1.01), clock_sin=(-1.01, 1.01))
ACTIONS = box(heat_north=(0.0, 6.0), heat_south=(0.0, 6.0), cool_south=(0.0, 4.0))
HOUR = 2.0 * np.pi / 24.0


def step(states: Array, actions: Array) -> Array:
    """One hour: heating, the walls' mass, the outside (4 to 20 °C), the sun on the south from 6 to 18 o'clock."""
    north, south, mass, cos, sin = states.T
    heat_north, heat_south, cool = actions.T
    outside = 12.0 - 8.0 * (0.7 * cos + 0.7 * sin)
    sun = 6.0 * np.maximum(0.0, -cos) ** 1.5
    ventilation = 0.02 * np.maximum(south - 24.0, 0.0) * (south - outside)
    warm_north = north + 0.5 * heat_north + 0.15 * (mass - north) + 0.10 * (outside - north) + 0.05 * (south - north)
    warm_south = south + 0.5 * (heat_south - cool + sun) + 0.15 * (mass - south) + 0.12 * (outside - south)
    warm_south = warm_south + 0.05 * (north - south) - ventilation
    warm_mass = mass + 0.04 * (north + south - 2.0 * mass)
    turned = np.cos(HOUR) * cos - np.sin(HOUR) * sin, np.sin(HOUR) * cos + np.cos(HOUR) * sin
    return np.column_stack([warm_north, warm_south, warm_mass, *turned])


def anywhere(rng: Generator, count: int) -> Array:
    """Any temperatures at any hour."""
    hour = rng.uniform(0.0, 2.0 * np.pi, count)
    return np.column_stack([rng.uniform(5.0, 35.0, (count, 3)), np.cos(hour), np.sin(hour)])


COMFORT = " ".join(f"- 5*max(0, 20 - {zone}', {zone}' - 23)" for zone in ("north", "south"))
COS, SIN = (f"{f(HOUR):.15g}" for f in (np.cos, np.sin))
PROBLEM = ProblemText(
    "building", 24, f"{COMFORT} - heat_north - heat_south - 0.6*cool_south", STATES, ACTIONS,
    initial_values={"north": 15.0, "south": 16.0, "mass": 17.0, "clock_cos": 1.0, "clock_sin": 0.0},
    network=reads((*names(STATES), *names(ACTIONS)), ("north", "south", "mass")),
    transitions={
        "clock_cos": f"{COS}*clock_cos - {SIN}*clock_sin", "clock_sin": f"{SIN}*clock_cos + {COS}*clock_sin"
    },
    comments=("Two zones and the mass of the walls over a day that begins at midnight; clock_* turn once a day.",),
)  # fmt: skip
SYSTEM = System("building", "weather by a clock", "test", PROBLEM, Learned(PROBLEM, step, start=anywhere), (24, 48))
