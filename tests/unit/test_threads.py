"""An evaluator that is read in some threads while another thread updates it."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import streameval as se

EVENTS = 16


pytestmark = [pytest.mark.usefixtures("forced_switches"), pytest.mark.slow]


def binary_events() -> list[dict[str, Any]]:
    chance = random.Random(1)
    return [
        {
            "y_true": chance.random() < 0.5,
            "score": round(chance.random(), 2),
            "event_time": float(n),
            "slices": {"country": chance.choice(("PT", "DE"))},
        }
        for n in range(EVENTS)
    ]


def class_events() -> list[dict[str, Any]]:
    chance = random.Random(2)
    events = []
    for event in binary_events():
        shares = [chance.randrange(1, 9) for _ in "abcd"]
        proba = {label: share / sum(shares) for label, share in zip("abcd", shares, strict=True)}
        del event["score"]
        events.append({**event, "y_true": chance.choice("abcd"), "proba": proba})
    return events


BINARY = ["accuracy", "roc_auc", "log_loss", "f1_macro", "binormal_auc", "matthews_corrcoef"]
CLASSES = ["accuracy", "f1_macro", "recall_macro", "cohen_kappa", "log_loss", "roc_auc_ovo"]


def reads(names: list[str], window: object) -> dict[str, Callable[[se.Evaluator], Any]]:
    """Every public read, as plain data that can be compared."""
    found: dict[str, Callable[[se.Evaluator], Any]] = {
        "value": lambda ev: ev.value("f1", average="macro"),
        "report": lambda ev: repr(ev.report(names)),
        "whole report": lambda ev: repr(ev.report()),
        "classification_report": lambda ev: str(ev.classification_report()),
        "confusion": lambda ev: ev.confusion.to_array().tolist(),
        "slices": lambda ev: sorted(map(repr, ev.slices())),
        "slice_report": lambda ev: repr(ev.slice_report("accuracy")),
        "to_bytes": lambda ev: ev.to_bytes(),
        "copy": lambda ev: ev.copy().to_bytes(),
        "delta": lambda ev: ev.delta().to_bytes(),
        "labels": lambda ev: ev.labels,
        "retained": lambda ev: ev.retained,
        "arrivals": lambda ev: ev.arrivals,
        "curve": lambda ev: json.dumps(ev.curve("calibration").to_dict()),
        **{name: lambda ev, name=name: repr(ev[name]) for name in names},
    }
    if names is BINARY:
        found["thresholds"] = lambda ev: repr(ev.thresholds("youden"))
    if isinstance(window, se.Panes):
        found["series"] = lambda ev: repr(ev.series("accuracy"))
    if not isinstance(window, se.Last):
        found["operand"] = lambda ev: ev.emptied().merge(ev).to_bytes()
    return found


WINDOWS: dict[str, Any] = {
    "all": None,
    "fractions": None,
    "last": se.Last(10),
    "panes": se.Panes("40s", pane="10s", retain="80s"),
    "fading": se.Fading("50s"),
}


def outcome(read: Callable[[se.Evaluator], Any], ev: se.Evaluator) -> Any:
    try:
        return read(ev)
    except (se.MetricError, ValueError) as error:  # before the first event
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("window", "task", "sliced"),
    [
        ("all", "binary", False), ("all", "multiclass", True), ("last", "binary", True),
        ("panes", "binary", True), ("panes", "multiclass", False), ("fading", "binary", False),
        ("fractions", "binary", False),
    ],
)  # fmt: skip
def test_reads_beside_a_writer_see_whole_events_and_change_nothing(window, task, sliced):
    """What is read beside a writer is a value after some event; in the end nothing differs."""
    events = binary_events() if task == "binary" else class_events()
    spec = WINDOWS[window]
    options: dict[str, Any] = {"task": task, "window": spec, "time_unit": "s"}
    if sliced:
        options["slices"] = ("country",)
    else:
        events = [{**event, "slices": None} for event in events]
    questions = reads(BINARY if task == "binary" else CLASSES, spec)
    if window == "fractions":  # which a compiled index hands to another, whose reads change it
        events = [{**event, "weight": 0.5} for event in events]
        questions = {name: questions[name] for name in ("roc_auc", "accuracy", "confusion")}
    twin = se.Evaluator(**options)
    # One question after the other, so that each state is first read beside the writer.
    prefixes: dict[str, set[str]] = {name: set() for name in questions}
    for event in [None, *events]:
        if event is not None:
            twin.update(**event)
        fresh = twin.copy()
        for name, read in questions.items():
            prefixes[name].add(repr(outcome(read, fresh)))
    for seed in range(2):
        ev = se.Evaluator(**options)
        assert faults_beside_readers(ev, events, questions, prefixes, seed) == []
        ev._check()
        assert ev.to_bytes() == twin.to_bytes()
        for name, read in questions.items():
            assert repr(outcome(read, ev)) == repr(outcome(read, twin)), name


def faults_beside_readers(
    ev: se.Evaluator, events: Any, questions: Any, prefixes: dict[str, set[str]], seed: int
) -> list[str]:
    stop, faults = threading.Event(), list[str]()

    def ask(names: list[str]) -> None:
        try:
            while not stop.is_set():
                for name in names:
                    got = repr(outcome(questions[name], ev))
                    if got not in prefixes[name]:
                        faults.append(f"{name}: {got[:200]}")
                        return
        except BaseException as error:
            faults.append(repr(error))

    names, chance = list(questions), random.Random(seed)
    orders = [chance.sample(names, len(names)) for _ in range(3)]
    readers = [threading.Thread(target=ask, args=(order,)) for order in orders]
    for reader in readers:
        reader.start()
    try:
        for event in events:
            ev.update(**event)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    return faults


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("window", [None, se.Last(200), se.Panes("1h", pane="1m")])
def test_threads_that_feed_one_evaluator_lose_no_event(window: Any) -> None:
    ev = se.Evaluator(window=window, time_unit="s")
    twin = ev.emptied()
    # Each feeds its own score, so that every order of all events gives the same state.
    scores = [0.125, 0.5, 0.75]

    def feed(score: float) -> None:
        for n in range(100):
            ev.update(n % 3 == 0, score=score, event_time=1e9)
            assert ev["accuracy"] >= 0

    run_all([threading.Thread(target=feed, args=(score,)) for score in scores])
    ev._check()
    if isinstance(window, se.Last):
        assert ev.retained["events"] == 200
        return
    for score in scores:
        for n in range(100):
            twin.update(n % 3 == 0, score=score, event_time=1e9)
    assert ev.to_bytes() == twin.to_bytes()


def test_two_threads_merge_each_other_s_evaluators_without_a_deadlock() -> None:
    left, right = se.Evaluator(), se.Evaluator()
    left.update(True, score=0.9)
    right.update(False, score=0.4)

    def merge(into: se.Evaluator, other: se.Evaluator) -> None:
        for _ in range(20):
            into.merge(other, allow_overlap=True)

    pairs = (left, right), (right, left)
    run_all([threading.Thread(target=merge, args=pair, daemon=True) for pair in pairs])
    left._check()
    right._check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_beside_writers_has_whole_events() -> None:
    events = [{**event, "weight": 2} for event in binary_events()]
    ev, stop = se.Evaluator(slices=("country",)), threading.Event()

    def write() -> None:
        while not stop.is_set():
            for event in events:
                ev.update(**event)

    def read() -> None:
        while not stop.is_set():
            ev.report()

    threads = [threading.Thread(target=target) for target in (write, write, read, read)]
    for thread in threads:
        thread.start()
    ended = []
    try:
        for _ in range(12):
            child = os.fork()
            if not child:
                code = 1
                try:
                    signal.alarm(60)
                    ev.update(**events[0])
                    ev._check()
                    run_all([threading.Thread(target=ev.report) for _ in range(2)])
                    whole = sum(view["support"] for view in ev.slices().values())
                    code = 0 if whole == ev["support"] else 2
                finally:
                    os._exit(code)
            ended.append(os.waitpid(child, 0)[1])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert ended == [0] * len(ended)
