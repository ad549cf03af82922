"""Compiled code for multi-class events with probabilities, where it was built."""

from __future__ import annotations

from collections.abc import Callable

from streameval.events.event import EventFields
from streameval.states.backend import compiled

COMPILED = compiled("streameval.states.native.native_class_events")
"""``states/native/native_class_events``, or None. Each of its functions has a twin in Python
with the same results."""

plain_event: Callable[..., EventFields | None] | None = getattr(COMPILED, "plain_event", None)
"""The validated fields of an event with probabilities; None where Python has to validate it."""
