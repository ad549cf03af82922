"""Fixed streams through every task, window, kind of weight and option: their bytes and answers.

Run as a module it writes ``tests/golden/states.json`` again, from both implementations:
whole weights must give the same bytes and the same bits of every answer in both.
Streams are made with a generator of its own, since those of numpy and Python may change.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streameval as se
from streameval.errors import StreamevalError
from streameval.metrics.registry import task_metrics

FILE = Path(__file__).parents[1] / "golden" / "states.json"
HOUR = 3600
START = 1_700_002_800 // HOUR * HOUR
EVENTS = 36
COARSE_EVENTS = 1300
"""More distinct scores than the least ``max_scores``."""

WINDOWS: dict[str, Any] = {
    "all": None,
    "last": se.Last(23),
    "panes": se.Panes("4h", pane="1h", lateness="1h"),
    "fading": se.Fading("2h"),
    "fading events": se.Fading(9),
}
TASKS = {
    "labels": "binary",
    "scores": "binary",
    "classes": "multiclass",
    "probabilities": "multiclass",
    "class scores": "multiclass",
    "label sets": "multilabel",
    "label scores": "multilabel",
    "predictions of scores": "binary",
    "predictions of probabilities": "multiclass",
    "comparison labels": "binary",
    "comparison scores": "binary",
    "comparison classes": "multiclass",
    "comparison probabilities": "multiclass",
    "comparison label sets": "multilabel",
    "comparison numbers": "regression",
    "numbers": "regression",
}
PREDICTIONS = "predictions of "
SCORED = ("scores", "probabilities", "class scores", "label scores", "comparison scores")
WEIGHTS = ("one", "whole", "wide", "fractions", "wide fractions")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "intervals": {"intervals": True, "slices": ["k"]},
    "losses": {"intervals": True, "metrics": ["log_loss", "brier_score"]},
    "bins": {"bins": 3, "metrics": ["expected_calibration_error"], "undefined": 0.0},
    "few slices": {"slices": ["k", ["k", "j"]], "max_slices": 3},
    "temporal": {"temporal": True},
    "bootstrap": {"bootstrap": se.Bootstrap(20)},
    "max_scores": {"max_scores": 1024},
    "unpaired": {"paired_scores": False},
    "residuals": {"metrics": ["max_error", "median_absolute_error", "residual_quantile"]},
}
INTERVALS = (
    "accuracy", "f1", "f1_macro", "roc_auc", "roc_auc_ovr", "log_loss", "brier_score",
    "expected_calibration_error",
)  # fmt: skip
DIFFERENCES = {
    "multilabel": ("accuracy", "f1_micro", "f1_samples"),
    "regression": ("mean_absolute_error", "root_mean_squared_error", "r2"),
}
INTERVALS_OF_NUMBERS = ("mean_error", "mean_absolute_error", "root_mean_squared_error", "r2")
# Their formulas use functions of the platform's mathematical library, or add floats, which `sum`
# does with a compensation since Python 3.12.
_ROUNDED = (
    "binormal_auc", "geometric_mean", "normalized_entropy", "log_loss_skill", "interval",
    "calibration_error",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One stream and one set-up."""

    task: str
    window: str
    weights: str
    options: str

    @property
    def name(self) -> str:
        """Names the case in the file and in tests."""
        return ", ".join((self.task, self.window, self.weights, self.options))

    @property
    def exact(self) -> bool:
        """Whether every bit is promised: that of whole weights."""
        return "fractions" not in self.weights

    @property
    def several(self) -> bool:
        """Whether it is a comparison."""
        return self.task.startswith("comparison")

    @property
    def ways(self) -> tuple[str, ...]:
        """How the stream is counted."""
        return ("batch",) if self.options == "max_scores" else tuple(WAYS)

    def new(self) -> Any:
        """An evaluator or comparison without events."""
        options = {"window": WINDOWS[self.window], "time_unit": "s", **OPTIONS[self.options]}
        if self.task in ("labels", "comparison labels"):
            options["positive"] = "spam"
        if self.task == "class scores":
            options |= {"probabilities": False, "labels": ["a", "b", "c"]}
        if self.task == "label sets":
            options["metrics"] = ["accuracy", "f1_macro"]
        if self.task == "label scores":
            options |= {"labels": ["c", "a", "b"]} if self.options == "intervals" else {}
            options.setdefault("metrics", ["roc_auc_macro", "coverage_error", "log_loss"])
        if self.options == "losses" and self.task == "class scores":
            options["metrics"] = ["roc_auc_ovr"]
        if self.several:
            return se.Comparison(("old", "new"), TASKS[self.task], **options)  # type: ignore[arg-type]
        kind = se.Predictions if self.task.startswith(PREDICTIONS) else se.Evaluator
        return kind(TASKS[self.task], **options)  # type: ignore[arg-type]


