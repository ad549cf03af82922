"""The entries of a join, and the rules by which a label changes the entry of its id.

A label is either a record of its own or part of a complete record. For each of the two the
last one of an id is its newest, and a label record takes precedence over the label in a
complete record: the record was written first. So the result does not depend on which of the
two is read first.

A set of labels may arrive in parts: a part is ``{"labels": [...], "final": bool}``. Parts add up;
from the first one on that is final they are a label like any other, which later parts correct.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

# Times are microseconds; ``partition`` is the number of the prediction's partition, and
# ``newest`` the newest time of all records of the id. In MessagePack an entry is an array whose
# first element is the tag: segments on disk hold these bytes, so fields keep their order.
# Without the garbage collector's header an entry takes 56 bytes, and the collector never scans
# it; no entry can be part of a cycle.


class _Predicted(msgspec.Struct, array_like=True, gc=False, frozen=True):
    time: int
    partition: int
    payload: tuple[Any, ...]


class Unlabelled(_Predicted, tag=0, frozen=True):
    """A prediction without a label."""

    label: None
    newest: int


class EarlyLabel(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A label that was read before the prediction of its id."""

    label: Any
    time: int
    partition: int
    """Number of the label's own partition."""


class EarlyLabels(msgspec.Struct, array_like=True, tag=1, gc=False, frozen=True):
    """Labels of an id without a prediction, in the order in which they were read."""

    time: int
    partition: int
    payload: None
    labels: tuple[EarlyLabel, ...]
    newest: int


class Labelled(_Predicted, tag=2, frozen=True):
    """A prediction with one label, from a label record."""

    label: Any
    newest: int


class Complete(_Predicted, tag=3, frozen=True):
    """A prediction with one label, from the same record."""

    label: Any
    newest: int


class LabelsByOrigin(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The first and the last label from complete records and from label records; None: none."""

    first_inside: Any
    last_inside: Any
    first: Any
    last: Any


class Corrected(_Predicted, tag=4, frozen=True):
    """A prediction with several labels."""

    labels: LabelsByOrigin
    newest: int


class PartialLabels(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The first and the last label from complete records, and the parts of a set, added up."""

    first_inside: Any
    last_inside: Any
    so_far: list[Any]


class Partial(_Predicted, tag=5, frozen=True):
    """A prediction with a set of labels that is not final."""

    labels: PartialLabels
    newest: int


Prediction: TypeAlias = Unlabelled | Labelled | Complete | Corrected | Partial
Entry: TypeAlias = Prediction | EarlyLabels
"""What is kept of an id."""


class LabelEffect(NamedTuple):
    """The effect of a label."""

    outcome: str
    """The count that it adds to: one of ``OUTCOMES_OF_LABELS``."""
    entry: Prediction
    """The entry afterwards; the same object if it has not changed."""


def current_label(entry: Prediction) -> Any:
    """The label that counts; None while there is none."""
    if isinstance(entry, Corrected):
        labels = entry.labels
        return labels.last_inside if labels.last is None else labels.last
    return entry.labels.last_inside if isinstance(entry, Partial) else entry.label


def is_part(label: Any) -> bool:
    """Whether this is a part of a set of labels."""
    return type(label) is dict


def judged(
    entry: Prediction, label: Any, time: int, *, inside: bool, wait: int, remember: int
) -> LabelEffect:
    """The effect of a label on the prediction of its id; ``inside``: from a complete record.

    >>> entry = Unlabelled(100, 1, (0.5,), None, 100)
    >>> first = judged(entry, "spam", 103, inside=False, wait=10, remember=10)
    >>> first.outcome, first.entry
    ('joined', Labelled(time=100, partition=1, payload=(0.5,), label='spam', newest=103))
    >>> judged(first.entry, "ham", 115, inside=False, wait=10, remember=10).outcome
    'corrected'
    """
    gap = abs(time - entry.time)
    if gap > wait + remember:  # the prediction may have been forgotten by then
        return LabelEffect("orphans", entry)
    before = _by_origin(entry)
    unlabelled = before.first_inside is None and before.first is None
    if unlabelled and gap > wait:
        return LabelEffect("too_late", entry)
    own = entry.time, entry.partition, entry.payload
    newest = max(entry.newest, time)
    if is_part(label):
        so_far = entry.labels.so_far if isinstance(entry, Partial) else before.last
        whole = sorted({*(so_far or ()), *label["labels"]})
        if before.first is None and not label["final"]:
            if whole == so_far:
                return LabelEffect("duplicate_labels", entry)
            parts = PartialLabels(before.first_inside, before.last_inside, whole)
            return LabelEffect("partial_labels", Partial(*own, parts, newest))
        label = whole
    if inside:
        first, last, other = before.first_inside, before.last_inside, before.first
    else:
        first, last, other = before.first, before.last, before.first_inside
    if first is not None and last == label:
        return LabelEffect("duplicate_labels", entry)
    # A first one is compared with the first of the other origin, which later ones do not change.
    same = first is None and bool(other == label)
    outcome = "joined" if unlabelled else "duplicate_labels" if same else "corrected"
    if first is None:
        first = label
    if inside and isinstance(entry, Partial):
        parts = PartialLabels(first, label, entry.labels.so_far)
        return LabelEffect(outcome, Partial(*own, parts, newest))
    if unlabelled:
        return LabelEffect(outcome, (Complete if inside else Labelled)(*own, label, newest))
    after = (
        LabelsByOrigin(first, label, before.first, before.last)
        if inside
        else LabelsByOrigin(before.first_inside, before.last_inside, first, label)
    )
    return LabelEffect(outcome, Corrected(*own, after, newest))


def _by_origin(entry: Prediction) -> LabelsByOrigin:
    if isinstance(entry, Corrected):
        return entry.labels
    if isinstance(entry, Complete):
        return LabelsByOrigin(entry.label, entry.label, None, None)
    if isinstance(entry, Partial):
        return LabelsByOrigin(entry.labels.first_inside, entry.labels.last_inside, None, None)
    return LabelsByOrigin(None, None, entry.label, entry.label)
