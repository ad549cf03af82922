"""The evaluator's public interface: values, reasons, errors, files, representations."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import math
import pickle
import pkgutil
import re
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
import streameval.evaluator
from streameval.errors import OptionError
from streameval.metrics import Metric
from streameval.uncertainty.paired import PairedRequest

Y = [True, False, True, False, True]
S = [0.9, 0.4, 0.35, 0.1, 0.8]


def chunked(values: Any) -> Any:
    return pa.chunked_array([pa.array(values)])


@pytest.mark.parametrize("column", [list, tuple, np.array, pd.Series, pl.Series, pa.array, chunked])
def test_columns_of_every_kind(column: Any) -> None:
    plain, other = se.Evaluator(), se.Evaluator()
    plain.update_many(Y, score=S)
    other.update_many(column(Y), score=column(S))
    assert plain.to_bytes() == other.to_bytes()
    for labels in ([7, -2, -2, 3], ["a", "b", "b", "c"]):
        shifted = [*labels[1:], labels[0]]
        ev = se.Evaluator("multiclass")
        ev.update_many(column(labels), column(shifted))
        ev.update_many(labels, column(shifted), weight=column([2, 1, 1, 1]))
        categories = pd.Series(labels).astype("category")
        ev.update_many(categories, column(shifted), weight=np.array([1, 1, 1, 3]))
        cells = zip(labels, shifted, [4, 3, 3, 5], strict=True)
        assert [*ev.confusion.cells()] == sorted(cells)


def test_labels_of_another_kind_are_shown_with_a_remedy() -> None:
    """In columns; the frozen texts have those of one event, and of declared labels."""
    for y_true, y_pred, message in (
        (["yes", "no"], ["yes", "no"], "label 1, got 'yes' and 'no'; pass positive='yes' if"),
        ([1, 0], ["no", "no"], "y_pred[0]: expected labels like the default positive label"),
        ([*"abcdef"], [0] * 6, "got 'a' and 'b' and 'c' and 'd', …; pass positive='f'"),
    ):
        with pytest.raises(se.InputError, match=re.escape(message)):
            se.Evaluator().update_many(y_true, y_pred)


def test_a_metric_of_a_state_without_events_is_refused() -> None:
    ev, zero = se.Evaluator(), se.Evaluator(undefined=0.0)
    assert math.isnan(ev["roc_auc"])
    assert zero["roc_auc"] == 0.0
    ev.update(True, True)
    assert "roc_auc" not in [row.metric for row in ev.report()]
    for read, message in (
        # A number for undefined values hides no missing input.
        (lambda: zero.update(True, True)["roc_auc"], "got labels only"),
        (lambda: ev.curve("roc"), "roc needs scores"),
        (lambda: ev.report(["accuracy", "roc_auc"]), "roc_auc needs scores"),
        (lambda: ev.thresholds("best"), "no cut-point is called"),
        (lambda: ev["kappa_temporal"], "temporal=True"),
        (lambda: se.Evaluator(task="multiclass")["f1"], "f1 is about one class"),
    ):
        with pytest.raises(se.MetricError, match=message):
            read()


def test_what_is_not_merged() -> None:
    ev, other = se.Evaluator(positive="a"), se.Evaluator(positive="a")
    ev.update("b", "a")
    other.update("c", "a")
    before = ev.to_bytes()
    thrice = (one for one in (ev, se.Evaluator(positive="a"), ev))
    for evaluators, message in (
        ([ev, 3], r"evaluators\[1\]: expected an Evaluator, its bytes or its path, got int"),
        ([ev, other], "different negative labels"),
        (thrice, r"evaluators\[2\]: .* which evaluators\[0\] holds too .* allow_overlap=True"),
    ):
        with pytest.raises(se.StateError, match=message):
            se.merge(evaluators)  # type: ignore[arg-type]
    assert ev.to_bytes() == before
    for again in (ev, ev.copy()):
        assert se.merge([ev, again], allow_overlap=True).total.support == 2
    # Evaluators that come and go may have the address of an earlier one.
    assert se.merge(se.Evaluator().update(True, True) for _ in range(50))["support"] == 50.0


def test_merge_names_the_settings_that_differ() -> None:
    names, long = [f"class {n:03}" for n in range(100)], "x" * 500
    for task, name, mine, theirs, message in (
        ("multiclass", "labels", names, [*names[:-1], "o"], "['class 099'] only here and ['o'] on"),
        ("multiclass", "labels", [*"abc"], [*"acb"], "labels[1] is 'b' here and 'c'"),
        ("binary", "positive", long + "a", long + "b", "from character 500 on is 'a' here and 'b'"),
    ):
        one, other = (se.Evaluator(task, **{name: value}) for value in (mine, theirs))
        with pytest.raises(se.StateError, match=re.escape(message)):
            one.merge(other)


def test_a_binary_task_has_two_classes_whichever_occurs() -> None:
    for options in ({}, {"positive": "spam"}, {"positive": "spam", "labels": ["ham", "spam"]}):
        ev = se.Evaluator(**options, undefined=0)  # type: ignore[arg-type]
        positive = options.get("positive", True)
        ev.update(positive, positive)
        assert ev.confusion.labels == ev.labels
        assert ev.confusion.to_array().tolist() == [[0, 0], [0, 1]]
        assert ev["recall_macro"] == 0.5
        assert ev["geometric_mean"] == 0.0
        rows = ev.classification_report().rows
        assert list(rows.values()) == [(0.0, 0.0, 0.0, 0), (1.0, 1.0, 1.0, 1)]


def test_a_state_of_undeclared_classes_is_refused() -> None:
    ev = se.Evaluator(task="multiclass", labels=["b", "a"])
    ev.update("a", "b")
    state = ev.to_state()
    assert state["window"]["confusion"]["closed"] is False
    assert state["window"]["confusion"]["labels"] == ["a", "b"]
    assert se.Evaluator.from_state(copy.deepcopy(state)).confusion.labels == ["b", "a"]
    for change in ({"labels": ["a", "c"]}, {"closed": True}):
        damaged = copy.deepcopy(state)
        damaged["window"]["confusion"].update(change)
        with pytest.raises(se.StateError, match=r"^confusion\."):
            se.Evaluator.from_state(damaged)


def test_errors_survive_pickling() -> None:
    for error in (
        se.InputError("score", expected="a", got="b", remedy="c", remedy_code="d").at(3),
        OptionError.requires("--worst", "--slice", remedy="add --slice FIELD"),
        OptionError.conflicts("--proba", "--score"),
    ):
        twin = pickle.loads(pickle.dumps(error))
        assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))
        assert isinstance(twin, se.InputError)
    assert str(error.at(3)) == str(error)


def test_report_renders_hostile_labels_harmlessly() -> None:
    ev = se.Evaluator(task="multiclass")
    hostile = "<script>|\n\x1b[31m`"
    ev.update(hostile, "b")
    report = ev.classification_report()
    assert "\x1b" not in str(report)
    assert "<script>" not in report._repr_html_()
    assert "<script>" not in report.to_markdown()
    assert len(report.to_markdown().splitlines()) == 7
    assert "\n" not in str(ev.report(["precision_macro"])).splitlines()[1]


def frames(columns: dict[Any, Any]) -> dict[str, Any]:
    """The same columns in everything that names them."""
    made: dict[str, Any] = {"dict": columns, "pandas": pd.DataFrame(columns)}
    if all(isinstance(name, str) for name in columns):
        made["polars"] = pl.DataFrame(columns)
        made["table"] = pa.table(columns)
        made["batch"] = pa.record_batch(columns)
    return made


@settings(max_examples=10)
@given(
    st.integers(0, 2**32 - 1),
    st.permutations(range(4)),
    st.sampled_from([["ant", "bee", "cow", "dog"], [0, 1, 2, 3], [7, -1, 30, 4]]),
)
def test_columns_of_probabilities_are_taken_by_name(seed, order, labels):
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(4), 30)
    y_true = [labels[place] for place in rng.integers(0, 4, 30)]
    expected = se.Evaluator("multiclass", labels=labels).update_many(y_true, proba=matrix)

    def check(proba: Any, options: dict[str, Any], expected: se.Evaluator) -> None:
        found = se.Evaluator("multiclass", **options).update_many(y_true, proba=proba)
        assert found.to_bytes() == expected.to_bytes(), type(proba)

    # Declared numbers may be named by their text, which is all that files can hold.
    for names in (labels, [str(label) for label in labels]):
        for table in frames({names[place]: matrix[:, place] for place in order}).values():
            check(table, {"labels": labels}, expected)
        mappings = [{names[place]: row[place] for place in order} for row in matrix.tolist()]
        check(mappings, {"labels": labels}, expected)
        one = se.Evaluator("multiclass", labels=labels)
        for true, row in zip(y_true, mappings, strict=True):
            one.update(true, proba=row)
        assert one.to_bytes() == expected.to_bytes()
    columns = {labels[place]: matrix[:, place] for place in order}
    open_set = se.Evaluator("multiclass").update_many(y_true, proba=columns)
    for table in frames(dict(zip(labels, matrix.T, strict=True))).values():
        check(table, {}, open_set)
    sums = open_set.total._window.current().class_probability
    assert sums == expected.total._window.current().class_probability


def test_a_probability_may_be_certain() -> None:
    for low, high in ((0.0, 1.0), (0, 1)):
        ev = se.Evaluator().update(False, proba=low).update(True, proba=high)
        assert ev == se.Evaluator().update_many([False, True], proba=[low, high])


def test_names_that_are_no_labels() -> None:
    labels = ["setosa", "versicolor", "virginica"]
    columns = [[0.5, 0.0, 0.0], [0.25, 0.5, 1.0], [0.25, 0.5, 0.0]]
    evaluator = se.Evaluator("multiclass", labels=labels)
    before = evaluator.to_bytes()
    for names, message in (
        (["setsoa", *labels[1:]], "got 'setsoa'; did you mean 'setosa'"),
        ([0, 1, 2], "got 0; name the columns by the labels, or pass an array in the order"),
        (["id", *labels[1:]], "got 'id'; name the columns"),
    ):
        for frame in frames(dict(zip(names, columns, strict=True))).values():
            with pytest.raises(se.InputError, match=re.escape(message)):
                evaluator.update_many(labels, proba=frame)
    assert evaluator.to_bytes() == before
    table = pd.DataFrame(dict(zip(labels, columns, strict=True)))
    both = {0: [0.5], "0": [0.2], 1: [0.3]}
    numbers = {"labels": [0, 1]}
    for options, y_true, proba, message in (
        ({}, labels, pd.concat([table, table], axis=1), "each column once, got 'setosa' again"),
        (numbers, [0], both, r"expected each label once, got .*0"),
        (numbers, [0], pd.DataFrame(both), r"expected each label once, got .*0"),
        (numbers, [0], [{name: v[0] for name, v in both.items()}], r"each label once, got .*0"),
        # Without declared labels a text stays a text, and is refused beside numbers.
        ({}, [0, 1], pd.DataFrame({"0": [1, 0], "1": [0, 1]}), "number like the label 0, got '0'"),
        ({}, [0, 1], np.eye(2), "a data frame or a mapping, label -> column"),
    ):
        with pytest.raises(se.InputError, match=message):
            se.Evaluator("multiclass", **options).update_many(y_true, proba=proba)


def test_a_binary_frame_gives_the_positive_column_by_name() -> None:
    shares = [0.25, 0.75, 0.5]
    rest = [1 - share for share in shares]
    for positive, y_true, (own, other) in (
        ("spam", ["ham", "spam", "ham"], ("spam", "ham")),
        (True, [False, True, False], (True, False)),
        (1, [0, 1, 0], ("1", "0")),
        (-1, [1, -1, 1], (-1, 1)),
    ):
        expected = se.Evaluator(positive=positive).update_many(y_true, proba=shares)
        for columns in ({own: shares, other: rest}, {other: rest, own: shares}):
            for kind, frame in frames(columns).items():
                found = se.Evaluator(positive=positive).update_many(y_true, proba=frame)
                assert found.to_bytes() == expected.to_bytes(), kind
    evaluator = se.Evaluator(positive="spam")
    before = evaluator.to_bytes()
    for columns, message in (
        (
            {"sapm": shares, "ham": rest},
            "column for the positive label 'spam', got ['sapm', 'ham']",
        ),
        ({"spam": shares, "ham": shares}, "proba[0]: expected probabilities that add up to 1, got"),
        (
            {"spam": shares, "ham": rest, "x": rest},
            "expected two labels, each once, got 'x' beside",
        ),
    ):
        with pytest.raises(se.InputError, match=re.escape(message)):
            evaluator.update_many(["ham", "spam", "ham"], proba=pd.DataFrame(columns))
    assert evaluator.to_bytes() == before


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("window", [None, se.Last(5), se.Fading(5)], ids=repr)
def test_what_is_no_weight(task: Any, window: Any) -> None:
    evaluator = se.Evaluator(task, window=window)
    empty, text = evaluator.to_bytes(), "weight.*: expected a weight from 0 to"
    for weight in (False, np.True_, -1, "1", None, math.nan, math.inf, 2**53 + 1):
        for call in (evaluator.update, evaluator.revert):
            with pytest.raises(se.InputError, match=text):
                call(True, True, weight=weight)
        for column in ([1, weight], np.array([1, weight], dtype=object), np.array([weight] * 2)):
            with pytest.raises(se.InputError, match=text):
                evaluator.update_many([1, 1], [1, 1], weight=column)
    assert evaluator.to_bytes() == empty


@pytest.mark.parametrize(
    ("weight", "options"),
    [
        (0.5, {}),
        (1, {"intervals": True, "temporal": True}),
        (1, {"max_scores": 1024, "undefined": 0.0}),
        (1, {"window": se.Last(30)}),
        (0.5, {"window": se.Panes("30s", "10s"), "time_unit": "s", "intervals": True}),
        (1, {"window": se.Fading("10s"), "time_unit": "s", "max_scores": 1024}),
    ],
)
def test_a_second_read_looks_nothing_up(options: dict[str, Any], weight: float) -> None:
    ev = se.Evaluator(**options)
    called: set[str] = set()
    for n in range(60):
        time = n if "time_unit" in options else None
        ev.update(n % 3 == 0, score=n * 7 % 10 / 10, weight=weight, event_time=time)
        for name in ("accuracy", "f1", "log_loss", "roc_auc", "cohen_kappa") if n > 2 else ():
            assert ev[name] == ev.total[name]
            sys.setprofile(lambda frame, kind, _: called.add(frame.f_code.co_name))
            try:
                ev[name]
            finally:
                sys.setprofile(None)
    assert not {"shortcut", "find", "bind"} & called


# What they print ---------------------------------------------------------------------------


NUMBERS = {
    kind
    for module in pkgutil.iter_modules(streameval.evaluator.__path__, "streameval.evaluator.")
    for kind in vars(importlib.import_module(module.name)).values()
    if isinstance(kind, type)
    and dataclasses.is_dataclass(kind)
    # Levels and rates are options.
    and {f.name for f in dataclasses.fields(kind) if f.type == "float"} - {"level", "rate"}
} - {Metric, PairedRequest}
"""Results with a number that may be undefined."""


def test_results_with_undefined_values_are_equal() -> None:
    """On every Python, and after a pickle: a dataclass's own ``==`` is of values since 3.13."""
    assert {"Difference", "Change", "Bounds"} <= {kind.__name__ for kind in NUMBERS}
    for kind in NUMBERS:
        for name in (field.name for field in dataclasses.fields(kind)):
            values = dict.fromkeys((field.name for field in dataclasses.fields(kind)), 0.5)
            one, two = (kind(**{**values, name: float("nan")}) for _ in range(2))
            assert one == two
            assert hash(one) == hash(two)
            assert one != kind(**values)
            assert one != tuple(values.values())