def cases() -> Iterator[Case]:
    """Every case; set-ups that are refused are among them, with the text of the error."""
    for task in TASKS:
        for window in WINDOWS:
            several = task.startswith("comparison")
            if task.startswith(PREDICTIONS):
                for options in ("plain", "few slices"):
                    yield Case(task, window, "whole", options)
                yield Case(task, window, "fractions", "plain")
                continue
            for weights in WEIGHTS:
                # What a comparison adds depends on the window, and hardly on the weights.
                if not several or window == "all" or weights in ("whole", "fractions"):
                    yield Case(task, window, weights, "plain")
            if window == "all" or (window in ("last", "fading") and not several):
                yield Case(task, window, "whole", "few slices")
            for weights in ("whole", "fractions") if window in ("all", "fading") else ():
                yield Case(task, window, weights, "intervals")
                if task in SCORED or task == "comparison probabilities":
                    yield Case(task, window, weights, "losses")
            if task == "numbers":
                yield Case(task, window, "whole", "residuals")
            if task in ("scores", "probabilities", "label scores"):
                yield Case(task, window, "whole", "bins")
                for weights in ("one", "whole", "fractions"):
                    yield Case(task, window, weights, "max_scores")
        unordered = TASKS[task] in ("regression", "multilabel") or task.startswith(PREDICTIONS)
        for window in () if unordered else ("all", "last"):
            yield Case(task, window, "whole", "temporal")
        for window in ("all", "panes", "fading"):
            if task in ("labels", "scores"):
                yield Case(task, window, "whole", "bootstrap")
            if task == "comparison scores":
                yield Case(task, window, "whole", "unpaired")


class Draws:
    """Knuth's linear congruential generator MMIX: the same numbers in every version."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        """A whole number from 0 to below the limit."""
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % limit


def stream(case: Case, count: int) -> list[dict[str, Any]]:
    """Events as ``update`` takes them."""
    draws = Draws(sum(map(ord, case.task)))
    return [_event(case, draws, n, count) for n in range(count)]


def _event(case: Case, draws: Draws, n: int, count: int) -> dict[str, Any]:
    kind = case.task.removeprefix("comparison ").removeprefix(PREDICTIONS)
    true = draws.below(3)
    models = [_prediction(kind, draws, true, count) for _ in ("old", "new")]
    event: dict[str, Any] = dict(models[0])
    if case.several:
        event = {name: {"old": models[0][name], "new": models[1][name]} for name in event}
    if not case.task.startswith(PREDICTIONS):
        event["y_true"] = _label(kind, true)
    event["weight"] = _weight(case, draws)
    # Up to two hours late.
    event["event_time"] = START + n * 900 * 36 // count - 300 * draws.below(24) * (n % 5 == 4)
    event["slices"] = {"k": ("PT", "DE", None)[draws.below(3)], "j": draws.below(2)}
    if case.options == "bootstrap":
        event["unit"] = draws.below(9)
    return event


def _label(kind: str, true: int) -> Any:
    if kind == "numbers":
        return (true - 1) * 2500 / 7
    if kind == "labels":
        return "spam" if true == 2 else "ham"
    if kind in ("label sets", "label scores"):
        return (["a"], ["b", "c"], [])[true]
    return true == 2 if kind == "scores" else "abc"[true]


def _prediction(kind: str, draws: Draws, true: int, count: int) -> dict[str, Any]:
    right = draws.below(3) > 0
    guess = true if right else draws.below(3)
    if kind == "numbers":
        return {"y_pred": _label(kind, guess) + (draws.below(1000) - 480) / 97}
    if kind == "label sets" and not right:
        bits = draws.below(8)
        return {"y_pred": [label for n, label in enumerate("abc") if bits >> n & 1]}
    if kind in ("labels", "classes", "label sets"):
        return {"y_pred": _label(kind, guess)}
    if kind == "scores":
        # Ties, and both ends of the probabilities.
        steps = 25 if count == EVENTS else 10 * count
        score = (draws.below(steps) + (steps // 2 if guess == 2 else 0)) / (1.5 * steps - 1)
        return {"score": min(score, 1.0)}
    parts = [draws.below(20 if count == EVENTS else count) for _ in "abc"]
    if kind == "label scores":
        # Zeros, ties and both ends; of guess 2 no label is likely.
        most = max(parts) + 9
        likely = [
            part + 9 * (label in _label(kind, guess))
            for part, label in zip(parts, "abc", strict=True)
        ]
        return {"score": {label: part / most for label, part in zip("abc", likely, strict=True)}}
    parts[guess] += 9
    if kind == "class scores":
        return {"score": {label: part / 3 - 4 for label, part in zip("abc", parts, strict=True)}}
    whole = sum(parts)
    return {"proba": {label: part / whole for label, part in zip("abc", parts, strict=True)}}


def _weight(case: Case, draws: Draws) -> Any:
    drawn = draws.below(2**20)
    most = 20 if case.window.startswith("fading") or case.options == "bootstrap" else 48
    return {
        "one": 1,
        "whole": drawn % 6,
        "wide": 2 ** (drawn % most) + drawn % 2,
        "fractions": (1 + drawn % 40) / 7,
        "wide fractions": 1.1 * 2.0 ** (drawn % 38 - 18),
    }[case.weights]


def columns(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The events as ``update_many`` takes them."""
    given: dict[str, Any] = {name: [event[name] for event in events] for name in events[0]}
    given["slices"] = {key: [values[key] for values in given["slices"]] for key in ("k", "j")}
    for name in ("y_pred", "score", "proba"):
        if name in given and isinstance(given[name][0], dict) and "old" in given[name][0]:
            given[name] = {key: [values[key] for values in given[name]] for key in ("old", "new")}
    return given


