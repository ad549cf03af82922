"""The fast profile of Hypothesis lowers the examples of every kind of test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

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


def test_a_state_machine() -> None:
    begun: list[None] = []

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            begun.append(None)

        @rule()
        def step(self) -> None:
            pass

    case = Machine.TestCase
    case.settings = settings(max_examples=40, database=None)
    limit_examples(SimpleNamespace(cls=case, obj=case("runTest").runTest), 7)
    case("runTest").runTest()
    assert len(begun) <= 8  # one is made to look at its rules