def test_evaluators_print_what_they_are_of_and_hold() -> None:
    empty = se.Evaluator("multiclass")
    assert repr(empty).endswith("0 events>")
    assert "0 events" in empty._repr_html_()
    ev = se.Evaluator(window=se.Last(100), slices=("c",), positive="<b>", metrics=["roc_auc", "f1"])
    ev.update_many(["<b>", "x"], score=[0.9, 0.1], slices={"c": ["p", "q"]})
    assert repr(ev) == (
        "<Evaluator: binary, positive '<b>', window last (n 100), 2 events; 2 slices; "
        "f1 1, roc_auc 1>"
    )
    assert "<b>" not in ev._repr_html_()
    assert all("1 events" in repr(view) for view in ev.slices().values())
    one_class = se.Evaluator(metrics=["roc_auc"]).update(True, score=0.5)
    assert repr(one_class).endswith("1 events; roc_auc nan>")
    assert "roc_auc" not in repr(se.Evaluator().update(True, True))


def test_counts_print_their_matrix() -> None:
    counts = se.ConfusionCounts.from_matrix([[2**70, 0], [1, 4]], ["<b>", "a\n"])
    assert str(counts).splitlines()[1].split() == ["<b>", str(2**70), "0"]
    assert str(counts).splitlines()[2].split() == [r"a\n", "1", "4"]
    assert "&lt;b&gt;" in counts._repr_html_()
    many = se.ConfusionCounts()
    many.update_many(range(23), range(23))
    assert str(many).endswith("\n3 more classes are not shown; to_array() has all")
