"""Every argument of the public interface with values of wrong types: accepted, or refused in words.

A raw TypeError, AttributeError or KeyError shows where the code failed, not what to pass.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

import streameval as se
from streameval.errors import InputError, MetricError, StreamevalError
from tests.support import golden_errors


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def wrong_values() -> list[Any]:
    """Made anew for each call, because an iterator is used up."""
    return [
        None, True, 5, -1, 0, 2**70, 0.5, float("nan"), float("inf"), 1j, "a", "", "1h", b"x",
        [], [1], ["a"], [None], [[1], [2]], [{"a": 1}], [{"a": [1]}], (1, 2), {1, 2}, range(3),
        {}, {"a": 1}, {"a": "b"}, {"c": [1]}, {"c": "x"}, {1: 0.5, 0: 0.5}, iter([1]), object(),
        Silent(), int, ValueError("x"), datetime(2020, 1, 1), timedelta(1),
        np.datetime64("NaT", "s"), np.array(3), np.array("a"), np.array([1, 2]),
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.array([1, "a", None], dtype=object), np.ma.array([1, 2], mask=[False, True]),
    ]  # fmt: skip


def raw_errors(call: Callable[[Any], object]) -> list[str]:
    """What is raised for the wrong values and is no error in words."""
    raw = []
    for number, value in enumerate(wrong_values()):
        try:
            call(value)
        except StreamevalError:
            pass
        except Exception as error:
            raw.append(f"value {number}, {type(value).__name__}: {error!r}")
    return raw


SETUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "last": {"window": se.Last(3)},
    "panes": {"window": se.Panes("1h"), "time_unit": "s"},
    "fading": {"window": se.Fading(5)},
    "slices": {"slices": ("c",)},
    "one metric": {"metrics": ["roc_auc"]},
}
FIELDS = ("y_true", "y_pred", "score", "proba", "weight", "event_time", "slices")
OWN = {
    "plain": FIELDS, "last": ("weight",), "panes": ("event_time",), "fading": ("weight",),
    "slices": ("slices",), "one metric": ("y_pred", "score", "proba"),
}  # fmt: skip
"""The fields that a set-up reads otherwise than the plain one; see `test_refusals.py` as well."""
CASES = [(setup, field) for setup, fields in OWN.items() for field in fields]


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("name", list(inspect.signature(se.Evaluator).parameters))
def test_what_an_evaluator_is_made_of(task: str, name: str) -> None:
    assert raw_errors(lambda value: se.Evaluator(**{"task": task, name: value})) == []


@pytest.mark.parametrize(("setup", "field"), CASES)
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_events(task: Any, setup: str, field: str) -> None:
    options = dict(SETUPS[setup])
    if task == "multiclass" and setup == "one metric":
        options = {"metrics": ["log_loss"]}
    one: dict[str, Any] = {"y_true": 1, "y_pred": 0, "event_time": 5, "slices": {"c": "a"}}
    many: dict[str, Any] = {
        "y_true": [1, 0], "y_pred": [0, 1], "event_time": [5, 6], "slices": {"c": ["a", 1]},
    }  # fmt: skip
    bare = [{}, {"y_pred": None}] if field != "y_pred" else [{}]
    spare, untouched = se.Evaluator(task, **options), se.Evaluator(task, **options)

    def tried(value: Any) -> None:
        """Calls on an empty evaluator; one that is refused is made again on another."""
        nonlocal spare
        for verb in ("update", "revert", "update_many"):
            for more in bare:
                for tried in (value, [value, value])[: 1 + (verb == "update_many")]:
                    event = {**(many if verb == "update_many" else one), **more, field: tried}
                    try:
                        getattr(spare, verb)(**event)
                    except InputError:
                        with pytest.raises(InputError):
                            getattr(untouched, verb)(**event)
                    else:
                        spare = se.Evaluator(task, **options)

    assert raw_errors(tried) == []
    assert untouched.to_bytes() == se.Evaluator(task, **options).to_bytes()


def test_wrong_arguments_of_queries() -> None:
    ev = se.Evaluator(slices=("c",), window=se.Panes("1h"), time_unit="s")
    ev.update_many(
        [0, 1, 1], score=[0.1, 0.6, 0.4], event_time=[1, 2, 3], slices={"c": ["a", "b", "a"]}
    )
    multi = se.Evaluator("multiclass")
    multi.update_many(["a", "b"], proba={"a": [0.5, 0.2], "b": [0.5, 0.8]})
    questions: list[Callable[[Any], object]] = [
        lambda v: ev.value(v),
        lambda v: ev.value("accuracy", undefined=v),
        lambda v: ev.value("f1", average=v),
        lambda v: ev.value("fbeta", beta=v),
        lambda v: ev.value("partial_roc_auc", max_fpr=v),
        lambda v: ev.value("partial_roc_auc", mcclish=v),
        lambda v: multi.value("top_k_accuracy", k=v),
        lambda v: multi.value("f1_macro", average=v),
        lambda v: ev.report([v]),
        lambda v: ev.series(v),
        lambda v: ev.curve(v),
        lambda v: ev.curve("roc", drop_intermediate=v),
        lambda v: ev.thresholds(v),
        lambda v: ev.slice_report(v),
        lambda v: ev.slice_report("accuracy", worst=v),
        lambda v: ev.slice_report("accuracy", min_support=v),
        lambda v: ev.merge(v),
        lambda v: se.merge(v),
        lambda v: se.merge([ev, v]),
        lambda v: se.from_bytes(v),
        lambda v: se.load(v),
        lambda v: ev.save(v) if not isinstance(v, str) else None,
        lambda v: se.Evaluator.from_state(v),
        lambda v: se.metrics.find("f1", v),
        lambda v: se.metrics.shown_metrics(v),
        lambda v: se.metrics.compute("f1", v),
        lambda v: se.metrics.left_out("f1_macro", v),
        *(
            lambda v, rule=rule, name=name: ev.thresholds(rule, **{name: v})
            for rule, function in se.metrics.CUT_POINTS.items()
            for name in list(inspect.signature(function).parameters)[1:]
        ),
        *(
            lambda v, kind=kind, name=name, first=first: kind(**{first: "1h", name: v})
            for kind, first in ((se.Last, "n"), (se.Panes, "length"), (se.Fading, "half_life"))
            for name in inspect.signature(kind).parameters
        ),
    ]
    assert {n: raw for n, question in enumerate(questions) if (raw := raw_errors(question))} == {}


STATE_FUNCTIONS = [
    name
    for name in se.metrics.__all__
    if inspect.isfunction(getattr(se.metrics, name))
    and name not in ("compute", "find", "left_out", "reason_of", "shown_metrics")
]


def test_functions_of_states() -> None:
    index = se.ScoreIndex([(True, 0.5), (False, 0.25)])
    assert se.metrics.roc_auc(index=index) == se.metrics.roc_auc(index) == 1.0
    for name in STATE_FUNCTIONS:
        with pytest.raises(
            MetricError, match=rf"{name} is a function of \w+.*, got list and list;"
        ):
            getattr(se.metrics, name)([1, 0], [1, 0])
    for name in ("roc_auc", "f1", "threshold_table"):
        function = getattr(se.metrics, name)
        assert raw_errors(function) == []
        assert raw_errors(lambda value, function=function: function(value, value)) == []


class Model:
    def learn_one(self, x: Any, y: Any) -> None: ...

    def predict_one(self, x: Any) -> int:
        return 1

    def clone(self) -> Model:
        return Model()


@pytest.mark.parametrize("name", list(inspect.signature(se.prequential).parameters))
def test_prequential(name: str) -> None:
    def call(value: Any) -> None:
        stream = [({"a": 1}, 1), ({"a": 2}, 0)]
        given = {"model": Model(), "stream": stream, "evaluator": se.Evaluator(), name: value}
        se.prequential(**given)

    # What a caller's own function raises is the caller's.
    of_caller = name in ("moment", "slices")
    assert [raw for raw in raw_errors(call) if not (of_caller and "type" in raw)] == []


def test_the_usual_mistakes_have_a_sentence() -> None:
    def error(call: Callable[[], object]) -> str:
        with pytest.raises(StreamevalError) as caught:
            call()
        return str(caught.value)

    ev = se.Evaluator().update_many([0, 1], score=[0.1, 0.6])
    assert error(lambda: ev.thresholds("cost", cfp=2)) == (
        "the cut-point cost takes no parameter 'cfp'; it takes c_fp, c_fn; did you mean 'c_fp'?"
    )
    assert error(lambda: ev.thresholds("cost", c_fp="a")) == (
        "c_fp: expected a number of at least 0, got 'a'"
    )
    assert error(lambda: se.Evaluator(undefined=10**400)).startswith("undefined: expected a number")

    class Batch(Mapping[str, int]):
        __getitem__ = __iter__ = __len__ = None  # type: ignore[assignment]

        def fit(self) -> None: ...

        def predict(self) -> None: ...

    assert error(lambda: se.prequential(Batch(), [], ev)) == (
        "model: expected learn_one(x, y) and predict_one(x) or predict_proba_one(x), got Batch "
        "without learn_one and predict_one; the predictions of a model that learns from batches "
        "go into Evaluator.update_many"
    )


def test_texts_and_codes_of_typical_errors_are_those_written_down() -> None:
    """``python -m tests.support.golden_errors`` writes the file again."""
    frozen = json.loads(golden_errors.FILE.read_text(encoding="utf-8"))
    told = {name: golden_errors.told(name) for name in golden_errors.CALLS}
    assert all(told.values())
    assert {
        name: told.get(name) for name in {**frozen, **told} if told.get(name) != frozen.get(name)
    } == {}


def test_names_are_shown_as_they_are_and_control_characters_escaped() -> None:
    ev = se.Evaluator("multiclass", labels=["a", "b"])
    for label, text in (("東京", "'東京'"), ("\u202ea\nb\x1b[31m", r"'\u202ea\nb\x1b[31m'")):
        with pytest.raises(InputError) as caught:
            ev.update(label, "a")
        assert f"got {text}" in str(caught.value)
        assert str(caught.value).isprintable()


def test_a_masked_value_is_missing_and_not_the_value_beneath() -> None:
    gap = np.ma.array([1, 0], mask=[False, True])
    plain: dict[str, Any] = {"y_true": [1, 0], "y_pred": [1, 0], "event_time": [1, 2]}
    for task in ("binary", "multiclass"):
        for field in ("y_true", "y_pred", "weight", "event_time"):
            ev = se.Evaluator(task, window=se.Panes("1h"), time_unit="s")  # type: ignore[arg-type]
            with pytest.raises(InputError, match=rf"{field}\[1\]: .* got None"):
                ev.update_many(**{**plain, field: gap})
    with pytest.raises(InputError, match=r"score\[1\]: .* got None"):
        se.Evaluator().update_many([1, 0], score=gap)
    # A duration is no number either.
    for field in ("y_true", "y_pred", "score", "weight"):
        given = {"y_true": [1, 0], "y_pred": [1, 0], field: np.array([1, 0], "timedelta64[s]")}
        with pytest.raises(InputError, match=rf"^{field}\[0\]: expected .*, got np.timedelta"):
            se.Evaluator().update_many(**given)
        single = {name: column[0] for name, column in given.items()}
        with pytest.raises(InputError, match=rf"^{field}: expected .*, got np.timedelta"):
            se.Evaluator().update(**single)
    matrix = np.ma.array([[0.5, 0.5], [0.5, 0.5]], mask=[[0, 0], [0, 1]])
    with pytest.raises(InputError, match=r"proba\[1\]: expected a finite number, got nan"):
        se.Evaluator("multiclass", labels=["a", "b"]).update_many(["a", "b"], proba=matrix)
