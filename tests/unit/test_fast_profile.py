"""The fast profile of Hypothesis lowers the examples of every kind of test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import limit_examples


@pytest.mark.parametrize(("own", "expected"), [(40, 7), (7, 7), (3, 3)])
@pytest.mark.parametrize("outermost", ["given", "settings"])
def test_a_property(own: int, expected: int, outermost: str) -> None:
    seen: list[int] = []

    def law(number: int) -> None:
        seen.append(number)

    decorate: list[Any] = [settings(max_examples=own, database=None), given(st.integers())]
    for decorator in decorate if outermost == "given" else reversed(decorate):
        law = decorator(law)
    limit_examples(SimpleNamespace(cls=None, obj=law), 7)
    law()  # type: ignore[call-arg]
    assert len(seen) == expected
