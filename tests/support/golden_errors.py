"""Typical wrong calls by name; ``tests/golden/errors.json`` has the texts of their errors.

Run as a module it writes the file again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streameval as se
from streameval.errors import InputError, StreamevalError

FILE = Path(__file__).parents[1] / "golden" / "errors.json"
HOUR = 3600
NOW = 1_700_000_000
PANES = se.Panes("4h", pane="1h", lateness="1h")


def _made(**options: Any) -> Callable[[], object]:
    return lambda: se.Evaluator(**options)


def _called(method: str, options: dict[str, Any], *given: Any, **named: Any) -> Callable[[], Any]:
    """A call of a new evaluator; of a comparison where ``models`` are among the options."""

    def call() -> Any:
        ev = (se.Comparison if "models" in options else se.Evaluator)(**options)
        return getattr(ev, method)(*given, **named)

    return call


def _merged(left: dict[str, Any], right: dict[str, Any], kind: type = se.Evaluator) -> Any:
    return lambda: kind(**left).merge(kind(**right))


def _merged_fed(options: dict[str, Any]) -> Callable[[], object]:
    def call() -> None:
        left, right = se.Evaluator(**options), se.Evaluator(**options)
        left.update(True, True)
        right.update(True, False)
        left.merge(right)

    return call


def _merged_with(other: Any, kind: type = se.Evaluator) -> Any:
    return lambda: kind().merge(other)


def _twice(copied: bool) -> Callable[[], object]:
    def call() -> None:
        ev = se.Evaluator()
        ev.update(True, True)
        ev.name_shard("eu-1")
        ev.merge(ev.copy() if copied else ev)

    return call


def _bytes(change: Callable[[bytes], Any], kind: type = se.Evaluator) -> Callable[[], object]:
    data = kind().to_bytes()
    reader = se.from_bytes if kind is se.Evaluator else se.Comparison.from_bytes
    return lambda: reader(change(data))


def _full(method: str) -> Callable[[], object]:
    def call() -> None:
        ev = se.Evaluator()
        ev.update(True, score=0.5, weight=2**53)
        for _ in range(8):
            ev.merge(ev, allow_overlap=True)
        if method == "update_many":
            ev.update_many([True] * 300, score=[0.5] * 300, weight=[2**53] * 300)
        for _ in range(300):
            ev.update(True, score=0.5, weight=2**53)

    return call


SCORED: dict[str, Any] = {"metrics": ["roc_auc"]}
TEXTS: dict[str, Any] = {"positive": "spam"}
TIMED: dict[str, Any] = {"window": PANES, "time_unit": "s"}
LAST: dict[str, Any] = {"window": se.Last(3)}
SLICED: dict[str, Any] = {"slices": ["k"]}
UNITS: dict[str, Any] = {"bootstrap": se.Bootstrap(20)}
SEVERAL: dict[str, Any] = {"task": "multiclass"}
CLOSED: dict[str, Any] = {"task": "multiclass", "labels": ["a", "b"]}
NUMBERS: dict[str, Any] = {**CLOSED, "probabilities": False}
PAIR: dict[str, Any] = {"models": ("old", "new")}

CALLS: dict[str, Callable[[], object]] = {
    # Options
    "task": _made(task="clustering"),
    "positive": _made(positive=0.5),
    "threshold": _made(threshold="high"),
    "threshold, several": _made(threshold=[0.5, 0.2]),
    "labels of a binary task": _made(task="binary", labels=["a", "b", "c"]),
    "labels twice": _made(task="multiclass", labels=["a", "a"]),
    "labels of two kinds": _made(task="multiclass", labels=["a", 1]),
    "labels as text": _made(task="multiclass", labels="ab"),
    "metric misspelled": _made(metrics=["acuracy"]),
    "metric of another task": _made(metrics=["f1_macro", "top_k_accuracy"]),
    "metrics as a number": _made(metrics=5),
    "bins": _made(bins=0),
    "window as a number": _made(window=100),
    "window as text": _made(window="1h"),
    "Last": lambda: se.Last(0),
    "Panes": lambda: se.Panes("1h", pane="7m"),
    "duration": lambda: se.Panes("an hour"),
    "Fading": lambda: se.Fading(0),
    "Bootstrap": lambda: se.Bootstrap(5),
    "slices as a number": _made(slices=5),
    "slices twice": _made(slices=["k", "k"]),
    "max_slices": _made(max_slices=0),
    "time_unit": _made(time_unit="minutes"),
    "undefined": _made(undefined="zero"),
    "temporal": _made(temporal="yes"),
    "temporal with Panes": _made(temporal=True, **TIMED),
    "max_scores": _made(max_scores=10),
    "max_scores with Last": _made(max_scores=1024, **LAST),
    "probabilities": _made(probabilities=False),
    "probabilities without labels": _made(task="multiclass", probabilities=False),
    "bootstrap": _made(bootstrap=100),
    "bootstrap with Last": _made(**LAST, **UNITS),
    "models": lambda: se.Comparison(["one"]),
    "models twice": lambda: se.Comparison(["one", "one"]),
    "comparison, temporal": lambda: se.Comparison(temporal=True),
    "comparison, max_scores": lambda: se.Comparison(max_scores=1024),
    "comparison, bootstrap": lambda: se.Comparison(**UNITS),
    "comparison, threshold": lambda: se.Comparison(threshold={"champion": 0.5}),
    "comparison, paired_scores": lambda: se.Comparison(paired_scores=1),  # type: ignore[arg-type]
    # One event
    "no label": _called("update", {}, None, True),
    "fraction as label": _called("update", {}, 0.5, True),
    "text as label": _called("update", {}, "spam", "spam"),
    "third label": _called("update", {**TEXTS, "labels": ["spam", "ham"]}, "eggs", "spam"),
    "label of another kind": _called("update", TEXTS, 1, "spam"),
    "label -1": _called("update", {}, -1, score=0.5),
    "nothing predicted": _called("update", {}, True),
    "score and proba": _called("update", {}, True, score=0.5, proba=0.5),
    "score nan": _called("update", {}, True, score=float("nan")),
    "score as text": _called("update", {}, True, score="0.5"),
    "score beyond 1 as proba": _called("update", {}, True, proba=1.5),
    "proba of the positive label": _called("update", TEXTS, "spam", proba={"spam": 2.0}),
    "labels only": _called("update", SCORED, True, True),
    "weight negative": _called("update", {}, True, True, weight=-1),
    "weight as text": _called("update", {}, True, True, weight="1"),
    "weight too large": _called("update", {}, True, True, weight=2**60),
    "weight of Last": _called("update", LAST, True, True, weight=0.5),
    "weight of Fading": _called(
        "update", {"window": se.Fading(5)}, True, True, weight=2**21
    ),
    "no time": _called("update", TIMED, True, True),
    "time as text": _called("update", TIMED, True, True, event_time="now"),
    "time without zone": _called("update", TIMED, True, True, event_time="2024-01-01T00:00:00"),
    "time of another unit": _called(
        "update", {"window": PANES, "time_unit": "ms"}, True, True, event_time=NOW
    ),
    "time without unit": _called("update", {"window": PANES}, True, True, event_time=NOW),
    "slices not given": _called("update", SLICED, True, True),
    "slices as text": _called("update", SLICED, True, True, slices="PT"),
    "slice value": _called("update", SLICED, True, True, slices={"k": 0.5}),
    "slice (missing)": _called("update", SLICED, True, True, slices={"k": "(missing)"}),
    "unit missing": _called("update", UNITS, True, True),
    "unit not wanted": _called("update", {}, True, True, unit="u1"),
    "class not declared": _called("update", CLOSED, "c", "a"),
    "class of another kind": _called("update", CLOSED, 1, "a"),
    "score of several classes": _called("update", SEVERAL, "a", score=0.5),
    "proba of several classes": _called("update", SEVERAL, "a", proba={"a": 0.5, "b": 0.1}),
    "proba of another class": _called("update", CLOSED, "a", proba={"a": 0.5, "c": 0.5}),
    "proba as list": _called("update", SEVERAL, "a", proba=[0.5, 0.5]),
    "proba of numbers": _called("update", NUMBERS, "a", proba={"a": 0.5, "b": 0.5}),
    "scores of some classes": _called("update", NUMBERS, "a", score={"a": 0.5}),
    "full": _full("update"),
    # Batches
    "lengths": _called("update_many", {}, [1, 0], [1]),
    "batch, label": _called("update_many", {}, [1, 0, 2], [1, 0, 0]),
    "batch, no label": _called("update_many", {}, [1, None], [1, 0]),
    "batch, score": _called("update_many", {}, [1, 0], score=[0.5, float("inf")]),
    "batch, proba": _called("update_many", {}, [1, 0], proba=[[0.5, 0.5], [0.5, 0.4]]),
    "batch, weight": _called("update_many", {}, [1, 0], [1, 0], weight=[1, -1]),
    "batch, one number": _called("update_many", {}, 1, [1]),
    "batch, time": _called("update_many", TIMED, [1], [1], event_time=["x"]),
    "batch, slices": _called("update_many", SLICED, [1], [1], slices={"k": ["a", "b"]}),
    "batch, unit": _called("update_many", UNITS, [1, 0], [1, 0], unit=["u"]),
    "batch, class": _called("update_many", CLOSED, ["a", "c"], ["a", "a"]),
    "batch, proba of classes": _called(
        "update_many", CLOSED, ["a", "b"], proba=[[0.5, 0.5], [0.5, 0.1]]
    ),
    "batch, full": _full("update_many"),
    "consume": _called("consume", {}, [(1, 1), (1, 7)]),
    # Reverts
    "revert nothing": _called("revert", {}, True, True),
    "revert fraction": _called("revert", {}, True, True, weight=0.5),
    "revert of Last": _called("revert", LAST, True, True),
    "revert of Panes": _called("revert", TIMED, True, True, event_time=NOW),
    "revert of Fading": _called("revert", {"window": se.Fading(5)}, True, True),
    "revert with temporal": _called("revert", {"temporal": True}, True, True),
    "revert classes": _called("revert", SEVERAL, "a", "b"),
    # Merges
    "merge a text": _merged_with("state"),
    "merge a comparison": _merged_with(se.Comparison()),
    "merge other options": _merged({"threshold": 0.25}, {"bins": 5}),
    "merge other windows": _merged({"window": se.Panes("1h")}, {"window": se.Panes("2h")}),
    "merge other labels": _merged(CLOSED, {**CLOSED, "labels": ["a", "c"]}),
    "merge Last": _merged_fed(LAST),
    "merge Fading of events": _merged_fed({"window": se.Fading(5)}),
    "merge itself": _twice(copied=False),
    "merge a copy": _twice(copied=True),
    "merge other models": _merged(PAIR, {"models": ("a", "b")}, se.Comparison),
    "merge other pairs": _merged({}, {"paired_scores": False}, se.Comparison),
    "merge an evaluator": _merged_with(se.Evaluator(), se.Comparison),
    "merge none": lambda: se.merge([]),
    # Bytes
    "bytes, text": _bytes(lambda data: "text"),
    "bytes, empty": _bytes(lambda data: b""),
    "bytes, cut": _bytes(lambda data: data[:100]),
    "bytes, damaged": _bytes(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
    "bytes of a comparison": lambda: se.from_bytes(se.Comparison().to_bytes()),
    "bytes of an evaluator": lambda: se.Comparison.from_bytes(se.Evaluator().to_bytes()),
    "state without parts": lambda: se.Evaluator.from_state({}),
    "state with an option": lambda: se.Evaluator.from_state(
        {**(state := se.Evaluator().to_state()), "options": {**state["options"], "bins": "x"}}
    ),
    "load": lambda: se.load("no-such-file.state"),
    # Comparisons
    "comparison, no mapping": _called("update", PAIR, True, True),
    "comparison, one model": _called("update", PAIR, True, {"old": True}),
    "comparison, another model": _called("update", PAIR, True, {"old": True, "nwe": True}),
    "comparison, score": _called("update", PAIR, True, score={"old": 0.5, "new": "x"}),
    "comparison, batch": _called("update_many", PAIR, [1, 0], {"old": [1, 0], "new": [1, 7]}),
    "comparison, revert": _called("revert", PAIR, True, {"old": True, "new": True}),
    "comparison, revert of Last": _called(
        "revert", {**PAIR, **LAST}, True, {"old": True, "new": True}
    ),
    "comparison, model": _called("__getitem__", PAIR, "nwe"),
    "comparison, same model": _called("difference", PAIR, "accuracy", "old", "old"),
    # Reads
    "read a metric of scores": lambda: _labelled()["roc_auc"],
    "read a metric misspelled": lambda: _labelled()["roc_acu"],
    "read a parameter": lambda: _labelled().value("fbeta", bta=2),
    "read a curve": lambda: _labelled().curve("rok"),
    "read a series": lambda: _labelled().series("accuracy"),
    "read what is not kept": lambda: se.Evaluator(metrics=["accuracy"])["roc_auc"],
    "read a level": lambda: _labelled().interval("accuracy", level=95),
    "read bounds": lambda: _labelled().bounds("roc_auc"),
}  # fmt: skip


def _labelled() -> se.Evaluator:
    ev = se.Evaluator()
    ev.update(True, True)
    return ev


def told(name: str) -> list[Any]:
    """The error's class and text; of a bad value also field, position and code of the remedy."""
    try:
        CALLS[name]()
    except StreamevalError as error:
        found = [type(error).__name__, str(error)]
        if isinstance(error, InputError):
            found += [error.field, error.position, error.remedy_code]  # type: ignore[list-item]
        return found
    return []


if __name__ == "__main__":
    rows = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(told(name), ensure_ascii=False)}" for name in CALLS
    )
    FILE.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")
