"""The metaclass of public classes: ``dir()`` and ``help()`` show what is public."""

from __future__ import annotations

import inspect
from typing import Any

_MRO: Any = type.__dict__["__mro__"]

INTERNAL = frozenset(
    [
        "add_events",
        "before",
        "check_events",
        "counting_only",
        "distinct_scores",
        "emptied",
        "fast_reader",
        "from_parts",
        "from_state",
        "has_whole_weights",
        "keeps",
        "learn_labels",
        "marks",
        "note",
        "notes",
        "of_panes",
        "pane_reports",
        "plan",
        "restricted",
        "share_lock",
        "shared_events",
        "show",
        "takes_probabilities",
        "to_state",
        "wants_scores",
    ]
)
"""Members without an underscore that other parts of the package use, and that are not public."""


class PublicClass(type):
    """A class whose internal bases and members are left out of ``dir()`` and ``help()``.

    Internal are the bases of this package that are no such class, and :data:`INTERNAL`. Both work
    as in any class: only what is listed differs.
    """

    @property
    def __mro__(cls) -> tuple[type, ...]:
        return tuple(
            base
            for base in _MRO.__get__(cls)
            if isinstance(base, PublicClass) or base.__module__.partition(".")[0] != "streameval"
        )

    def __dir__(cls) -> list[str]:
        from streameval.evaluator.spellings import ForeignAttribute

        names = {name for base in _MRO.__get__(cls) for name in base.__dict__}
        return sorted(
            name
            for name in names - INTERNAL
            if not (name[0] == "_" and not name.endswith("__"))
            and not isinstance(inspect.getattr_static(cls, name), ForeignAttribute)
        )
