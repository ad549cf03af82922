"""What an evaluator, a view and confusion counts print, in any state."""

from __future__ import annotations

import pytest

import streameval as se


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_an_empty_evaluator(task: str) -> None:
    ev = se.Evaluator(task)  # type: ignore[arg-type]
    before = ev.to_bytes()
    assert repr(ev).endswith("0 events>")
    assert "0 events" in ev._repr_html_()
    assert repr(ev.total).startswith(f"<View: {task}")
    assert ev.to_bytes() == before


def test_window_slices_and_metrics_are_named() -> None:
    ev = se.Evaluator(window=se.Last(100), slices=("c",), positive="<b>", metrics=["roc_auc", "f1"])
    ev.update_many(["<b>", "x"], score=[0.9, 0.1], slices={"c": ["p", "q"]})
    assert repr(ev) == (
        "<Evaluator: binary, positive '<b>', window last (n 100), 2 events; 2 slices; "
        "f1 1, roc_auc 1>"
    )
    assert "<b>" not in ev._repr_html_()
    for view in ev.slices().values():
        assert "1 events" in repr(view)


def test_undefined_values_and_missing_inputs() -> None:
    ev = se.Evaluator(metrics=["roc_auc"])
    ev.update(True, score=0.5)
    assert repr(ev).endswith("1 events; roc_auc nan>")
    only_labels = se.Evaluator()
    only_labels.update(True, True)
    assert "roc_auc" not in repr(only_labels)


def test_counts_print_their_matrix() -> None:
    counts = se.ConfusionCounts.from_matrix([[2**70, 0], [1, 4]], ["<b>", "a\n"])
    assert str(counts).splitlines()[1].split() == ["<b>", str(2**70), "0"]
    assert str(counts).splitlines()[2].split() == [r"a\n", "1", "4"]
    assert "&lt;b&gt;" in counts._repr_html_()
    many = se.ConfusionCounts()
    many.update_many(range(23), range(23))
    assert str(many).endswith("\n3 more classes are not shown; to_array() has all")
    assert str(se.ConfusionCounts()).startswith("true")
