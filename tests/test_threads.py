"""Threads of matrix products: limited while stages run beside each other, and as before afterwards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from reluplan.threads import VARIABLES, matrix_threads, one_matrix_thread


def counts() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@given(st.integers(1, 4), st.integers(1, 4))
def test_a_limit_never_raises_one_that_is_there(outer: int, inner: int) -> None:
    before = counts()
    with matrix_threads(outer):
        assert counts() == [min(outer, each) for each in before]
        with matrix_threads(inner):
            assert counts() == [min(outer, inner, each) for each in before]
    assert counts() == before


def test_workers_have_one_thread_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(VARIABLES[0], "3")
    found = one_matrix_thread()
    assert found[VARIABLES[0]] == "3"
    assert all(found[name] == "1" for name in VARIABLES[1:])
