"""The first hour: calls that work, and mistakes with the words that name the remedy, which is run.

A remedy that does not work is worse than none, so every mistake has the corrected call.
"""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streameval as se
from streameval.evaluator.public_class import INTERNAL

TRUTH, LABELS, SCORES = [1, 0, 1, 0], [1, 0, 0, 0], [0.9, 0.2, 0.4, 0.5]
TEXTS, GUESSES = ["yes", "no", "yes", "no"], ["yes", "no", "no", "no"]
PETS, PREDICTED = ["cat", "dog", "owl", "cat"], ["cat", "dog", "cat", "cat"]
COUNTRIES = list("SPSP")
PAIRS = np.array([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
TRIPLES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2], [0.5, 0.3, 0.2]])
LOGITS = np.array([[2.0, -1.0, 0.5], [0.1, 3.0, -2.0], [2.5, 1.0, 2.0], [1.5, 0.0, -1.0]])


@functools.cache
def made() -> dict[str, Any]:
    """What rows can use, beside modules and the columns above."""
    frame = {"y": TRUTH, "p": LABELS, "s": SCORES, "w": [1, 2, 1, 1], "country": COUNTRIES}
    multi = se.Evaluator(task="multiclass", labels=["cat", "dog", "owl"])
    by_country = se.Evaluator(slices=("country",))
    both = {"champion": LABELS, "challenger": TRUTH}
    return {
        "df": pd.DataFrame(frame),
        "ev": se.Evaluator().update_many(TRUTH, score=SCORES),
        "new": se.Evaluator(),
        "multi": multi.update_many(PETS, proba=TRIPLES),
        "sliced": by_country.update_many(TRUTH, score=SCORES, slices={"country": COUNTRIES}),
        "c": se.Comparison().update_many(TRUTH, both),
        "softmax": np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True),
    }


def run(code: str) -> None:
    """Evaluate a call with what it names; copied, because calls count events."""
    copies = {name: one.copy() for name, one in made().items() if name in code}
    eval(code, {**globals(), **copies})


def mistakes() -> list[tuple[str, str, str]]:
    """The mistake, words of its message, and the call that the message leads to."""
    text = Path(__file__).parents[1].joinpath("support", "mistakes.txt").read_text("utf-8")
    lines = [line.strip() for line in text.split("\n") if line.strip() and line[0] != "#"]
    assert len(lines) >= 300
    return list(zip(lines[::3], lines[1::3], lines[2::3], strict=True))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("mistake", "words", "remedy"), mistakes(), ids=lambda text: text[:50])
def test_a_mistake_names_its_remedy(mistake: str, words: str, remedy: str) -> None:
    with pytest.raises(
        (se.StreamevalError, TypeError, AttributeError, KeyError, OSError)
    ) as raised:
        run(mistake)
    if se.backend() == "native" or "got an unexpected keyword" not in str(raised.value):
        # In Python each event's call would take longer, if its keywords were explained.
        assert words in str(raised.value)
    run(remedy)


# Calls that work ------------------------------------------------------------------


def sliced() -> se.Evaluator:
    ev = se.Evaluator(slices=("country",), window=se.Panes("1h"), time_unit="s")
    return ev.update_many(
        TRUTH, score=SCORES, slices={"country": COUNTRIES}, event_time=[0, 1, 4000, 4001]
    )


def test_columns_count_as_a_table_of_them() -> None:
    pl = pytest.importorskip("polars")
    table = {"y": TRUTH, "p": LABELS, "s": SCORES, "c": COUNTRIES}
    of_table = se.evaluate(table, y_true="y", score="s", by="c")
    for kind in (list, np.array, pd.Series, pl.Series):
        truth, scores, by = kind(TRUTH), kind(SCORES), {"c": kind(COUNTRIES)}
        assert se.evaluate(truth, scores, by=by) == of_table
        assert se.evaluate(y_true=truth, score=scores, by=by) == of_table
        assert se.evaluate(truth, score=scores, by=by) == of_table
    labels = se.evaluate(table, y_true="y", y_pred="p")
    assert se.evaluate(TRUTH, LABELS) == se.evaluate(y_true=TRUTH, y_pred=LABELS) == labels
    pets = se.evaluate(["cat", "dog"], ["cat", "cat"])
    assert (pets.task, pets["accuracy"]) == ("multiclass", 0.5)
    # A column may be a frame or an array of one.
    frame, column = pd.DataFrame({"y": TRUTH}), np.array(SCORES)[:, None]
    plain = se.evaluate(TRUTH, SCORES)
    assert plain == se.evaluate(frame, column)
    assert plain == se.Evaluator().update_many(frame, score=column)
    assert plain == se.Evaluator().update_many(frame.to_numpy(), score=pd.DataFrame({"s": SCORES}))
    proba = np.array([[0.7, 0.3], [0.2, 0.8]])
    shares, closed = pd.DataFrame(proba, columns=["a", "b"]), ["a", "b"]
    of_two = se.evaluate(closed, proba, labels=closed)
    assert of_two == se.evaluate(y_true=closed, proba=shares, labels=closed)


