"""Calls of the first hour that work: columns, chains, frames, pictures, and what editors list."""

from __future__ import annotations

import functools
import json
import pickle
import pydoc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.evaluator.public_class import INTERNAL

TRUTH, LABELS, SCORES = [1, 0, 1, 0], [1, 0, 0, 0], [0.9, 0.2, 0.4, 0.5]
COUNTRIES = list("SPSP")


def sliced() -> se.Evaluator:
    ev = se.Evaluator(slices=("country",), window=se.Panes("1h"), time_unit="s")
    return ev.update_many(
        TRUTH, score=SCORES, slices={"country": COUNTRIES}, event_time=[0, 1, 4000, 4001]
    )


def test_columns_count_as_a_table_of_them() -> None:
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    table = {"y": TRUTH, "p": LABELS, "s": SCORES, "c": COUNTRIES}
    of_table = se.evaluate(table, y_true="y", score="s", by="c")
    for kind in (list, np.array, pd.Series, pl.Series):
        columns = kind(TRUTH), kind(SCORES)
        by = {"c": kind(COUNTRIES)}
        assert se.evaluate(*columns, by=by) == of_table
        assert se.evaluate(y_true=columns[0], score=columns[1], by=by) == of_table
        assert se.evaluate(columns[0], score=columns[1], by=by) == of_table
    labels = se.evaluate(table, y_true="y", y_pred="p")
    assert se.evaluate(TRUTH, LABELS) == se.evaluate(y_true=TRUTH, y_pred=LABELS) == labels
    pets = se.evaluate(["cat", "dog"], ["cat", "cat"])
    assert (pets.task, pets["accuracy"]) == ("multiclass", 0.5)
    frame = pd.DataFrame({"y": TRUTH})
    assert se.evaluate(frame, np.array(SCORES)[:, None]) == se.evaluate(TRUTH, SCORES)
    proba = np.array([[0.7, 0.3], [0.2, 0.8]])
    of_two = se.evaluate(["a", "b"], proba, labels=["a", "b"])
    assert of_two == se.evaluate(y_true=["a", "b"], proba=pd.DataFrame(proba, columns=["a", "b"]),
                                 labels=["a", "b"])  # fmt: skip


def test_a_column_may_be_a_frame_or_an_array_of_one() -> None:
    pd = pytest.importorskip("pandas")
    plain = se.Evaluator().update_many(TRUTH, score=SCORES)
    truth, score = pd.DataFrame({"y": TRUTH}), np.array(SCORES)[:, None]
    assert se.Evaluator().update_many(truth, score=score) == plain
    assert se.Evaluator().update_many(truth.to_numpy(), score=pd.DataFrame({"s": SCORES})) == plain


def test_calls_chain() -> None:
    ev = se.Evaluator()
    assert ev.update(1, 0) is ev
    assert ev.update(1, 0, weight=np.int64(2)) is ev  # not on the fast path
    assert ev.update_many(TRUTH, LABELS) is ev
    assert ev.update_many(TRUTH * 20, LABELS * 20) is ev
    assert ev.merge(se.Evaluator()) is ev
    shards = [se.Evaluator().update(1, 1), se.Evaluator().update(0, 1)]
    total = functools.reduce(se.Evaluator.merge, shards, se.Evaluator())
    assert total["accuracy"] == 0.5
    comparison = se.Comparison()
    assert comparison.update(1, {"champion": 1, "challenger": 0}) is comparison
    assert comparison.update_many([1], {"champion": [1], "challenger": [0]}) is comparison


@pytest.mark.parametrize("options", [{}, {"window": "last:3"}, {"positive": "a"}])
def test_reset_is_a_new_evaluator_of_the_same_settings(options: dict[str, Any]) -> None:
    truth = ["a", "b"] if options.get("positive") else [1, 0]
    ev = se.Evaluator(**options)
    assert options.get("window") != "last:3" or ev == se.Evaluator(window=se.Last(3))
    view = ev.update_many(truth, truth).total
    assert ev.reset() is ev
    assert ev.is_empty
    assert ev.to_bytes() == se.Evaluator(**options).to_bytes()
    assert view.support == 2
    assert ev.update_many(truth, truth)["accuracy"] == 1.0
    assert ev == se.Evaluator(**options).update_many(truth, truth)
    assert ev.total.support == 2


def test_reset_of_slices_and_comparisons() -> None:
    ev = sliced()
    again = sliced().reset()
    assert again.slices() == {}
    again.update_many(
        TRUTH, score=SCORES, slices={"country": COUNTRIES}, event_time=[0, 1, 4000, 4001]
    )
    assert again == ev
    comparison = se.Comparison().update(1, {"champion": 1, "challenger": 0})
    assert comparison.reset().total["champion"].support == 0
    comparison.update(0, {"champion": 0, "challenger": 0})
    assert comparison["champion"]["accuracy"] == 1.0
    comparison._check()


def test_three_declared_labels_are_of_several_classes() -> None:
    assert se.Evaluator(labels=["a", "b", "c"]).task == "multiclass"
    assert se.Evaluator(labels=[0, 1]).task == se.Evaluator().task == "binary"
    assert se.Comparison(labels=["a", "b", "c"]).task == "multiclass"


