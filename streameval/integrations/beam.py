"""streameval on Apache Beam: exact states as a combiner, on any runner that runs Python.

Beam windows, groups, schedules and retries; here is only how an accumulator takes events and how
accumulators merge.

Importing this module needs the extra ``beam``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streameval.errors import MissingExtraError, OptionError
from streameval.evaluator.comparison import evaluation_from_bytes
from streameval.evaluator.evaluator import Evaluator, from_bytes
from streameval.records.event_table import PartCounter

try:
    import apache_beam
    from apache_beam.coders import Coder
except ImportError:
    raise MissingExtraError("EvaluateFn", package="apache-beam", extra="beam") from None

__all__ = ["EvaluateFn", "EvaluatorCoder"]

_PENDING = 4096
"""Events that an accumulator collects before they are counted as one batch."""


class _Accumulator:
    """An evaluator, and events that it has not counted yet."""

    # The evaluator is made when the first events are counted: most of many keys have few events.
    __slots__ = ("evaluator", "pending")

    def __init__(self, evaluator: Evaluator | None = None) -> None:
        self.evaluator = evaluator
        self.pending: list[Any] = []


# Beam recognises a coder and a combiner by their classes, so these derive from Beam's.
class EvaluatorCoder(Coder):  # type: ignore[misc]
    """An evaluator as the bytes of its state: the same events give the same bytes.

    Register it to write evaluators as elements, or as keys::

        beam.coders.registry.register_coder(se.Evaluator, EvaluatorCoder)

    >>> coder = EvaluatorCoder()
    >>> coder.decode(coder.encode(Evaluator())) == Evaluator(), coder.is_deterministic()
    (True, True)
    """

    def encode(self, value: Evaluator) -> bytes:
        """The state's bytes."""
        return value.to_bytes()

    def decode(self, encoded: bytes) -> Evaluator:
        """The evaluator of a state's bytes."""
        return from_bytes(encoded)

    def is_deterministic(self) -> bool:
        """True: a state has one form."""
        return True

    def to_type_hint(self) -> type[Evaluator]:
        """What is encoded."""
        return Evaluator


class _AccumulatorCoder(Coder):  # type: ignore[misc]
    """An accumulator as the bytes of its evaluator's state."""

    def __init__(self, counter: PartCounter) -> None:
        self._counter = counter

    def encode(self, value: _Accumulator) -> bytes:
        return _counted(self._counter, value).to_bytes()

    def decode(self, encoded: bytes) -> _Accumulator:
        # A part of the events, which is no shard.
        evaluator = evaluation_from_bytes(encoded)
        assert isinstance(evaluator, Evaluator)
        return _Accumulator(evaluator)

    def is_deterministic(self) -> bool:
        return True


class EvaluateFn(apache_beam.CombineFn):  # type: ignore[misc]
    """Combines predictions into an :class:`~streameval.Evaluator`, exactly.

    It works with ``CombineGlobally``, ``CombinePerKey`` and in Beam's windows, where late events
    are those that are late by Beam. An element is an event, as a dict, or a table of events: a
    data frame of pandas or polars, or an Arrow table or batch. Tables are faster by far, since
    Beam spends a microsecond or more on an element.

    The output's bytes are those of one evaluator that was given all events of the window and key,
    whatever the bundles and their order, where weights are whole.

    Args:
        **keywords: As of :func:`streameval.integrations.dask.evaluate`: the columns ``y_true``,
            ``y_pred``, ``score``, ``proba``, ``weight`` and ``unit`` (in an event the key, in
            which a dot goes into a dict), ``by`` for slices, and the options of
            :class:`~streameval.Evaluator`, such as ``task``, ``positive``, ``labels``,
            ``metrics`` and ``max_scores``. Not ``window`` and ``time``: bundles have no
            order, so which events are late is for Beam to decide, by ``beam.WindowInto``.

    Cost:
        An accumulator holds up to 4,096 events that are not counted yet, and one state.
        Between workers, the bytes of states.

    Raises:
        InputError: Names or options that conflict; within a pipeline, an event that cannot be
            counted, which is shown.
        StateError: Within a pipeline, states that do not merge, such as those of bundles with
            labels of another type.

    >>> count = EvaluateFn(y_true="label", score="p")
    >>> events = [{"label": n % 3 == 0, "p": n / 9} for n in range(9)]
    >>> round(count.apply(events)["roc_auc"], 4)
    0.3333
    """

    def __init__(self, **keywords: Any) -> None:
        super().__init__()
        for name in ("window", "time"):
            if keywords.get(name) is not None:
                remedy = "use beam.WindowInto(beam.window.SlidingWindows(3600, 300)) before it"
                raise OptionError.conflicts(name, "windows by Beam", remedy=remedy)
        self._counter = PartCounter.of(**keywords)

    def create_accumulator(self) -> _Accumulator:
        """An accumulator without events."""
        return _Accumulator()

    def add_input(self, accumulator: _Accumulator, element: Any) -> _Accumulator:
        """The accumulator with an event, or a table of events, added to it."""
        if hasattr(element, "columns") or hasattr(element, "schema"):  # a table
            evaluator = _counted(self._counter, accumulator)
            self._counter.count_table(evaluator, element)
            return accumulator
        accumulator.pending.append(element)
        if len(accumulator.pending) >= _PENDING:
            _counted(self._counter, accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Accumulator]) -> _Accumulator:
        """A new accumulator of the events of all; the operands are unchanged."""
        whole = self.create_accumulator()
        for other in accumulators:
            if other.evaluator is not None:
                if whole.evaluator is None:
                    whole.evaluator = other.evaluator.copy()
                else:
                    whole.evaluator.add_events(other.evaluator)
            whole.pending += other.pending
            if len(whole.pending) >= _PENDING:
                _counted(self._counter, whole)
        return whole

    def compact(self, accumulator: _Accumulator) -> _Accumulator:
        """The accumulator with all its events counted."""
        _counted(self._counter, accumulator)
        return accumulator

    def extract_output(self, accumulator: _Accumulator) -> Evaluator:
        """The evaluator of all events."""
        return _counted(self._counter, accumulator)

    def get_accumulator_coder(self) -> Coder:
        """A coder that writes accumulators as bytes of states."""
        return _AccumulatorCoder(self._counter)


def _counted(counter: PartCounter, accumulator: _Accumulator) -> Evaluator:
    """The accumulator's evaluator, its pending events counted."""
    if accumulator.evaluator is None:
        accumulator.evaluator = counter.evaluator()
    if accumulator.pending:
        pending, accumulator.pending = accumulator.pending, []
        counter.count_events(accumulator.evaluator, pending)
    return accumulator.evaluator
