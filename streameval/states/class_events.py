"""Compiled code for multi-class events with probabilities, where it was built."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from streameval.events.event import EventFields
from streameval.states.score_index import backend


def _compiled() -> Any:
    if backend() != "native":
        return None
    try:
        return importlib.import_module("streameval.states.native.native_class_events")
    except ImportError:  # one compiled module can be missing alone
        return None


COMPILED = _compiled()
"""``states/native/native_class_events``, or None. Each of its functions has a twin in Python
with the same results."""

plain_event: Callable[..., EventFields | None] | None = getattr(COMPILED, "plain_event", None)
"""The validated fields of a plain event with probabilities; None for any other."""
