"""A store under changed settings, against a model that keeps every event."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import ConfigError, StoreError
from streameval.service.config.evaluators import (
    RetentionOptions,
    evaluator_of,
    fingerprint,
    window_spec_of,
    with_stored_defaults,
)
from streameval.service.config.settings import RunSettings
from streameval.service.run.reload import while_running
from streameval.service.store.state_rows import merged_windows
from streameval.service.store.store import Store, open_store
from streameval.service.upkeep.settings_migration import migration_of
from streameval.states.state_set import StatePlan, StateSet
from streameval.windows import Panes
from tests.support import run as build
from tests.support.run import KEPT, InTurn, Lists, Partitions, opened

MINUTE = 60_000_000
START = 1_700_000_000_000_000

WINDOWS = {"all": {}, "day": {}, "fade": {"half_life": "1h"}}
LENGTHS = [("20m", None), ("1h", None), ("20m", "9h"), ("3h", "12h")]
SLICES: list[Any] = ["country", "device", ["country", "device"]]
METRICS: list[list[str] | None] = [
    None,
    ["accuracy"],
    ["roc_auc"],
    ["f1", "roc_auc"],
    ["brier_score"],
    ["brier_score", "recall"],
    ["log_loss", "binormal_auc", "accuracy"],
]


@dataclass
class Event:
    """What the model keeps of a prediction, for ever."""

    time: int
    score: float
    slices: dict[str, str]
    partition: int
    label: bool | None = None
    read: int = 0
    """How many records had been read before it was counted first."""


@dataclass
class Model:
    """Keeps every event, and from which moment on each part of the store holds some."""

    joined: bool
    events: dict[int, Event] = field(default_factory=dict)
    newest: int | None = None
    windows: dict[str, int] = field(default_factory=dict)
    cuts: dict[str, int] = field(default_factory=dict)
    slices: dict[str, int] = field(default_factory=dict)
    labels: int = 0
    scores: int = 0
    changes: int = 0
    labels_at: int = 0
    """The change at which they began. Without a join a store knows the time of that, and
    not how many records had been read: scores of a later change are not all that labels had."""
    scores_at: int = 0

    def moment(self, event: Event) -> int:
        return event.time if self.joined else event.read

    @property
    def begin(self) -> int:
        if self.joined:
            return 0 if self.newest is None else self.newest + 1
        return sum(event.label is not None for event in self.events.values())

    def change(self, was: RunSettings, now: RunSettings) -> None:
        """Begin what is new, by rules written again here."""
        begin = self.begin
        had, has = ({json.dumps(part) for part in one.evaluator.slices} for one in (was, now))
        self.slices = {name: t for name, t in self.slices.items() if name in has}
        self.slices |= dict.fromkeys(has - had, begin)
        old, new = ({w.name: w for w in one.window} for one in (was, now))
        self.windows = {name: t for name, t in self.windows.items() if name in new}
        self.cuts = {name: t for name, t in self.cuts.items() if name in new}
        self.windows |= dict.fromkeys(new.keys() - old.keys(), begin)
        for name in new.keys() & old.keys():
            before, after = (window_spec_of(w[name], None) for w in (old, new))
            inside = self.of_window(name, now)
            if not (isinstance(before, Panes) and isinstance(after, Panes) and inside):
                continue
            if after.retained > before.retained:
                newest = max(event.time for event in inside) // before.pane_us
                oldest = (newest - before.retained + 1) * before.pane_us
                self.cuts[name] = max(oldest, self.cuts.get(name, oldest))
        labels, index, sums = kept(was)
        labels_now, index_now, sums_now = kept(now)
        rebinned = was.evaluator.bins != now.evaluator.bins and "probability" in sums & sums_now
        moved = was.evaluator.threshold != now.evaluator.threshold
        scores, scores_at = self.scores, self.scores_at
        self.changes += 1
        grown = bool(sums_now - sums) if not index else False
        if (index_now and not index) or (not index and (grown or rebinned)):
            self.scores, self.scores_at = begin, self.changes
        if labels_now and (moved or not labels):
            older = scores <= self.labels if self.joined else scores_at <= self.labels_at
            derived = index and (not labels or older)
            self.labels, self.labels_at = (scores, scores_at) if derived else (begin, self.changes)
        if not (index_now or sums_now):
            self.scores = self.scores_at = 0
        if not labels_now:
            self.labels = self.labels_at = 0

    def of_window(self, name: str, now: RunSettings) -> list[Event]:
        """Counted events of a window, the oldest first."""
        begin = self.windows.get(name, 0)
        found = [
            event
            for event in self.events.values()
            if event.label is not None
            and self.moment(event) >= begin
            and event.time >= self.cuts.get(name, 0)
        ]
        return sorted(found, key=lambda event: event.time)


def kept(one: RunSettings) -> tuple[bool, bool, set[str]]:
    """Whether labels are counted, whether each score is kept, and the sums that are instead."""
    names = one.evaluator.metrics
    if names is None:
        return True, True, set()
    index = "roc_auc" in names
    sums = set()
    if {"brier_score", "log_loss"} & {*names}:
        sums.add("probability")
    if "binormal_auc" in names:
        sums.add("moments")
    labels = bool({"accuracy", "f1", "recall"} & {*names})
    return labels, index, set() if index else sums


Parts = dict[tuple[Any, int, str], Any]
"""Slice (or ()), number of a pane or epoch, name of a state -> what it holds, if anything."""


def expected(model: Model, now: RunSettings, window: Any) -> Parts:
    """What a window should hold."""
    inside = model.of_window(window.name, now)
    groups: dict[tuple[Any, ...], list[Event]] = {(): inside}
    for part in now.evaluator.slices:
        names = [part] if isinstance(part, str) else part
        begin = model.slices.get(json.dumps(part), 0)
        for event in inside:
            if model.moment(event) >= begin:
                key = tuple((name, event.slices[name]) for name in names)
                groups.setdefault(key, []).append(event)
    found: Parts = {}
    for key, members in groups.items():
        for begin, of_labels in ((model.labels, True), (model.scores, False)):
            held = [event for event in members if model.moment(event) >= begin]
            one = evaluator_of(now, window)
            with one.counting_only((), labels=of_labels, scores=not of_labels):
                for event in held:
                    one.update(event.label, score=event.score, event_time=event.time)
            if one._windows.timeline is not None and inside:
                one._windows.timeline.reach(inside[-1].time)
            found |= parts_of(key, one.total._window, one.plan)
    return found


def parts_of(key: Any, window: Any, plan: StatePlan) -> Parts:
    state = window.to_state()
    rows = state.get("panes", state.get("epochs", [{"pane": 0, "tally": state}]))
    blank = plain(StateSet(plan).to_state())
    return {
        (key, row.get("pane", row.get("epoch")), name): plain(part)
        for row in rows
        for name, part in row["tally"].items()
        if plain(part) != blank.get(name)
    }


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def actual(evaluator: se.Evaluator) -> Parts:
    """What a window holds."""
    views = {(): evaluator.total, **evaluator.slices()}
    return {
        place: part
        for key, view in views.items()
        for place, part in parts_of(key, view._window, evaluator.plan).items()
    }


def migrate(now: RunSettings, drop: bool = True) -> tuple[list[str], dict[str, str]]:
    """Open the store under these settings; the lines, and what was dropped."""
    told: tuple[list[str], dict[str, str]] = ([], {})

    def adapt(store: Store) -> None:
        with store.reading() as connection:
            found = migration_of(store.path, connection, now, time.time_ns() // 1_000)
        told[0].extend(found.lines)
        told[1].update(found.drops)
        if drop:
            found.apply(store)

    open_store(now.store, fingerprint(now), migrate=adapt).close()
    return told


def go_on(
    now: RunSettings, lists: Partitions, rng: random.Random | InTurn | None = None
) -> dict[str, se.Evaluator]:
    """Run until everything is read; the run's evaluators."""
    with opened(now) as run:
        if rng is not None:
            run.runner._publisher = None  # as where nothing is served
        run.runner.run([Lists(lists, run.runner.positions, rng or InTurn())])
        assert run.runner._unit.quarantine.published()["reasons"] == {}
        evaluators = run.evaluators
        with run.store.reading() as connection:
            for name, evaluator in merged_windows(connection).items():
                assert actual(evaluator) == actual(evaluators[name])
        for evaluator in evaluators.values():
            evaluator._check()
        return evaluators


