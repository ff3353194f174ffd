"""All systems by name."""

from __future__ import annotations

from . import (
    acrobot,
    building,
    cart_pole,
    mountain_car,
    obstacles,
    pendulum,
    race_car,
    random_networks,
    reactor,
    shipped,
    tanks,
)
from .system import System

FAMILY: dict[str, System] = {
    system.name: system
    for system in (
        pendulum.SYSTEM, cart_pole.SYSTEM, tanks.SYSTEM, obstacles.SYSTEM, *random_networks.TUNING, *shipped.TUNING,
        mountain_car.SYSTEM, race_car.SYSTEM, acrobot.SYSTEM, building.SYSTEM, reactor.SYSTEM,
        *random_networks.TESTING, *shipped.TESTING,
    )
}  # fmt: skip
"""What `auto` is compared on: constants are chosen on the half "tune", and only looked at on the half "test"."""

SCALED: dict[str, System] = {system.name: system for system in (*shipped.RETRAINED, *shipped.WIDE)}
"""Networks of the examples, trained anew and wider."""

SYSTEMS = FAMILY | SCALED
