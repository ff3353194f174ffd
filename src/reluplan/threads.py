"""How many threads the matrix products of this process take."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""What the libraries read when they are loaded."""


@contextmanager
def matrix_threads(count: int) -> Iterator[None]:
    """At most so many, and no more than were allowed before.

    Threads of a matrix product wait for each other actively: with one more than there are free cores, back-substitution
    through a large network takes nine times as long.
    """
    controller = ThreadpoolController()
    libraries = [each for each in controller.info() if each["user_api"] == "blas"]
    with controller.limit(limits={each["filepath"]: min(count, each["num_threads"]) for each in libraries}):
        yield


def one_matrix_thread() -> Mapping[str, str]:
    """The environment for a process that works beside others; what the user has set stays."""
    return {**dict.fromkeys(VARIABLES, "1"), **os.environ}
