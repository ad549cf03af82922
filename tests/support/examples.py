"""The Hypothesis profile of `make test-fast`: few examples for each test."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

FAST = settings(deadline=None, max_examples=10)
settings.register_profile("fast", FAST)


def number_of_examples(number: int) -> int:
    """``number``, or fewer under the fast profile."""
    return min(number, FAST.max_examples) if settings.default == FAST else number


def limit_examples(item: Any, most: int) -> None:
    """Lower the number of examples of a collected test to ``most``.

    A profile sets only what a test leaves open, and most tests name their own number.
    """
    if item.cls is not None and isinstance(getattr(item.cls, "settings", None), settings):
        # A state machine.
        own = item.cls.settings
        item.cls.settings = settings(own, max_examples=min(own.max_examples, most))
    elif hasattr(item.obj, "hypothesis"):
        function = getattr(item.obj, "__func__", item.obj)
        own = function._hypothesis_internal_use_settings
        function._hypothesis_internal_use_settings = settings(
            own, max_examples=min(own.max_examples, most)
        )