def check(model: Model, now: RunSettings, evaluators: Mapping[str, se.Evaluator]) -> None:
    for window in now.window:
        assert actual(evaluators[window.name]) == expected(model, now, window), window.name


class World:
    """A stream, a store and the model of it."""

    def __init__(self, directory: Path, joined: bool, now: RunSettings, seed: int) -> None:
        self.rng = random.Random(seed)
        self.joined = joined
        self.now = now
        self.model = Model(joined)
        kinds: Any = ("predictions", "labels") if joined else ("records",)
        self.lists: Partitions = {f"{kind}/{n}": (kind, []) for kind in kinds for n in range(2)}
        if not joined:
            del self.lists["records/1"]
        self.clock = START

    def feed(self, count: int) -> None:
        rng, model = self.rng, self.model
        for _ in range(count):
            self.clock += rng.randrange(20 * MINUTE)
            jitter = rng.randrange(-90, 90) * MINUTE if self.joined else 0
            number = len(model.events)
            event = Event(
                self.clock + jitter,
                rng.randrange(11) / 10,
                {"country": rng.choice(["PT", "DE"]), "device": rng.choice("abc")},
                number % 2,
            )
            model.events[number] = event
            record = {"time": event.time, "score": event.score, **event.slices, "id": number}
            if self.joined:
                self.write(f"predictions/{event.partition}", record)
                if rng.random() < 0.5:
                    self.label(number)
            else:
                event.read = number
                event.label = rng.random() < 0.5
                self.write("records/0", {**record, "y_true": event.label})

    def label(self, number: int) -> None:
        event = self.model.events[number]
        event.label = self.rng.random() < 0.5
        moment = event.time + self.rng.randrange(60) * MINUTE
        record = {"id": number, "y_true": event.label, "time": moment}
        self.write(f"labels/{event.partition}", record)

    def relabel(self, count: int) -> None:
        """First labels of predictions that wait, and corrections."""
        if self.joined and self.model.events:
            for _ in range(count):
                self.label(self.rng.choice(list(self.model.events)))

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        self.lists[name][1].append(json.dumps(record).encode())

    def run(self) -> None:
        evaluators = go_on(self.now, self.lists, self.rng)
        times = [json.loads(line)["time"] for _, lines in self.lists.values() for line in lines]
        self.model.newest = max(times, default=None)
        check(self.model, self.now, evaluators)

    def change(self, now: RunSettings) -> None:
        read = self.model.newest is not None
        migrate(now)
        if read:
            self.model.change(self.now, now)
        self.now = now