# How a stream is counted ----------------------------------------------------


def _single(case: Case, events: list[dict[str, Any]]) -> Any:
    ev = case.new()
    for n, event in enumerate(events):
        ev.update(**event)
        if n == len(events) // 2:
            repr(ev["old"] if isinstance(ev, se.Comparison) else ev)  # reads
    return ev


def _batch(case: Case, events: list[dict[str, Any]]) -> Any:
    ev = case.new()
    # The second batch finds states that have been read.
    for part in (events[: len(events) * 2 // 3], events[len(events) * 2 // 3 :]):
        ev.update_many(**columns(part))
        repr(ev)
    return ev


def _shards(case: Case, events: list[dict[str, Any]]) -> Any:
    ev = case.new()
    for n in range(3):
        shard = case.new()
        for event in events[n::6]:
            shard.update(**event)
        shard.update_many(**columns(events[n + 3 :: 6]))
        ev.merge(shard, allow_overlap=True)
    return ev


def _reverted(case: Case, events: list[dict[str, Any]]) -> Any:
    ev = case.new()
    # In the newest pane.
    extra = [event | {"event_time": START + 9 * HOUR - 1} for event in events[::4]]
    for event in [*events, *extra]:
        ev.update(**event)
    for event in reversed(extra):
        ev.revert(**event)
    return ev


WAYS: dict[str, Callable[[Case, list[dict[str, Any]]], Any]] = {
    "single": _single,
    "batch": _batch,
    "shards": _shards,
    "revert": _reverted,
}
READ = ("single", "shards")
"""The ways of counting after which everything is read; of the others the bytes are enough."""


# What is written down -------------------------------------------------------


def counted(case: Case, way: str) -> Any:
    """The evaluator or comparison of a case, or the text of the error that it ends with."""
    count = COARSE_EVENTS if case.options == "max_scores" else EVENTS
    try:
        return WAYS[way](case, stream(case, count))
    except StreamevalError as error:
        return f"{type(error).__name__}: {error}"


def digest(data: bytes) -> str:
    """The start of its SHA-256."""
    return hashlib.sha256(data).hexdigest()[:24]


def readings(ev: Any) -> dict[str, Any]:
    """What can be read of an evaluator or comparison: numbers and texts by name."""
    found: dict[str, Any] = {}
    several = isinstance(ev, se.Comparison)
    views = {name: ev[name] for name in ev.models} if several else {"": ev}
    for model, view in views.items():
        prefix = f"{model} " if model else ""
        for row in task_metrics(ev.task):
            found[prefix + row.name] = _tried(lambda view=view, row=row: view[row.name])
        certain = INTERVALS_OF_NUMBERS if ev.task == "regression" else INTERVALS
        for name in certain if ev.options.get("intervals") and not several else ():
            for end in ("low", "high"):
                found[f"interval {name} {end}"] = _tried(
                    lambda view=view, name=name, end=end: getattr(view.interval(name), end)
                )
    for name in DIFFERENCES.get(ev.task, ("accuracy", "brier_score")) if several else ():
        for end in ("value", "low", "high"):
            found[f"interval of difference {name} {end}"] = _tried(
                lambda name=name, end=end: getattr(ev.difference(name, method="auto"), end)
            )
    main = ev.reference if several else ev
    found["labels"] = repr(ev.labels)
    found["arrivals"] = repr(sorted(ev.arrivals.items()))
    found["slices"] = repr(list(ev.slices()))
    found["overflowed"] = repr(ev.slices_overflowed)
    labelled = ev.options["metrics"] is None and not isinstance(ev, se.Predictions)
    main_metric = "mean_absolute_error" if ev.task == "regression" else "accuracy"
    for name in (main_metric,) if labelled else ():
        values = [view[name] for view in main.slices().values()]
        found[f"{name} of slices"] = " ".join(f"{value:.9g}" for value in values)
    if main.wants_scores and main.task == "binary":
        curve = _tried(lambda: main.curve("roc"))
        if not isinstance(curve, str):
            curve = " ".join(f"{value:.9g}" for column in curve for value in column.tolist())
        found["roc"] = curve
        for end in ("low", "high"):
            found[f"bounds {end}"] = _tried(lambda end=end: getattr(main.bounds("roc_auc"), end))
    return found


def _tried(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except StreamevalError as error:
        return f"{type(error).__name__}: {error}"


def bits_of(read: dict[str, Any]) -> str:
    """The digest of all readings' bits, and two characters of that of each."""
    every = "".join(f"{name}={_bits(name, value)};" for name, value in read.items())
    return digest(every.encode()) + "".join(short(*item) for item in read.items())


def _bits(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}" if any(part in name for part in _ROUNDED) else value.hex()
    return str(value)


def short(name: str, value: Any) -> str:
    """Two characters of the digest of a reading's bits: they name what differs."""
    value = _bits(name, value)
    return urlsafe_b64encode(hashlib.sha256(value.encode()).digest())[:2].decode()


def near(value: Any, frozen: Any) -> bool:
    """Whether a reading of fractional weights is the frozen one but for its last bits."""
    if isinstance(value, float) and isinstance(frozen, (int, float)):
        return math.isclose(value, frozen, rel_tol=1e-9, abs_tol=1e-9)
    return bool(_written(value) == frozen)


def _written(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.11g}") if math.isfinite(value) else str(value)
    return short("", value)


def frozen_of(case: Case) -> dict[str, Any]:
    """What the file holds of a case: by way of counting, ways of the same in one entry."""
    found: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for way in case.ways if case.exact else case.ways[:1]:
        ev = counted(case, way)
        if isinstance(ev, str):
            text = ev
        elif case.exact:
            text = digest(ev.to_bytes())
            if way in READ:
                read = readings(ev)
                text += " " + bits_of(read)
                values = dict.fromkeys(read)
        else:
            values = {name: _written(value) for name, value in readings(ev).items()}
            text = digest(ev.to_bytes())
        found.setdefault(text, []).append(way)
    return {
        "ways": {", ".join(ways): text for text, ways in found.items()},
        "readings": list(values) if case.exact else values,
    }


def all_frozen() -> dict[str, Any]:
    """What the file holds: lists of names of readings once, by number."""
    names: list[list[str]] = []
    found: dict[str, Any] = {}
    for case in cases():
        frozen = frozen_of(case)
        keys = list(frozen["readings"])
        if keys not in names:
            names.append(keys)
        entry = {"names": names.index(keys), **frozen["ways"]}
        if not case.exact:
            entry["values"] = list(frozen["readings"].values())
        found[case.name] = entry
    return {"names": names, "cases": found}


def _of_backend(name: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.golden_states", "print"],
        env={**os.environ, "STREAMEVAL_BACKEND": name},
        check=True,
        stdout=subprocess.PIPE,
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def write() -> None:
    """Write the file again; SystemExit where implementations differ in what is promised.

    That readings of fractions are near each other is tested where nothing is compiled.
    """
    native, portable = map(_of_backend, ("native", "portable"))
    exact = {case.name for case in cases() if case.exact}
    for name, mine in native["cases"].items():
        theirs = portable["cases"][name]
        if name in exact and mine != theirs:
            raise SystemExit(f"{name}\n  {mine}\n  {theirs}")
        if mine.get("single") != theirs.get("single"):
            mine.pop("single", None)
            mine.pop("batch", None)
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in native["cases"].items()]
    text = ",\n".join(lines)
    names = ",\n".join(" " + json.dumps(row) for row in native["names"])
    FILE.write_text(f'{{"names": [\n{names}\n], "cases": {{\n{text}\n}}}}\n', encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["print"]:
        json.dump(all_frozen(), sys.stdout)
    else:
        write()