def test_calls_chain() -> None:
    shards = [se.Evaluator().update(1, 1), se.Evaluator().update(0, 1, weight=np.int64(1))]
    total = functools.reduce(se.Evaluator.merge, shards, se.Evaluator())
    assert total["accuracy"] == 0.5
    ev, comparison = se.Evaluator(), se.Comparison()
    assert ev.update_many(TRUTH, LABELS).update_many(TRUTH * 20, LABELS * 20).reset() is ev
    assert comparison.update(1, {"champion": 1, "challenger": 0}).reset() is comparison
    assert comparison.update_many([1], {"champion": [1], "challenger": [0]}) is comparison
    assert se.Evaluator(labels=["a", "b", "c"]).task == "multiclass"


@pytest.mark.parametrize(
    "new",
    [
        se.Evaluator,
        lambda: se.Evaluator(window="last:3"),
        lambda: se.Evaluator("multiclass"),
        lambda: se.Evaluator(slices=["k"], window=se.Panes("1h"), time_unit="s"),
        se.Comparison,
    ],
)
def test_reset_is_a_new_evaluator_of_the_same_settings(new: Any) -> None:
    def fed(ev: Any) -> Any:
        y_pred: Any = TRUTH if new is not se.Comparison else dict.fromkeys(ev.models, TRUTH)
        return ev.update_many(TRUTH, y_pred, event_time=[0, 1, 4000, 4001], slices={"k": COUNTRIES})

    ev = fed(new())
    view = ev.total
    before = view.report().to_dict()
    assert ev.reset().to_bytes() == new().to_bytes()
    assert view.report().to_dict() == before
    assert ev.slices() == {}
    assert fed(ev) == fed(new())
    ev._check()


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
        **{name: ev.curve(name) for name in ("roc", "precision_recall", "calibration")},
        "comparison": comparison.report(["accuracy"]),
    }


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_are_data_frames_of_what_is_loaded(library, monkeypatch):
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
    html = ev.interval("accuracy")._repr_html_()
    assert html.startswith("<p>0.75 [0.3006, 0.9544] <small>0.95 wilson, n = 4")
    assert "<td>0.75 [0.3006, 0.9544]</td>" in ev.report(["accuracy"], intervals=0.95)._repr_html_()
    assert "threshold" in sliced().thresholds("youden")._repr_html_()
    comparison = se.Comparison().update_many(TRUTH, {"champion": LABELS, "challenger": TRUTH})
    assert "<table>" in comparison._repr_html_()
    assert "&lt;" not in comparison.difference("accuracy")._repr_html_()


def test_a_series_is_a_list_that_pickles_and_loggers_take_a_flat_report() -> None:
    series = sliced().series("f1")
    again = pickle.loads(pickle.dumps(series))
    assert isinstance(series, list)
    assert (list(again), again.metric) == (list(series), "f1")
    flat = se.evaluate(TRUTH, SCORES).report().to_dict(flat=True)
    assert flat["roc_auc"] == 0.75
    assert {type(value) for value in flat.values()} == {float}


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


def test_a_subclass_is_a_class_as_any_other() -> None:
    class Doubled(se.Evaluator):
        def update(self, *args: Any, **values: Any) -> Any:
            super().update(*args, **values)
            return super().update(*args, **values)

    assert Doubled.__mro__ == (Doubled, se.Evaluator, object)
    ev = Doubled().update(1, score=0.75).update(0, score=0.25)
    assert (type(ev), ev["accuracy"], ev.total.support) == (Doubled, 1.0, 4)
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
    found = {key[0][1]: view.support for key, view in ev.slices().items()}
    assert found == {"(missing)": 3, "S": 1}
    for _ in range(2):  # also where events without a value have a slice
        with pytest.raises(se.InputError, match="keys 'country', got 'contry'; did you mean"):
            ev.update(1, 1, slices={"contry": "S"})
