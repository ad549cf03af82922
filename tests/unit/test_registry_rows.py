"""The registry itself: complete rows, names that are found, errors that help."""

from __future__ import annotations

import functools
import inspect
import math
import pickle
import re
from pathlib import Path

import pytest

from streameval import metrics
from streameval.errors import MetricError
from streameval.metrics import CURVES, CUT_POINTS, METRICS, ROWS, compute, find
from streameval.metrics.curves import served_curves
from streameval.metrics.metric import BOTH, DIRECTIONS
from streameval.metrics.registry import USUAL_METRICS
from streameval.states.registry import STATES
from streameval.tasks.registry import measured_tasks
from tests.support.metric_laws import states_of

TASKS = sorted(BOTH)


def test_rows_are_whole():
    for row in ROWS:
        assert row.definition.strip(" .\n") == row.definition != "", row
        assert row.direction in DIRECTIONS, row
        assert row.shown <= row.tasks <= set(measured_tasks()), row
        assert set(row.states) <= set(STATES), row
        assert "undefined" in inspect.signature(row.function).parameters, row
        accepted = inspect.signature(row.general or row.function).parameters
        assert set(row.params) <= set(accepted), row
        assert row.needs_positive <= ("positive" in accepted), row
        if isinstance(row.function, functools.partial):
            assert row.fixed.items() <= row.function.keywords.items(), row
    for task in TASKS:
        names = [row.name for row in ROWS if task in row.tasks]
        assert len(names) == len(set(names))
    assert set(METRICS) == {row.name for row in ROWS}


def test_every_public_metric_function_has_a_row():
    functions = {
        name
        for name in metrics.__all__
        if inspect.isfunction(getattr(metrics, name))
        and "undefined" in inspect.signature(getattr(metrics, name)).parameters
    }
    assert functions - {"compute", "left_out"} == functions & set(METRICS)


def test_usual_metrics_are_rows_in_the_order_of_reports():
    for (_, task), names in USUAL_METRICS.items():
        assert list(names) == [r.name for r in ROWS if task in r.tasks and r.name in names]
    uses = {use for use, _ in USUAL_METRICS}
    assert set(USUAL_METRICS) == {(use, task) for use in uses for task in measured_tasks()}
    assert served_curves("binary") == ("roc", "precision_recall", "calibration")
    assert set(served_curves("binary")) < set(CURVES)


def test_the_function_of_a_class_metric_is_found_and_its_docstring_whole():
    functions = [
        getattr(metrics, row.name)
        for row in ROWS
        if row.needs_positive and row.state == "confusion" and row.name != "support"
    ]
    for function in functions:
        row, text = METRICS[function.__name__], inspect.getdoc(function)
        sections = [line for line in text.splitlines() if re.fullmatch(r"[A-Z]\w+:", line)]
        assert sections == ["Args:", "Returns:", "Raises:", "Cost:", "Source:"]
        assert row.definition in text
        assert f"[{row.low:g}, ".replace("-", "−") in text
        documented = re.findall(r"^    (\w+): ", text, re.MULTILINE)
        arguments = documented[: documented.index("MetricError")]
        assert list(inspect.signature(function).parameters) == arguments
        made = inspect.unwrap(function)
        assert pickle.loads(pickle.dumps(made)) is made


COUNTS = states_of("binary", [(1, 1, 0.5, 2), (0, 1, 0.5, 1)])["confusion"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find("f1_marco"), "no metric is called 'f1_marco'; did you mean f1_macro"),
        (lambda: find("MCC"), "did you mean matthews_corrcoef?"),
        (lambda: find("recall_score"), "did you mean recall"),
        (lambda: find("zzz"), "no metric is called 'zzz'; streameval.metrics.METRICS and `strea"),
        (lambda: find(3), "no metric is called 3; a name is a str"),
        (
            lambda: find("precision", "multiclass"),
            "precision is about one class: in a multi-class task use "
            "precision_macro, precision_micro or precision_weighted",
        ),
        (lambda: find("roc_auc", "multiclass"), "roc_auc is for binary tasks; use roc_auc_ovr"),
        (lambda: find("roc_auc_ovr", "binary"), "is for multi-class tasks; use roc_auc"),
        (lambda: find("f1_macro", None, "micro"), "f1_macro takes no average"),
        (lambda: find("recall", None, "geometric"), "recall has no average 'geometric'; there are"),
        (lambda: compute("f1", COUNTS), "f1 is about one class: pass positive="),
        (lambda: compute("f1_macro", COUNTS, beta=2), "f1_macro takes no parameter 'beta'"),
        (lambda: compute("fbeta_macro", COUNTS, gamma=2), "no parameter 'gamma'; it takes beta"),
        (
            lambda: compute("kappa_temporal", COUNTS),
            "ConfusionCounts, LabelPersistence, got Con",
        ),
        (lambda: compute("accuracy"), "accuracy is a function of ConfusionCounts, got none"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(MetricError) as caught:
        call()
    assert message in str(caught.value)


def test_an_average_may_be_given_apart():
    assert find("recall", "binary", "binary").name == "recall"
    assert find("roc_auc_ovr", "multiclass", "macro").name == "roc_auc_ovr"
    assert find("roc_auc_ovr", "multiclass", "weighted").name == "roc_auc_ovr_weighted"
    each = find("fbeta", "multiclass", None).bind(beta=2)(COUNTS)
    assert each == metrics.fbeta(COUNTS, beta=2, average=None)
    assert find("support", "multiclass", None).bind()(COUNTS) == {0: 1, 1: 2}
    one = find("f1", "multiclass", "binary")
    assert one.bind(positive=1)(COUNTS) == 0.8
    with pytest.raises(MetricError, match="pass positive="):
        one.bind()
    scores = states_of("multiclass", [("a", "a", {"a": 1.0}, 1), ("b", "a", {"a": 1.0}, 1)])
    per_class = find("roc_auc_ovr", "multiclass", None).bind()(scores["class_scores"])
    assert per_class == {"a": 0.5, "b": 0.5}


def test_one_name_serves_the_states_of_both_tasks():
    binary = states_of("binary", [(1, 1, 0.5, 1)])["probability"]
    multi = states_of("multiclass", [("a", "a", {"a": 0.5, "b": 0.5}, 1)])["class_probability"]
    assert compute("log_loss", binary) == compute("log_loss", multi) == pytest.approx(math.log(2))
    assert find("log_loss", "binary").state == "probability"
    assert find("log_loss", "multiclass").state == "class_probability"
    assert METRICS["log_loss"].state == "probability"


def test_the_definitions_page_has_every_name():
    docs = Path(__file__).parents[2] / "docs"
    pages = [page.read_text("utf-8") for page in docs.glob("definitions*.md")]
    named = set(re.findall(r"`(\w+)`", " ".join(pages)))
    assert set(METRICS) | set(CURVES) | set(CUT_POINTS) <= named
