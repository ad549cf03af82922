"""What an evaluator, a view and confusion counts print, in any state; which results are equal."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil

import streameval as se
import streameval.evaluator
from streameval.metrics import Metric
from streameval.uncertainty.paired import PairedRequest

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
