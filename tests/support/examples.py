"""The Hypothesis profiles: how many examples a test has at most.

A test names the number that its subject is worth, and has all of them under ``thorough``.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

# A deadline for each example would measure the machine, not the code.
USUAL = settings(deadline=None, max_examples=10)
THOROUGH = settings(deadline=None)
for _name, _profile in (("usual", USUAL), ("thorough", THOROUGH)):
    settings.register_profile(_name, _profile)


def most_examples() -> int | None:
    """The most that the profile in use gives any test; None: what the test names."""
    return USUAL.max_examples if settings.default == USUAL else None


def number_of_examples(number: int) -> int:
    """``number``, or fewer under a profile that limits it."""
    most = most_examples()
    return number if most is None else min(number, most)


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