def run_of(directory: Path, fields: dict[str, Any], **tables: Any) -> RunSettings:
    """The settings of a run with this store, by default of one window of complete records."""
    plain = {"evaluator": {}, "window": [{"name": "all"}], "checkpoint": None}
    return build.settings(store=str(directory / "run.db"), fields=fields, **plain | tables)


SCORED = {"id": "id", "score": "score", "time": "time", "time_unit": "us"}


def settings_of(
    directory: Path,
    joined: bool,
    *,
    windows: Collection[str] = ("all",),
    recent: tuple[str, str | None] | None = None,
    limit: Any = None,
    **evaluator: Any,
) -> RunSettings:
    given: list[dict[str, Any]] = [{"name": name, **WINDOWS[name]} for name in windows]
    if recent is not None:
        length, retain = recent
        given.append({"name": "recent", "length": length, "pane": "10m", "lateness": "6h"})
        given[-1] |= {"retain": retain} if retain else {}
    options = {key: one for key, one in evaluator.items() if one is not None}
    options |= {} if limit is None else {"max_scores": limit}
    join = {"join": {"wait": "30d", "remember": "30d"}} if joined else {}
    return run_of(directory, SCORED, window=given, evaluator=options, **join)


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "windows": draw(st.lists(st.sampled_from(sorted(WINDOWS)), unique=True, min_size=1)),
        "recent": draw(st.none() | st.sampled_from([(a, b or "9h") for a, b in LENGTHS])),
        "slices": draw(st.lists(st.sampled_from(SLICES), unique_by=json.dumps)),
        "threshold": draw(st.sampled_from([0.25, 0.5, 0.8])),
        "metrics": draw(st.sampled_from(METRICS)),
        "bins": draw(st.sampled_from([10, 4])),
    }


