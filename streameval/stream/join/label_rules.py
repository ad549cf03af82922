"""What a label does to what is known of its id: the rules of the join, one record at a time.

A label comes by itself or inside a complete record. Of each sort the last one of an
id is its newest, and one that came by itself counts before one inside a record: the
record was written first. So it does not matter which of the two is read first.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "CORRECTED",
    "INSIDE",
    "LABELS",
    "MET",
    "WAITS",
    "Entry",
    "Verdict",
    "current_label",
    "judged",
]

Entry: TypeAlias = tuple[int, int, int, Any, Any, int]
"""What is kept of an id: kind, the prediction's time, the number of its partition, its
payload, label or labels, and the newest time of all its records. Times are microseconds."""

WAITS, LABELS, MET, INSIDE, CORRECTED = range(5)
"""Kinds of entries: a prediction without a label; labels (label, time, partition's
number) without a prediction; a prediction with one label that came by itself, or
inside its record; and one with several: of those inside records the first and the last,
then of those by themselves, None where there is none."""


class Verdict(NamedTuple):
    """What became of a label."""

    outcome: str
    """As what it counts: joined, duplicate_labels, corrected, too_late or orphans."""
    entry: Entry
    """What is known afterwards; the same object if nothing has changed."""


def current_label(entry: Entry) -> Any:
    """The label that counts; None while there is none."""
    kind, label = entry[0], entry[4]
    if kind == CORRECTED:
        return label[1] if label[3] is None else label[3]
    return label if kind in (MET, INSIDE) else None


def judged(
    entry: Entry, label: Any, time: int, *, inside: bool, wait: int, remember: int
) -> Verdict:
    """A label against the prediction of its id.

    Args:
        entry: Of any kind but ``LABELS``.
        label: The label; not None.
        time: When it came about.
        inside: Whether it came inside a complete record.
        wait: How far its time may be from the prediction's to count.
        remember: How much further that of a correction may be. What is further still
            is an orphan, because by then the prediction may have been forgotten.

    >>> entry = (WAITS, 100, 1, (0.5,), None, 100)
    >>> first = judged(entry, "spam", 103, inside=False, wait=10, remember=10)
    >>> first
    Verdict(outcome='joined', entry=(2, 100, 1, (0.5,), 'spam', 103))
    >>> judged(first.entry, "ham", 115, inside=False, wait=10, remember=10).outcome
    'corrected'
    """
    kind, begun, number, payload, known, newest = entry
    gap = abs(time - begun)
    if gap > wait + remember:
        return Verdict("orphans", entry)
    if kind == WAITS:
        if gap > wait:
            return Verdict("too_late", entry)
        kept = (INSIDE if inside else MET, begun, number, payload, label, max(newest, time))
        return Verdict("joined", kept)
    if kind == CORRECTED:
        labels = list(known)
    else:
        labels = [known, known, None, None] if kind == INSIDE else [None, None, known, known]
    first, last, other = (0, 1, 2) if inside else (2, 3, 0)
    if labels[first] is None:
        # Against the other sort's first one: that does not change with what comes later.
        same = bool(labels[other] == label)
        labels[first] = labels[last] = label
    else:
        same = bool(labels[last] == label)
        if same:
            return Verdict("duplicate_labels", entry)
        labels[last] = label
    kept = (CORRECTED, begun, number, payload, labels, max(newest, time))
    return Verdict("duplicate_labels" if same else "corrected", kept)
