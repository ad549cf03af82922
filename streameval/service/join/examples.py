"""The ids of events behind each cell of the confusion matrix: a few of each, in bounded memory.

A list is of one cell and one span of event time, and holds the events that are last by (rank,
time, id). What it holds depends on the events alone, not on how they were divided among checkpoints
and workers: an event that was once displaced by later ones stays displaced. So an event that a
corrected label took out of the cell keeps its place, with a count of 0, and is not shown.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from streameval.errors import InputError
from streameval.events.event import EventBatch
from streameval.events.time import iso_time
from streameval.events.values import IntArray, Label
from streameval.records.event_columns import EventColumns, probability_columns
from streameval.service.config.evaluators import window_spec_of
from streameval.service.config.settings import RunSettings
from streameval.service.store.dialect import decoded
from streameval.tasks.input import InputOptions
from streameval.tasks.registry import TASKS
from streameval.windows import Panes
from streameval.windows.window import WindowSpec

EXAMPLES = "run.examples"
"""The key in ``meta`` of the written form."""

_MOST_LISTS = 500
"""Full lists of one kind in memory; the events that are first in their order are dropped."""

_NEWEST = -1
"""The span of lists of the newest events, which serve every window."""


class _List(NamedTuple):
    """What a list is of."""

    span: int
    """Microseconds of event time; 0: all time; or :data:`_NEWEST`."""
    number: int
    """The number of the span."""
    true: Label
    predicted: Label


_Key: TypeAlias = tuple[float, int, str]
"""Rank, event time and id. The rank of newest events is 0; of errors it is the confidence, and of
right events its negative."""
_Held: TypeAlias = tuple[int, float | None]
"""How often it was counted less how often it was reverted, and its score."""
_Row: TypeAlias = tuple[float, int, str, float | None]
"""Rank, time, id and score of an event."""


class Examples:
    """Keeps the newest events of each cell, the surest errors, and the least sure right ones."""

    def __init__(self, settings: RunSettings) -> None:
        given = settings.evaluator
        self._each = kept_examples(settings)
        self._model = f":{given.models[0]}" if given.models else ""
        options = InputOptions(given.positive, given.threshold, given.labels, given.probabilities)
        self._input = TASKS[given.task].input(options)
        self._scores_of_labels = not given.probabilities
        self._spans: dict[int, int] = {}  # of each span, how many a window has at most
        for window in settings.window:
            spec = window_spec_of(window, settings.join)
            span, most = _span_of(spec)
            self._spans[span] = max(most, self._spans.get(span, 0))
        self._lists: dict[_List, dict[_Key, _Held]] = {}

    # Counting

    def add(self, events: EventColumns, ids: Sequence[str]) -> None:
        """Add events that were counted."""
        given = self._arguments(events.columns)
        for name in ("score", "proba"):
            if isinstance(given[name], list):  # of mappings, which are slow one by one
                given[name] = probability_columns(given[name])
        try:
            batch = self._input.batch(**given)
        except InputError:  # columns of several forms, which were counted one by one as well
            for row in range(events.rows if events.rows > 1 else 0):
                self.add(events.select(slice(row, row + 1)), ids[row : row + 1])
            return
        finally:
            self._input.roll_back()
        rows = batch.weighing()
        times = np.asarray(events.columns["time"], dtype=np.int64)
        rows = np.arange(len(times)) if rows is None else rows
        order = rows[np.argsort(times[rows], kind="stable")]
        if batch.y_pred is None or not len(order):
            return
        cells = _Cells(batch, times, ids)
        # First every 16th: of the others most are then too early or too unsure for any list.
        for part in (order[::16], np.delete(order, np.s_[::16])):
            self._offer(cells, _NEWEST, part)
            if cells.scores is not None:
                part = part[~np.isnan(cells.scores[part])]
                for span in self._spans:
                    self._offer(cells, span, part)
        self._drop()

    def revert(self, event: Mapping[str, Any]) -> None:
        """Take an event that was added out of its cell."""
        given = self._arguments(event)
        given["weight"] = 1
        true, predicted, score, _ = self._input.event(**given)
        self._input.roll_back()
        rank = score.get(predicted) if isinstance(score, Mapping) else score
        if type(predicted) is bool and not predicted and rank is not None:
            rank = -rank
        if true == predicted and rank is not None:
            rank = -rank
        time: int = event["time"]
        places = [(_NEWEST, 0, 0.0), *((s, time // s if s else 0, rank) for s in self._spans)]
        for span, number, rank in places:
            held = self._lists.get(_List(span, number, _plain(true), _plain(predicted)), {})
            key = (rank, time, event["id"])
            if key in held:
                count, shown = held[key]
                held[key] = (count - 1, shown)

    def _arguments(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        names = dict.fromkeys(("y_true", "weight"), "") | dict.fromkeys(
            ("y_pred", "score", "proba"), self._model
        )
        given = {name: columns.get(name + model) for name, model in names.items()}
        if self._scores_of_labels and given["proba"] is not None:
            given["score"], given["proba"] = given["proba"], None
        return given

    def _offer(self, cells: _Cells, span: int, order: IntArray) -> None:
        """Add those of the rows, in the order of their times, that lists have room for."""
        if not len(order):
            return
        numbers = cells.times[order] // span if span > 0 else np.zeros(len(order), np.int64)
        first, side = int(numbers.min()), len(cells.labels)
        codes = (numbers - first) * side * side + cells.codes[order]
        values: Any = cells.times if span == _NEWEST else cells.ranks
        reached = self._reached(cells, span, first, codes, values.dtype)
        if reached is not None:
            able = values[order] >= reached
            order, codes = order[able], codes[able]
        if not len(order):
            return
        ranks = np.zeros(len(cells.times)) if span == _NEWEST else cells.ranks
        if span != _NEWEST:
            by = np.argsort(ranks[order], kind="stable")
            order, codes = order[by], codes[by]
        small = int(codes.max()) < 1 << 16
        by = np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")
        order, codes = order[by], codes[by]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        ends = np.append(starts[1:], len(codes))
        most = 4 * self._each  # tied rows, and an event that was counted twice, need more than one
        places = np.repeat(ends, ends - starts) - np.arange(len(codes))
        rows = _rows(cells, ranks, order[places <= most])
        at = 0
        for start, end, code in zip(starts.tolist(), ends.tolist(), codes[starts], strict=True):
            size = min(most, end - start)
            found = self._last(rows[at : at + size], whole=size == end - start)
            at += size
            if found is None:
                found = self._last(_rows(cells, ranks, order[start:end]), whole=True) or {}
            number, cell = divmod(int(code), side * side)
            true, predicted = (cells.labels[code] for code in divmod(cell, side))
            self._put(_List(span, first + number, true, predicted), found)

    def _last(self, rows: list[_Row], *, whole: bool) -> dict[_Key, _Held] | None:
        """The events that are last among rows; None where rows before these may be among them."""
        found: dict[_Key, _Held] = {}
        last: tuple[float, int] | None = None
        for rank, time, key, score in reversed(rows):
            # The id decides between events of the same rank and time.
            if len(found) >= self._each and last != (rank, time):
                return found
            last = (rank, time)
            count, _ = found.get((rank, time, key), (0, None))
            found[rank, time, key] = (count + 1, score)
        return found if whole else None

    def _put(self, kind: _List, events: Mapping[_Key, _Held]) -> None:
        """Add events to a list, and drop those that are no longer among its last."""
        held = self._lists.setdefault(kind, {})
        for key, (count, score) in events.items():
            held[key] = (held.get(key, (0, None))[0] + count, score)
        for key in sorted(held)[: -self._each]:
            del held[key]

    def _reached(self, cells: _Cells, span: int, first: int, codes: IntArray, kind: Any) -> Any:
        """The time or rank that each row needs for its list; None where cells are too many."""
        side = len(cells.labels)
        size = int(codes.max()) + 1
        if size > 1 << 16:
            return None
        known = {label: code for code, label in enumerate(cells.labels)}
        needed = np.full(size, -np.inf if kind.kind == "f" else np.iinfo(kind).min, kind)
        for one, held in self._lists.items():
            if one.span == span and len(held) == self._each and one.number >= first:
                true, predicted = known.get(one.true), known.get(one.predicted)
                if true is not None and predicted is not None:
                    code = ((one.number - first) * side + true) * side + predicted
                    if code < size:
                        needed[code] = min(held)[span == _NEWEST]
        return needed[codes]

    def _drop(self) -> None:
        """Drop spans that every window has left, and the first events beyond the limit."""
        for span in (_NEWEST, *self._spans):
            lists = {kind: held for kind, held in self._lists.items() if kind.span == span}
            if span > 0 and lists:
                oldest = max(kind.number for kind in lists) - self._spans[span]
                for kind in [kind for kind in lists if kind.number <= oldest]:
                    del lists[kind], self._lists[kind]
            excess = sum(map(len, lists.values())) - self._each * _MOST_LISTS
            if excess <= 0:
                continue
            events = (
                ((kind.number, kind.true != kind.predicted, key), kind)
                for kind, held in lists.items()
                for key in held
            )
            for (_, _, key), kind in heapq.nsmallest(excess, events, key=_order):
                del self._lists[kind][key]
                if not self._lists[kind]:
                    del self._lists[kind]

    # Merging, storing, showing

    def merge(self, other: Examples) -> None:
        """Add the events of another one, which had other ids."""
        for kind, theirs in other._lists.items():
            self._put(kind, theirs)
        self._drop()

    def to_text(self) -> str:
        """The written form."""
        rows = [
            (*kind, [(*key, *value) for key, value in sorted(held.items())])
            for kind, held in sorted(self._lists.items(), key=_by_text)
        ]
        return msgspec.json.encode(rows).decode()

    def restore(self, text: str | None) -> None:
        """Add what was written, and not in other spans than those of now; raises StoreError."""
        what = "the examples of events are"
        rows = [] if text is None else decoded(text, list[tuple[int, int, Any, Any, Any]], what)
        for *kind, events in rows:
            one = _List(*kind)
            if one.span == _NEWEST or one.span in self._spans:
                found = {(rank, time, key): (n, score) for rank, time, key, n, score in events}
                self._put(one, found)
        self._drop()

    def cells(
        self,
        window: WindowSpec,
        labels: Mapping[Any, Label],
        newest: int | None,
        held: Callable[[int], bool],
    ) -> list[dict[str, Any]]:
        """What a window shows, as it is published; ``held``: whether it has events of a time."""
        begin = None
        if isinstance(window, Panes) and newest is not None:
            begin = (newest // window.pane_us - window.panes + 1) * window.pane_us
        span, _ = _span_of(window)
        found: dict[tuple[Label, Label], tuple[list[Any], list[Any]]] = {}
        for kind, events in self._lists.items():
            if kind.span not in (_NEWEST, span):
                continue
            lists = found.setdefault((kind.true, kind.predicted), ([], []))
            lists[kind.span != _NEWEST].extend(
                (key, score)
                for key, (count, score) in events.items()
                if count > 0 and held(key[1]) and (begin is None or key[1] >= begin)
            )

        def shown(events: list[tuple[_Key, float | None]]) -> list[dict[str, Any]]:
            return [
                {"id": key, "time": iso_time(time), "score": score}
                for (_, time, key), score in heapq.nlargest(self._each, events)
            ]

        return [
            {
                "true": labels.get(true, true),
                "predicted": labels.get(predicted, predicted),
                "newest": shown(latest),
                "by_confidence": shown(sure),
            }
            for (true, predicted), (latest, sure) in sorted(found.items(), key=_by_text)
            if latest or sure
        ]


class _Cells:
    """A batch by its cells."""

    def __init__(self, batch: EventBatch, times: IntArray, ids: Sequence[str]) -> None:
        assert batch.y_pred is not None
        self.times = times
        self.ids = ids
        self.labels: tuple[Label, ...] = batch.labels or (0, 1)
        true, predicted = batch.y_true.astype(np.int64), batch.y_pred.astype(np.int64)
        self.codes: IntArray = true * len(self.labels) + predicted
        self.scores: Any = None
        self.ranks: Any = None
        if batch.score is None:
            return
        confidence: Any = batch.score
        self.scores = confidence
        if batch.labels:
            columns = {label: n for n, label in enumerate(batch.score_labels)}
            at = np.array([columns.get(label, -1) for label in batch.labels], np.int64)[predicted]
            confidence = confidence[np.arange(len(at)), at]
            if batch.named is not None:
                at[~batch.named[np.arange(len(at)), at]] = -1
            # A label that the event gave no score has none.
            confidence = self.scores = np.where(at < 0, np.nan, confidence)
        else:
            confidence = np.where(predicted == 1, confidence, -confidence)
        self.ranks = np.where(true == predicted, -confidence, confidence)


def _span_of(window: WindowSpec) -> tuple[int, int]:
    """The span of a window's lists, a quarter of it in whole panes, and how many it touches."""
    if not isinstance(window, Panes):
        return 0, 1
    panes = -(-window.panes // 4)
    return panes * window.pane_us, -(-window.panes // panes) + 1


def _rows(cells: _Cells, ranks: Any, order: IntArray) -> list[_Row]:
    scores = [None] * len(order)
    if cells.scores is not None:
        scores = [None if one != one else one for one in cells.scores[order].tolist()]
    ids = [cells.ids[row] for row in order.tolist()]
    # A rank of -0.0 is written as 0.0.
    return list(
        zip((ranks[order] + 0.0).tolist(), cells.times[order].tolist(), ids, scores, strict=True)
    )


def _plain(label: Any) -> Label:
    return int(label) if isinstance(label, (bool, np.bool_)) else label


def _order(event: tuple[Any, _List]) -> Any:
    # One event may be in two cells, under an old label and a new one.
    place, kind = event
    return (*place, *_by_text((kind, None)))


def _by_text(item: tuple[tuple[Any, ...], Any]) -> Any:
    *numbers, true, predicted = item[0]
    return (*numbers, str(true), str(predicted))


def kept_examples(settings: RunSettings) -> int:
    """How many ids each list holds; 0 where none are kept."""
    found = None if settings.join is None else settings.join.examples
    return found if type(found) is int else 0


def merged_examples(settings: RunSettings, texts: Iterable[str | None]) -> Examples | None:
    """The examples of all units of a store; None where none are kept. Raises StoreError."""
    if not kept_examples(settings):
        return None
    whole = Examples(settings)
    for text in texts:
        one = Examples(settings)
        one.restore(text)
        whole.merge(one)
    return whole