actions = st.lists(
    st.tuples(st.just("feed"), st.integers(1, 25))
    | st.tuples(st.just("relabel"), st.integers(1, 15))
    | st.tuples(st.just("change"), configurations()),
    min_size=2,
    max_size=5,
)


def changed(metrics: list[str] | None, threshold: float | None = None) -> tuple[str, Any]:
    return "change", {"metrics": metrics, "threshold": threshold}


# Scores that began late are dropped in the same change as the threshold moves: the counts of
# labels derived from them begin with them, and those that are older are not replaced by fewer.
@example(
    True,
    {"metrics": ["brier_score", "recall"], "threshold": 0.25},
    [changed(None, 0.8), changed(["accuracy"], 0.25), ("relabel", 15)],
    4240,
    "exact",
)
@example(
    True,
    {"metrics": ["accuracy"]},
    [changed(None), ("feed", 10), changed(["accuracy"], 0.25), ("feed", 10)],
    1,
    "exact",
)
@example(
    False,
    {"metrics": ["brier_score"]},
    [
        *(changed(["brier_score", "recall"]), changed(None), ("feed", 10)),
        changed(["f1", "roc_auc"], 0.25),
    ],
    957,
    "exact",
)
@settings(max_examples=15)
@given(
    st.booleans(),
    configurations(),
    actions,
    st.integers(0, 2**16),
    # Of the few scores of this stream none are joined: all is derived as from an exact index.
    st.sampled_from(["exact", None]),
)
def test_every_part_holds_what_the_model_says(
    joined: bool, first: dict[str, Any], steps: list[tuple[str, Any]], seed: int, limit: Any
) -> None:
    """Random changes between events, labels and corrections; compared after each step."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        world = World(directory, joined, settings_of(directory, joined, limit=limit, **first), seed)
        world.feed(10)
        world.run()
        for kind, what in steps:
            if kind == "feed":
                world.feed(what)
            elif kind == "relabel":
                world.relabel(what)
            else:
                world.change(settings_of(directory, joined, limit=limit, **what))
            world.run()


def records(*rows: Mapping[str, Any]) -> Partitions:
    return {"r": ("records", [json.dumps(row).encode() for row in rows])}


def pairs() -> Partitions:
    return {"p": ("predictions", []), "l": ("labels", [])}


def feed(lists: Partitions, name: str, *records: Mapping[str, Any]) -> None:
    lists[name][1].extend(json.dumps(record).encode() for record in records)


def test_scores_begin_beside_labels_that_wait_and_are_corrected(tmp_path: Path) -> None:
    """Columns that are kept of later predictions only: the earlier ones have fewer."""
    fields = {"id": "id", "y_pred": "p", "time": "t", "time_unit": "us"}
    join = {"wait": "1h", "remember": "1h"}
    labels_only = run_of(tmp_path, fields, evaluator={"slices": ["country"]}, join=join)
    lists = pairs()
    shared = {"country": "PT", "device": "x", "score": 0.5}
    feed(lists, "p", *({"id": n, "p": True, "t": START + n, **shared} for n in range(4)))
    feed(lists, "l", *({"id": n, "y_true": True, "t": START + n} for n in range(2)))
    go_on(labels_only, lists)
    sliced = {"slices": ["device", "country"]}
    scored = run_of(tmp_path, fields | {"score": "score"}, evaluator=sliced, join=join)
    lines, drops = migrate(scored)
    begins = " begins now: it holds predictions from 2023-11-14"
    assert [line.partition(begins)[0] for line in lines] == [
        "what is kept of scores (all metrics of them)",
        "slice 'device'",
        "counting predictions of window 'all'",
    ]
    assert drops == {}
    feed(lists, "l", {"id": 0, "y_true": False, "t": START + 9})  # a correction
    feed(lists, "l", {"id": 2, "y_true": False, "t": START + 9})  # of one that waited
    feed(lists, "p", *({"id": n, "p": True, "t": START + n, **shared} for n in range(4, 7)))
    feed(lists, "l", *({"id": n, "y_true": n == 4, "t": START + n} for n in range(4, 7)))
    evaluator = go_on(scored, lists)["all"]
    assert set(evaluator.confusion.cells()) == {(True, True, 2), (False, True, 4)}
    state_set = evaluator.total._window.current()
    assert (state_set.index.positives, state_set.index.negatives) == (1, 2)
    counts = {key: one.confusion.total for key, one in evaluator.slices().items()}
    assert counts == {(("country", "PT"),): 6, (("device", "x"),): 3}
    # A correction of what was counted after the change is taken out of everything.
    feed(lists, "l", {"id": 4, "y_true": False, "t": START + 20})
    evaluator = go_on(scored, lists)["all"]
    state_set = evaluator.total._window.current()
    assert (state_set.index.positives, state_set.index.negatives) == (0, 3)
    assert set(evaluator.slices()[(("device", "x"),)].confusion.cells()) == {(False, True, 3)}


def many(directory: Path, **given: Any) -> RunSettings:
    """A run of several classes over complete records."""
    return run_of(directory, {"proba": "q"}, evaluator={"task": "multiclass", **given})


def test_labels_of_several_classes_grow_and_never_shrink(tmp_path: Path) -> None:
    rows = [("a", {"a": 0.75, "b": 0.25}), ("b", {"a": 0.5, "b": 0.5}), ("b", {"b": 1.0})]
    lists = records(*({"y_true": label, "q": shares} for label, shares in rows))
    go_on(many(tmp_path, metrics=["accuracy"]), lists)
    with pytest.raises(ConfigError, match=r"^evaluator.labels: .*\["):
        migrate(many(tmp_path, metrics=["accuracy"], labels=["a", "c"]))
    closed = many(tmp_path, metrics=["accuracy"], labels=["a", "b"])
    assert migrate(closed)[1] == {}
    go_on(closed, lists)
    wider = many(tmp_path, metrics=["accuracy"], labels=["a", "b", "c"])
    (line,), _ = migrate(wider)
    assert line.startswith("evaluator.labels: ")
    with pytest.raises(ConfigError, match=r"^evaluator.labels: .* was begun with "):
        migrate(closed)
    more = [("c", {"c": 1.0}), ("c", {"b": 1.0})]
    feed(lists, "r", *({"y_true": label, "q": shares} for label, shares in more))
    evaluator = go_on(wider, lists)["all"]
    whole = se.Evaluator("multiclass", labels=["a", "b", "c"], metrics=["accuracy"], **KEPT)
    for label, shares in rows + more:
        whole.update(label, proba=shares)
    assert evaluator == whole


def test_scores_that_are_no_probabilities_stay_so_and_the_other_way_round(tmp_path: Path) -> None:
    rows = [("a", {"a": 2.0, "b": -1.5}), ("b", {"a": 0.5, "b": 0.25}), ("b", {"a": -4, "b": 9})]
    lists = records(*({"y_true": label, "q": shares} for label, shares in rows))
    options: dict[str, Any] = {"labels": ["a", "b"], "metrics": ["accuracy", "roc_auc_ovr"]}
    scores = many(tmp_path, **options, probabilities=False)
    evaluator = go_on(scores, lists)["all"]
    whole = se.Evaluator("multiclass", **options, probabilities=False, **KEPT)
    for label, shares in rows:
        whole.update(label, score=shares)
    assert evaluator == whole
    assert migrate(scores) == ([], {})
    (tmp_path / "p").mkdir()
    probable = many(tmp_path / "p", **options)
    go_on(probable, records({"y_true": "a", "q": {"a": 1.0}}))
    more = {**options, "labels": ["a", "b", "c"]}
    for key, other in (
        ("probabilities", many(tmp_path, **options)),
        ("labels", many(tmp_path, **more, probabilities=False)),
        ("probabilities", many(tmp_path / "p", **options, probabilities=False)),
    ):
        with pytest.raises(ConfigError, match=f"^evaluator.{key}: "):
            migrate(other)


def test_what_windows_keep_stays_while_a_run_reads_its_file_again(tmp_path: Path) -> None:
    windows = [{"name": "old"}, {"name": "own", "max_scores": 4096}]

    def written(most: int) -> RunSettings:
        return run_of(tmp_path, {"score": "s"}, evaluator={"max_scores": most}, window=windows)

    now = with_stored_defaults(written(2048), {"old": RetentionOptions(2048, interval_sums=False)})
    assert [window.interval_sums for window in now.window] == [False, True]
    silent = msgspec.structs.replace(written(2048), intervals=False)
    changed, later = while_running(now, silent)
    assert (changed.intervals, changed.window, later) == (False, now.window, [])
    assert while_running(now, written(1024))[1] == ["evaluator.max_scores", "window"]
    options = {"evaluator": {"max_scores": 2048}, "window": windows, "quarantine": {"keep": 3}}
    wanted = run_of(tmp_path / "b", {"score": "s"}, **options, checkpoint={"every": "5s"})
    changed, later = while_running(now, wanted)
    assert (changed.checkpoint.every, changed.quarantine.keep) == ("5s", 3)
    assert (changed.store, later) == (now.store, ["store"])


def test_joined_scores_derive_nothing_and_sums_beside_them_stay_exact(tmp_path: Path) -> None:
    def limited(**given: Any) -> RunSettings:
        return run_of(tmp_path, {"score": "score"}, evaluator={"max_scores": 1024, **given})

    rng = random.Random(0)
    rows = [{"y_true": rng.random() < 0.5, "score": rng.random(), "c": "x"} for _ in range(1500)]
    lists = records(*rows)
    go_on(limited(), lists)
    sliced = limited(slices=["c"])
    assert migrate(sliced)[1] == {}
    evaluator = go_on(sliced, lists)["all"]
    whole = se.Evaluator()
    whole.update_many([row["y_true"] for row in rows], score=[row["score"] for row in rows])
    bounds = evaluator.bounds("roc_auc")
    assert bounds.low < whole["roc_auc"] < bounds.high
    for name in ("brier_score", "log_loss", "expected_calibration_error", "binormal_auc"):
        assert evaluator[name] == whole[name]
        # That of the binormal area is resampled, from cells.
        assert name == "binormal_auc" or evaluator.interval(name) == whole.interval(name)
    for changed, lost in (({"threshold": 0.7}, "labels"), ({"bins": 4}, "scores")):
        assert migrate(limited(slices=["c"], **changed), drop=False)[1].keys() == {lost}


def test_bounds_of_several_classes_hold_after_corrections_and_a_restart(tmp_path: Path) -> None:
    metrics = ["accuracy", "roc_auc_ovr"]
    options = {"task": "multiclass", "max_scores": 1024, "metrics": metrics}
    fields = {key: one for key, one in SCORED.items() if key != "score"} | {"proba": "p"}
    now = run_of(tmp_path, fields, evaluator=options, join={"wait": "30d"})
    lists = pairs()
    rng = random.Random(2)
    kept: dict[int, tuple[str, dict[str, float]]] = {}
    for part in range(2):
        for number in range(1500 * part, 1500 * (part + 1)):
            first = rng.random()
            shares = {"a": first, "b": (1 - first) / 4, "c": (1 - first) * 3 / 4}
            kept[number] = rng.choice("abc"), shares
            at = {"id": number, "time": START + number * MINUTE // 60}
            feed(lists, "p", {**at, "p": shares})
            feed(lists, "l", {**at, "y_true": kept[number][0]})
        for number in rng.sample(sorted(kept), 300):
            kept[number] = rng.choice("abc"), kept[number][1]
            at = {"id": number, "time": START + number * MINUTE // 60 + MINUTE}
            feed(lists, "l", {**at, "y_true": kept[number][0]})
        with opened(now) as run:
            run.runner.run([Lists(lists, run.runner.positions, InTurn(100))])
            with run.store.reading() as connection:
                both = run.evaluators["all"], merged_windows(connection)["all"]
        exact = se.Evaluator("multiclass", metrics=metrics)
        for label, shares in kept.values():
            exact.update(label, proba=shares)
        for evaluator in both:
            bounds = evaluator.bounds("roc_auc_ovr")
            assert bounds.low <= exact["roc_auc_ovr"] <= bounds.high
            assert bounds.low < bounds.high or part < 1
            assert evaluator["accuracy"] == exact["accuracy"]


def test_sums_of_scores_that_need_more_begin_anew_once_confirmed(tmp_path: Path) -> None:
    row = {"y_true": "a", "q": {"a": 0.75, "b": 0.25}}
    lists = records(row, row)
    go_on(many(tmp_path, metrics=["accuracy", "log_loss"]), lists)
    ranked = many(tmp_path, metrics=["accuracy", "log_loss", "roc_auc_ovr"])
    lines, drops = migrate(ranked)
    assert drops == {"scores": "the sums of scores (log_loss)"}
    assert lines[0] == "metric 'roc_auc_ovr' is added"
    assert lines[1].startswith("what is kept of scores (log_loss, roc_auc_ovr) begins now")
    feed(lists, "r", row)
    report = go_on(ranked, lists)["all"].report().to_dict()
    support = {name: row["support"] for name, row in report["metrics"].items()}
    assert support == {"accuracy": 3, "log_loss": 1, "roc_auc_ovr": 1}


def test_most_slices_may_change_while_it_is_exact(tmp_path: Path) -> None:
    def few(most: int, window: str = "all") -> RunSettings:
        options = {"slices": ["k"], "max_slices": most}
        return run_of(tmp_path, {"score": "s"}, evaluator=options, window=[{"name": window}])

    lists = records(*({"y_true": True, "s": 0.5, "k": n} for n in range(3)))
    go_on(few(10), lists)
    with pytest.raises(ConfigError, match="max_slices: expected at least 3, the slices that are"):
        migrate(few(2))
    assert migrate(few(3))[0] == ["evaluator.max_slices: 3 instead of 10"]
    feed(lists, "r", {"y_true": True, "s": 0.5, "k": 7})
    assert len(go_on(few(3), lists)["all"].slices()) == 4  # with (other)
    with pytest.raises(ConfigError, match=r"max_slices: .* '3', .* give the windows new names"):
        migrate(few(5))
    assert set(migrate(few(5, "whole"))[1]) == {"window.all"}


def test_before_the_first_record_every_setting_may_change(tmp_path: Path) -> None:
    go_on(many(tmp_path), records())
    other = run_of(tmp_path, {"score": "s"})
    assert migrate(other)[0] == ["no record was read before: all settings are taken over"]
    lists = records({"y_true": True, "s": 0.5})
    assert go_on(other, lists)["all"]["accuracy"] == 1.0
    watched = run_of(tmp_path, {"score": "s"}, alert=[{"name": "b", "metric": "f1", "below": 0.5}])
    assert migrate(watched)[0] == ["alert 'b' begins now"]
    go_on(watched, lists)
    assert migrate(watched)[0] == []
    assert migrate(other)[0] == ["alert 'b' is removed"]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE meta SET value = '{' WHERE key = 'config.evaluator.bins'",
        "INSERT INTO meta VALUES ('run.begins', '[]')",
        "INSERT INTO alerts VALUES ('book', '{')",
        "UPDATE meta SET value = '[1]' WHERE key = 'run.layout'",
        "UPDATE meta SET value = '{}' WHERE key = 'run.join'",
    ],
)
def test_damage_is_reported_in_words(tmp_path: Path, damage: str) -> None:
    now = settings_of(tmp_path, True)
    lists = pairs()
    feed(lists, "p", {"id": 1, "score": 0.5, "time": START})
    go_on(now, lists)
    with closing(open_store(now.store)) as store, store.transaction() as connection:
        connection.execute("DELETE FROM alerts")
        connection.execute("DELETE FROM meta WHERE key = 'run.begins'")
        assert connection.execute(damage).rowcount == 1
    with pytest.raises(StoreError, match="damaged"):
        migrate(settings_of(tmp_path, True, threshold=0.7))


def test_answers_say_since_when_a_part_holds_events(tmp_path: Path) -> None:
    first = settings_of(tmp_path, True)
    lists = pairs()
    record = {"id": 1, "score": 0.5, "time": START, "country": "PT"}
    feed(lists, "p", record)
    go_on(first, lists)
    now = settings_of(tmp_path, True, windows=["all", "day"], slices=["country"])
    migrate(now)
    feed(lists, "p", {**record, "id": 2, "time": START + 1})
    feed(lists, "l", *({"id": n, "y_true": True, "time": START + 2} for n in (1, 2)))
    with opened(now) as run:
        run.runner.run([Lists(lists, run.runner.positions, InTurn())])
        published = run.data
    since = "2023-11-14T22:13:20.000001Z"
    specs = [window["spec"] for window in published["windows"]]
    assert specs == [f"all events, slice country since {since}", f"all events, since {since}"]
    reports = published["reports"]
    assert reports["all"]["slices_since"] == {"country": since}
    assert reports["day"]["since"] == since
    assert [reports[name]["metrics"]["accuracy"]["support"] for name in ("all", "day")] == [2, 1]
    assert [row["support"] for row in published["slices"]["all"]] == [1]
