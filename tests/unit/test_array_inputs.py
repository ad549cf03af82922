"""Arrays of other libraries, (n, 2) probabilities, iterables of events, and tracks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streameval as se


class OnlyDlpack:
    def __init__(self, values: Any) -> None:
        self._array = np.asarray(values)

    def __dlpack__(self, **options: Any) -> Any:
        if not self._array.size:
            raise BufferError("on a GPU")
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


class OnlyArray:
    __hash__ = None  # type: ignore[assignment]  # as arrays of jax

    def __init__(self, values: Any) -> None:
        self._array = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


@pytest.mark.parametrize("kind", [OnlyDlpack, OnlyArray, np.asarray, lambda values: values])
@pytest.mark.parametrize("window", [None, se.Last(5)])
def test_arrays_of_any_library(kind: Any, window: Any) -> None:
    ev, expected = se.Evaluator(window=window), se.Evaluator(window=window)
    ev.update_many(kind([1, 0, 1]), score=kind([0.5, 0.25, 0.125]), weight=kind([1, 2, 3]))
    ev.update(kind(1), score=kind(0.5), weight=kind(2))
    ev.update_many([kind(0)], [kind(1)])  # labels without a hash
    ev.update_many([1, 0], proba=kind([[0.25, 0.75], [0.5, 0.5]]))
    expected.update_many([1, 0, 1], score=[0.5, 0.25, 0.125], weight=[1, 2, 3])
    expected.update(1, score=0.5, weight=2)
    expected.update(0, 1)
    expected.update_many([1, 0], proba=[0.75, 0.5])
    assert ev.to_bytes() == expected.to_bytes()
    with pytest.raises(se.InputError, match="add up to 1"):
        ev.update_many([1], proba=kind([[0.25, 0.25]]))


def test_columns_in_an_order_that_is_no_guess_and_an_array_elsewhere() -> None:
    named = se.Evaluator(positive="spam")
    named.update_many(["ham", "spam"], proba=np.array([[0.9, 0.1], [0.2, 0.8]]))
    assert named["accuracy"] == 1
    for positive, labels in (("ham", ["ham", "spam"]), ("spam", None)):
        ev = se.Evaluator(positive=positive, labels=labels)
        with pytest.raises(se.InputError, match="two columns in the order of the labels"):
            ev.update_many([positive], proba=np.array([[0.5, 0.5]]))
    with pytest.raises(se.InputError, match=r"on a GPU.*tensor.detach\(\).cpu\(\)"):
        se.Evaluator().update_many(OnlyDlpack([]), [])


def events(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        event: dict[str, Any] = {"y_true": draw.random() < 0.5, "score": draw.random()}
        if draw.random() < 0.3:
            event["weight"] = draw.randrange(1, 4)
        event["slices"] = {"c": draw.choice("pq")} if draw.random() < 0.9 else {}
        made.append(event)
    return made


@pytest.mark.parametrize(
    ("batch", "bad"),
    [(1, None), (7, None), (4096, None), (6, 0), (6, 5), (6, 6), (6, 99)],
)
def test_consumed_events_are_those_of_update_up_to_a_bad_one(batch: int, bad: int | None) -> None:
    made = events(100, 1)
    ev, expected = se.Evaluator(slices=("c",)), se.Evaluator(slices=("c",))
    for event in made[:bad]:
        expected.update(**event)
    if bad is None:
        assert ev.consume(iter(made), batch=batch) == 100
    else:
        made[bad] = {**made[bad], "score": float("nan")}
        with pytest.raises(se.InputError, match=rf"score\[{bad}\]: expected a finite number"):
            ev.consume(made, batch=batch)
    assert ev.to_bytes() == expected.to_bytes()


def test_what_a_broken_iterable_gave_is_counted_and_what_is_none_is_refused() -> None:
    def stream() -> Iterator[tuple[int, int]]:
        yield 1, 1
        yield 0, 1
        raise OSError("gone")

    ev = se.Evaluator()
    with pytest.raises(OSError, match="gone"):
        ev.consume(stream())
    for wrong, options, words in (
        ([{"label": 1}], {}, "expected y_true and some of"),
        ([(1, 2, 3)], {}, "expected a mapping, or a tuple of y_true, y_pred"),
        (5, {}, "expected an iterable"),
        ([], {"fields": ("label",)}, "fields: expected some of"),
    ):
        with pytest.raises(se.InputError, match=words):
            ev.consume(wrong, **options)  # type: ignore[arg-type]
    assert ev.total.support == 2


def test_a_track_is_the_evaluator_at_each_moment() -> None:
    made = [(event["y_true"], event["score"]) for event in events(2350, 3)]
    one, many, consumed = (se.Evaluator().track(every=1000) for _ in range(3))
    assert (len(one), one.series("f1"), str(one)) == (0, [], "events")
    for truth, score in made:
        one.update(truth, score=score)
    truths, scores = zip(*made, strict=True)
    many.update_many(np.array(truths[:1500]), score=np.array(scores[:1500]))
    many.update_many(list(truths[1500:]), score=list(scores[1500:]))
    assert consumed.consume(made, fields=("y_true", "score")) == 2350
    assert se.Evaluator().consume([]) == 0
    assert one.to_dict() == many.to_dict() == consumed.to_dict()
    assert one.to_dict()["events"] == [1000, 2000, 2350]
    expected = se.Evaluator().update_many(list(truths[:2000]), score=list(scores[:2000]))
    assert one.series("roc_auc")[1].value == expected["roc_auc"]
    with pytest.raises(se.InputError, match="metric: expected one of accuracy"):
        one.series("precision")
    with pytest.raises(se.InputError, match="every: expected a number of events"):
        se.Evaluator().track(every=0)


def test_prequential_with_a_track_and_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    model = SimpleNamespace(predict_one=lambda x: True, learn_one=lambda x, y: None)
    model.clone = lambda: model
    stream = [({}, n % 2 == 0) for n in range(25)]
    result = se.prequential(model, stream, se.Evaluator(), track=10, progress=True)
    assert result.track is not None
    assert result.track.to_dict()["accuracy"] == [0.5, 0.5, 13 / 25]
    out, err = capsys.readouterr()
    assert (out, "25/25" in err) == ("", True)
    with pytest.raises(se.InputError, match="track: expected one evaluator without folds"):
        se.prequential(model, stream, se.Evaluator(), track=10, folds=2)


def test_a_tick_over_several_rows_is_one_row() -> None:
    ev = se.Evaluator()
    track = ev.track(every=2, metrics=["accuracy"])
    for right, ticks in ((5, [5]), (0, [1]), (2, [0, 2]), (1, [1])):
        ev.update_many([1] * sum(ticks), [1] * right + [0] * (sum(ticks) - right))
        for events in ticks:
            track.tick(events)
    assert track.to_dict() == {"events": [5, 6, 8, 9], "accuracy": [1.0, 5 / 6, 7 / 8, 8 / 9]}
    assert len(track) == 4
    with pytest.raises(se.InputError, match="events: expected a number of events, got -1"):
        track.tick(-1)


@pytest.mark.parametrize("name", ["y_true", "y_pred", "score", "weight", "event_time", "unit"])
def test_a_table_is_no_column(name: str) -> None:
    window = se.Panes("1h", pane="5m") if name == "event_time" else None
    bootstrap = se.Bootstrap(20, unit="u") if name == "unit" else None
    ev = se.Evaluator(window=window, bootstrap=bootstrap)
    before = ev.to_bytes()
    for table in (pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table, pa.RecordBatch.from_pydict):
        columns = {"y_true": [1, 0], "y_pred": [1, 0], name: table({"a": [1, 0], "b": [1, 0]})}
        with pytest.raises(se.InputError, match=rf"^{name}: expected a column"):
            ev.update_many(columns.pop("y_true"), **columns)
    assert ev.to_bytes() == before
