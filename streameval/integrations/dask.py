"""streameval on Dask: exact states of data frames, bags and delayed parts, merged in a tree.

Dask schedules, sends and retries; here is only what a task does. A task counts a part and returns
its state as bytes; further tasks merge those. Both depend on nothing but their arguments
and leave them as they are, so a task that Dask runs again, because its worker was lost, gives the
same bytes.

Importing this module needs the extra ``dask``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from streameval.errors import InputError, MissingExtraError, StateError, shown
from streameval.evaluator.evaluator import Evaluator, from_bytes
from streameval.records.event_table import PartCounter
from streameval.records.spec import Proba
from streameval.tasks.registry import TaskName
from streameval.windows.window import WindowSpec

try:
    from dask.delayed import Delayed, delayed
except ImportError:
    raise MissingExtraError("streameval on Dask", package="dask", extra="dask") from None

__all__ = ["evaluate"]


def evaluate(
    data: Any,
    *,
    y_true: str | Mapping[Any, str] = "y_true",
    y_pred: str | None = None,
    score: str | None = None,
    proba: Proba | None = None,
    weight: str | None = None,
    unit: str | None = None,
    time: str | None = None,
    by: str | Iterable[str | Iterable[str]] | None = (),
    window: WindowSpec | None = None,
    task: TaskName | Literal["auto"] | None = None,
    split_every: int = 8,
    **options: Any,
) -> Evaluator:
    """Evaluate the predictions in a Dask collection, exactly.

    Each task counts a part (a partition of the collection, or a delayed object); further tasks
    merge the states of ``split_every`` parts until one is left, which the client gets. Its bytes
    are those of one evaluator that was given all events, whatever the parts and their order,
    where weights are whole.

    Args:
        data: A Dask DataFrame; a bag of dicts; or a list of delayed objects, each a table
            (pandas, polars, Arrow), a list of dicts, or the path of a file that the command line
            reads (on the worker).
        y_true: Column of the true label, number or list of labels; or, of label sets, the columns
            of 0 and 1: ``PREFIX*SUFFIX`` or a mapping from labels, which they declare.
        y_pred: Column of the predicted label.
        score: Binary: column of the positive class's score.
        proba: Probabilities: a column of numbers (binary), of mappings from labels or of lists in
            the order of ``labels``; ``PREFIX*SUFFIX``, a column a label; a mapping from labels
            to columns; or columns in the order of ``labels``.
        weight: Column of the weight.
        unit: Column of the unit, with ``bootstrap=``, whose own ``unit`` it is by default.
        time: Column of the event time: times with zone (numpy's and pandas' without are UTC), or
            numbers with ``time_unit=``.
        by: A column, or a list of columns or of tuples of columns, to slice by.
        window: None, :class:`~streameval.Panes` or :class:`~streameval.Fading` of event time.
            A part has no order of arrival: its events count in the order of their times, so none
            is late.
        task: As of :class:`~streameval.Evaluator`; by default binary where ``score``,
            ``positive`` or ``threshold`` is given, and else multi-class. Nothing is
            inferred from the values of a part.
        split_every: Most states that a task merges, at least 2.
        **options: Any other option of :class:`~streameval.Evaluator`, such as ``positive``,
            ``labels``, ``metrics``, ``max_scores`` or ``intervals``.

    Cost:
        One pass over the named columns. What is sent between workers, and to the client, is
        states: 24 bytes a distinct score, of which there are
        ``max_scores`` at most. A worker holds a part and its state, or two states.

    Raises:
        InputError: A column that is not there, options that conflict, or an event that cannot be
            counted, with its column, part and row.
        MetricError: An unknown metric.
        StateError: States that do not merge, such as those of parts with labels of another type.

    >>> import dask.bag
    >>> events = dask.bag.from_sequence(
    ...     [{"label": n % 3 == 0, "p": n / 9} for n in range(9)], npartitions=2)
    >>> round(evaluate(events, y_true="label", score="p")["roc_auc"], 4)
    0.3333
    """
    given = {**locals()}
    if type(split_every) is not int or split_every < 2:
        raise InputError(
            "split_every", expected="a number of states from 2", got=shown(split_every)
        )
    counter = PartCounter.of_call(given)
    parts = _parts(data, counter)
    if hasattr(data, "columns"):
        counter = counter.with_columns(data.columns)
    count = delayed(partial(_counted, counter), pure=False)
    states = [count(part, number) for number, part in enumerate(parts)]
    while len(states) > 1:
        groups = [states[n : n + split_every] for n in range(0, len(states), split_every)]
        states = [
            delayed(_merged, pure=False)(group) if len(group) > 1 else group[0] for group in groups
        ]
    return from_bytes(states[0].compute().state) if states else counter.evaluator()


def _parts(data: Any, counter: PartCounter) -> list[Any]:
    """The delayed parts of a collection; of a data frame only the columns that are read."""
    if hasattr(data, "to_delayed"):
        if hasattr(data, "columns"):
            data = data[counter.columns_in(data.columns)]
        elif not hasattr(data, "to_dataframe"):  # an array, which is no bag
            raise _not_parts(data)
        return list(data.to_delayed())
    parts = list(data) if isinstance(data, (list, tuple)) else []
    if not parts or not all(isinstance(part, Delayed) for part in parts):
        raise _not_parts(data)
    before: dict[Any, int] = {}
    for number, part in enumerate(parts):
        if part.key in before:
            raise InputError(
                f"data[{number}]",
                expected="each part once",
                got=f"that of data[{before[part.key]}] again, whose events would count twice",
            )
        before[part.key] = number
    return parts


def _not_parts(data: Any) -> InputError:
    return InputError(
        "data",
        expected="a Dask DataFrame, a bag of dicts or a list of delayed objects",
        got=f"{shown(data)} of type {type(data).__name__}",
        remedy="streameval.Evaluator counts what is in memory",
    )


class _Partial(NamedTuple):
    """The state of some consecutive parts, as a task returns it."""

    first: int
    last: int
    state: bytes
    paths: dict[str, int]
    """The parts that are files: the number of each."""

    @property
    def name(self) -> str:
        if self.first == self.last:
            return f"part {self.first}"
        return f"parts {self.first} to {self.last}"


def _counted(counter: PartCounter, part: Any, number: int) -> _Partial:
    evaluator = counter.evaluator()
    counter.count(evaluator, part, f"part {number}")
    paths = {os.path.realpath(part): number} if isinstance(part, (str, os.PathLike)) else {}
    return _Partial(number, number, evaluator.to_bytes(), paths)


def _merged(partials: Sequence[_Partial]) -> _Partial:
    """The merge of states; two are held at once, beside the bytes of the others."""
    whole = partials[0]
    evaluator = from_bytes(whole.state)
    paths = dict(whole.paths)
    for other in partials[1:]:
        for path, number in other.paths.items():
            if paths.setdefault(path, number) != number:
                raise InputError(
                    f"data[{number}]",
                    expected="each part once",
                    got=f"the file of data[{paths[path]}] again, whose events would count twice",
                )
        try:
            evaluator.add_events(from_bytes(other.state))
        except StateError as error:
            raise StateError(f"{whole.name} and {other.name}: {error}") from None
        whole = whole._replace(last=other.last)
    return whole._replace(state=evaluator.to_bytes(), paths=paths)