def frames() -> dict[str, Any]:
    ev = sliced()
    comparison = se.Comparison().update_many(TRUTH, {"champion": LABELS, "challenger": TRUTH})
    return {
        "report": ev.report(),
        "report with intervals": ev.report(intervals=0.9),
        "series": ev.series("f1", intervals=0.9),
        "slices": ev.slices(),
        "slice report": ev.slice_report("f1", intervals=0.9),
        "classes": ev.classification_report(),
        "roc": ev.curve("roc"),
        "precision_recall": ev.curve("precision_recall"),
        "calibration": ev.curve("calibration"),
        "comparison": comparison.report(["accuracy"]),
    }


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_are_data_frames_of_what_is_loaded(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip(library)
    for other in {"pandas", "polars"} - {library}:
        monkeypatch.delitem(sys.modules, other, raising=False)
    monkeypatch.setitem(sys.modules, library, module)
    for name, table in frames().items():
        frame = table.to_frame()
        assert isinstance(frame, module.DataFrame), name
        assert len(frame) > 0, name
    rows = frames()["slice report"].to_frame()
    assert list(rows.columns)[:2] == ["slice", "country"]
    assert sorted(rows["country"]) == ["P", "S"]


def test_tables_in_notebooks_have_four_digits_and_short_texts() -> None:
    for name, table in frames().items():
        html = table._repr_html_()
        assert html.startswith("<table>"), name
        assert len(repr(table)) <= 200, name
    ev = se.Evaluator().update_many(TRUTH, LABELS)
    interval = ev.interval("accuracy")
    assert interval._repr_html_().startswith("<p>0.75 [0.3006, 0.9544] <small>0.95 wilson, n = 4")
    assert "<td>0.75 [0.3006, 0.9544]</td>" in ev.report(["accuracy"], intervals=0.95)._repr_html_()
    assert "threshold" in sliced().thresholds("youden")._repr_html_()
    comparison = se.Comparison().update_many(TRUTH, {"champion": LABELS, "challenger": TRUTH})
    assert "<table>" in comparison._repr_html_()
    assert "&lt;" not in comparison.difference("accuracy")._repr_html_()


def test_a_series_is_a_list_that_pickles() -> None:
    series = sliced().series("f1")
    assert isinstance(series, list)
    again = pickle.loads(pickle.dumps(series))
    assert (list(again), again.metric) == (list(series), "f1")


def test_loggers_take_a_flat_report() -> None:
    flat = se.evaluate(TRUTH, SCORES).report().to_dict(flat=True)
    assert flat["roc_auc"] == 0.75
    assert all(type(value) is float for value in flat.values())
    json.dumps(flat)


def test_editors_list_what_is_public() -> None:
    for kind in (se.Evaluator, se.Comparison, type(se.Evaluator().total)):
        names = {name for name in dir(kind) if name[0] != "_"}
        assert not names & INTERNAL
        assert {"report", "slices"} <= names or kind.__name__ == "View"
        assert "accuracy" not in names
    assert {"update", "curve", "plot", "merge", "reset"} <= set(dir(se.Evaluator()))
    assert not hasattr(se.Evaluator(), "accuracy")
    assert dir(se) == sorted(se.__all__)
    # An internal name is one that some class has.
    known = [se.Evaluator, se.Comparison, type(se.Evaluator().total)]
    assert not [name for name in INTERNAL if not any(hasattr(kind, name) for kind in known)]


def test_help_names_no_internal_base() -> None:
    for kind in (se.Evaluator, se.Comparison):
        text = pydoc.plain(pydoc.render_doc(kind))
        assert "Method resolution order" not in text
        assert "inherited from" not in text.replace("inherited from builtins.object", "")
        assert "update_many(" in text
        assert " fast_reader" not in text


def test_a_subclass_is_a_class_as_any_other() -> None:
    class Doubled(se.Evaluator):
        def update(self, *args: Any, **values: Any) -> Any:
            super().update(*args, **values)
            return super().update(*args, **values)

        def best(self) -> float:
            return self["accuracy"]

    assert Doubled.__mro__ == (Doubled, se.Evaluator, object)
    ev = Doubled().update(1, score=0.75)
    ev.update(0, score=0.25)
    assert (type(ev), ev.best(), ev.total.support) == (Doubled, 1.0, 4)
    assert isinstance(ev, se.Evaluator)
    assert pickle.loads(pickle.dumps(ev)) == ev


def test_a_name_is_loaded_when_it_is_used() -> None:
    code = "import sys, streameval; print('numpy' in sys.modules, streameval.Last(3))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False Last(n=3)\n"
    for name in se.__all__:
        assert getattr(se, name) is not None
    assert se.errors.InputError is se.InputError
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = se.nothing  # type: ignore[attr-defined]


def test_slices_that_are_not_declared_are_left_alone() -> None:
    ev = se.Evaluator(slices=("country",))
    for slices in ({"device": "x", "country": "S"}, {"device": "x"}, {}, {"device": "x"}):
        ev.update(1, 1, slices=slices)
    assert {key[0][1]: view.support for key, view in ev.slices().items()} == {
        "(missing)": 3,
        "S": 1,
    }
    for _ in range(2):  # also where events without a value have a slice
        with pytest.raises(
            se.InputError, match="expected the keys 'country', got 'contry'; did you mean"
        ):
            ev.update(1, 1, slices={"contry": "S"})
