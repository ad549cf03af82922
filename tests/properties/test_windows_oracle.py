"""In long streams every window equals an evaluator that is fed the literal list of its events."""

from __future__ import annotations

from typing import Any

import pytest

import streameval as se
from tests.support.window_model import Model, binary_stream, class_stream, names_for, plain, same

pytestmark = pytest.mark.slow

PANES = se.Panes("1h", "10m", "20m")
CASES: list[tuple[str, str, Any, int, float]] = [
    ("last, two classes", "binary", se.Last(150), 2700, 0.0),
    ("last, three classes", "multiclass", se.Last(97), 1800, 0.0),
    ("panes, two classes", "binary", PANES, 2000, 0.0),
    ("panes, three classes", "multiclass", se.Panes("40m", lateness="15m"), 1500, 0.0),
    ("fading by time", "binary", se.Fading("30m"), 500, 1e-9),
    ("fading by time, three classes", "multiclass", se.Fading("1h"), 500, 1e-9),
    ("fading by count", "binary", se.Fading(40), 500, 1e-9),
    ("fading by count, three classes", "multiclass", se.Fading(25), 500, 1e-9),
]
READ = {
    "binary": ("accuracy", "matthews_corrcoef", "cohen_kappa", "roc_auc", "log_loss"),
    "multiclass": ("accuracy", "matthews_corrcoef", "cohen_kappa", "f1_macro", "roc_auc_ovr"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_every_answer_is_that_of_the_list(case: tuple[str, str, Any, int, float]) -> None:
    name, task, spec, n, tolerance = case
    stream = (binary_stream if task == "binary" else class_stream)(n, seed=len(name))
    ev = se.Evaluator(task=task, window=spec, time_unit="s")
    model = Model(spec)
    for count, item in enumerate(stream):
        ev.update(**item.arguments(timed=spec.needs_time))
        model.add(item)
        # Reads between the comparisons find states in every stage.
        assert 0 <= ev["accuracy"] <= 1
        if count % 31:
            continue
        fresh = plain(task, model.inside())
        for metric in names_for(task) if count % 496 == 0 else READ[task]:
            mine, theirs = float(ev[metric]), float(fresh[metric])
            if not tolerance:
                assert repr(mine) == repr(theirs), (count, metric)
            elif metric != "support":  # follows the scale of the weights
                assert same(mine, theirs, tolerance), (count, metric)
    if isinstance(spec, se.Panes):
        assert ev.arrivals == model.arrived
        assert min(model.arrived.values()) > 0
    ev._check()
