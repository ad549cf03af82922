"""The compiled way of an event: the bits, the errors and the file of the way in Python."""

from __future__ import annotations

import gc
import inspect
import random
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, MetricError, StateError
from streameval.evaluator.updates import CheckedCalls
from streameval.metrics.registry import METRICS
from streameval.metrics.undefined import reason_of
from streameval.states.probability import ProbabilitySums
from streameval.windows import last

compiled = pytest.mark.skipif(
    se.backend() != "native",
    reason="NOT TESTED: compiled code, of which none was built",
)

START = 1_772_323_200.0
WINDOWS: dict[str, Any] = {
    "all": None,
    "last 1": se.Last(1),
    "last": se.Last(30),
    "panes": se.Panes("40s", pane="10s", lateness="10s", retain="80s"),
    "one pane": se.Panes("10s"),
    "fading": se.Fading("50s"),
    "fading by events": se.Fading(20),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "auc": {"metrics": ["roc_auc"]},
    "accuracy": {"metrics": ["accuracy"]},
    "losses": {"metrics": ["log_loss"]},
    "losses and labels": {"metrics": ["log_loss", "f1"], "bins": 3},
    "spam": {"positive": "spam", "threshold": 0.4},
    "one and two": {"positive": 1, "labels": [1, 2]},
    "negated": {"positive": 0},
    "intervals": {"intervals": True},
    "squares": {"metrics": ["log_loss"], "intervals": True},
    "moments": {"metrics": ["binormal_auc", "f1"]},
    "temporal": {"temporal": True},
    "bounded": {"max_scores": 1024},
    "sliced": {"slices": ("country",)},
    "few slices": {"slices": ("country", ("country", "model")), "max_slices": 3},
    "classes": {"task": "multiclass"},
    "listed classes": {"task": "multiclass", "labels": ["a", "b", "c"]},
    "sliced classes": {"task": "multiclass", "metrics": ["f1_macro"], "slices": ("country",)},
    "kept classes": {"task": "multiclass", "intervals": True, "temporal": True},
    "bounded classes": {"task": "multiclass", "max_scores": 1024},
    "class losses": {"task": "multiclass", "metrics": ["log_loss"]},
    "signed classes": {"task": "multiclass", "labels": ["a", "b", "c"], "probabilities": False},
}
READ = {
    "binary": [
        *("roc_auc", "f1", "accuracy", "log_loss", "brier_score", "recall", "precision"),
        *("f1_macro", "matthews_corrcoef", "cohen_kappa"),
    ],
    "multiclass": ["accuracy", "f1_macro", "cohen_kappa", "log_loss", "roc_auc_ovr"],
}


def outcome(evaluator: se.Evaluator, how: str, **values: Any) -> str:
    """What came of a call, in words: the refusal, or nothing."""
    try:
        getattr(evaluator, how)(**values)
    except InputError as error:
        return str(error)
    return ""


def value(evaluator: Any, name: str) -> str:
    try:
        number = evaluator[name]
    except MetricError as error:
        return str(error)
    return float(number).hex() + getattr(number, "reason", "")


def interval(evaluator: se.Evaluator, how: str = "interval", **given: Any) -> str:
    """An interval of the AUC to the last bit, or the refusal."""
    try:
        found = getattr(evaluator, how)("roc_auc", **given)
    except (InputError, MetricError) as error:
        return str(error)
    return repr((tuple(found), reason_of(found.value), type(found)))


WRONG: dict[str, list[Any]] = {
    "score": [float("nan"), "0.5"],
    "proba": [0.5],
    "y_true": ["eggs", [], None],
    "y_pred": [{}],
    "weight": [0],
    "slices": [5, {"country": []}, {"country": "(missing)"}],
    "event_time": ["yesterday", float("inf"), 10**30, None],
    "unit": [3],
}
PLACES = [{}, {"country": None}, {"country": 7}, {"country": True}, {"country": "7"}]
SHARES = [{"a": 1.0}, {"c": 0.5, "b": 0.5}, {"a": 1}, {"a": -0.0, "b": 1.0}]


class Stream:
    """Events as users pass them: mostly plain, now and then anything."""

    def __init__(self, seed: int, options: dict[str, Any], window: Any) -> None:
        self.draw = random.Random(seed)
        self.several = options.get("task") == "multiclass"
        self.signed = not options.get("probabilities", True)
        declared = "labels" in options or "spam" in options.values()
        positive = options.get("positive", True) if declared else None
        self.labels: tuple[Any, Any] = {"spam": ("ham", "spam"), 1: (2, 1)}.get(
            positive,  # type: ignore[arg-type]
            (False, True),
        )
        self.timed = isinstance(window, se.Panes) or window == WINDOWS["fading"]
        self.sliced = "slices" in options
        self.now = START

    def label(self) -> Any:
        draw = self.draw
        if self.several:
            return draw.choice("aabbbc")
        label = self.labels[draw.random() < 0.4]
        if isinstance(label, bool) and draw.random() < 0.2:
            return draw.choice([int(label), float(label), np.bool_(label), np.int64(label)])
        return label

    def shares(self) -> dict[str, float]:
        draw = self.draw
        parts = {label: draw.choice((0.0, 0.25, 1.0, draw.random())) for label in "abc"}
        parts[draw.choice("abc")] += 0.5
        shares = {label: part / sum(parts.values()) for label, part in parts.items()}
        return shares if draw.random() < 0.9 else draw.choice(SHARES)

    def prediction(self) -> dict[str, Any]:
        draw = self.draw
        label, score = self.label(), round(draw.random(), draw.choice((1, 2, 9)))
        if self.several:
            shares = {"score" if self.signed else "proba": self.shares()}
            named = {"y_pred": label}
            return draw.choice([named, named, shares, shares | named])
        odd = draw.choice([-0.0, 1, np.float32(0.5), True, -3.5, 1e300, 5e-324, 1 - 2.0**-53])
        kinds: list[dict[str, Any]] = [
            {"score": score},
            {"proba": score},
            {"y_pred": label},
            {"y_pred": label, "score": np.float64(score)},
            {"score": odd},
            {"proba": draw.choice([1.5, -0.1, {"x": 1.0}, float("nan")])},
        ]
        return draw.choices(kinds, [70, 7, 7, 6, 6, 4])[0]

    def event(self) -> dict[str, Any]:
        draw = self.draw
        values: dict[str, Any] = {"y_true": self.label(), **self.prediction()}
        if self.timed:
            self.now += draw.choice((0, 0, 0.1, 1, 2.5, 30 if draw.random() < 0.05 else 0.5))
            time: Any = self.now - (draw.random() * 25 if draw.random() < 0.2 else 0.0)
            values["event_time"] = draw.choice(
                [time, time, time, int(time), datetime.fromtimestamp(time, UTC)]
            )
        if self.sliced:
            place: Any = {"country": draw.choice("abcd"), "model": draw.choice([1, "1", "x"])}
            values["slices"] = place if draw.random() < 0.9 else draw.choice(PLACES)
        if draw.random() < 0.15:
            values["weight"] = draw.choice([1, 1.0, np.int64(1), True, 2, 2, 3, 7, 2**20, 2**40])
        if draw.random() < 0.03:
            name = draw.choice([*WRONG])
            values[name] = draw.choice(WRONG[name])
        return values

    def columns(self, count: int) -> dict[str, Any]:
        """A batch of plain events."""
        draw = self.draw
        true, predicted = ([self.label() for _ in range(count)] for _ in range(2))
        values: dict[str, Any] = {"y_true": true, "y_pred": predicted}
        if not self.several:
            values["score"] = [round(draw.random(), 2) for _ in range(count)]
            if draw.random() < 0.8:
                del values["y_pred"]
            if draw.random() < 0.3:
                values["score"] = np.array(values["score"])
                if self.labels == (False, True):
                    values["y_true"] = np.array(true, dtype=bool)
            if draw.random() < 0.1 and count:
                values["score"][-1] = draw.choice([float("nan"), 1, 0.5])
        if draw.random() < 0.1 and count:
            bad: list[dict[str, Any]] = [
                {"y_true": [[]] * count},
                {"y_true": np.array([[True, False]])},
                {"y_pred": true[1:]},
                {"y_pred": None, "score": None},
                {"y_pred": [*true[1:], []]},
            ]
            values |= draw.choice(bad)
        if self.timed:
            values["event_time"] = [self.now] * count
        if self.sliced:
            values["slices"] = {"country": [draw.choice("ab") for _ in range(count)]}
        return values


def in_python(make: Callable[[], se.Evaluator]) -> se.Evaluator:
    """An evaluator with its compiled way closed, whose last events are in a deque."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(last, "compiled_ring", lambda most, plan: None)
        evaluator = make()
    evaluator._fast = False  # type: ignore[attr-defined]
    return evaluator


def combinations() -> list[tuple[str, str]]:
    """Every window with settings of each kind, and each other setting in one window in turn."""
    few = ("default", "sliced", "classes")
    found = [(name, kind) for name in WINDOWS for kind in few]
    for number, (kind, options) in enumerate(OPTIONS.items()):
        without = "pane" if "temporal" in options else "last" if "max_scores" in options else "-"
        names = [name for name in WINDOWS if without not in name and "fading" not in name]
        found += [(names[number % len(names)], kind)] * (kind not in few)
    return found


@compiled
@pytest.mark.parametrize(("name", "kind"), combinations())
def test_random_operations_agree_with_the_way_in_python(name: str, kind: str) -> None:
    options, window = OPTIONS[kind], WINDOWS[name]
    new = partial(se.Evaluator, window=window, time_unit="s", **options)
    ev, twin = new(), in_python(new)
    if name.startswith("last") and ev.task == "binary" and not options.get("temporal"):
        rings = [one._windows.total._compiled is None for one in (ev, twin)]  # type: ignore[attr-defined]
        assert rings == [False, True]
    stream = Stream(len(name) + len(kind), options, window)
    draw, came = stream.draw, [stream.event()]
    several = stream.several
    names = [n for n in READ[ev.task] if METRICS[n].state in ev.plan.keeps or not several]
    names = names or ["log_loss"]

    def both(how: str, **values: Any) -> None:
        assert outcome(ev, how, **values) == outcome(twin, how, **values), values

    for step in range(150):
        act = draw.random()
        if act < 0.88:
            came.append(stream.event())
            both("update", **came[-1])
        elif act < 0.93:
            both("revert", **draw.choice(came[-8:]))
        elif act < 0.95:
            both("update_many", **stream.columns(draw.choice((0, 1, 2, 5, 40))))
        elif act < 0.96:
            if not isinstance(window, se.Last) and name != "fading by events":
                shard = ev.emptied()
                outcome(shard, "update", **stream.event())
                ev.merge(shard, allow_overlap=True)
                twin.merge(shard, allow_overlap=True)
        elif act < 0.97:
            ev = se.from_bytes(ev.to_bytes())
            twin = in_python(partial(se.from_bytes, twin.to_bytes()))
        elif act < 0.98:
            only = partial(se.Evaluator.counting_only, dimensions=(), labels=True, scores=False)
            with only(ev), only(twin):
                both("update", **stream.event())
            assert not twin._fast  # type: ignore[attr-defined]
        else:
            # From now on the merge of a slice's panes is kept current, too.
            views, twins = {"": ev} | ev.slices(), {"": twin} | twin.slices()
            assert views.keys() == twins.keys()
            for key, name_of in product(views if act < 0.99 else [""], names):
                assert value(views[key], name_of) == value(twins[key], name_of), (key, name_of)
        name_of = draw.choice(names)
        assert value(ev, name_of) == value(twin, name_of), name_of
        level = draw.choice((0.95, 0.8))
        assert interval(ev, level=level) == interval(twin, "_interval_checked", level=level)
        if step % 25 == 0:
            assert ev.to_bytes() == twin.to_bytes()
            assert (ev.retained, ev.arrivals) == (twin.retained, twin.arrivals)
            assert ev.slices_overflowed == twin.slices_overflowed
            ev._check()
    assert ev.to_bytes() == twin.to_bytes()
    for key, view in ev.slices().items():
        assert view.report().to_dict() == twin.slices()[key].report().to_dict()


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the methods that were called in Python, as they are called."""
    called: list[str] = []
    for name in ("update", "revert", "update_many", "interval"):
        own = getattr(se.Evaluator, f"_{name}_checked")

        def noted(self: Any, *args: Any, name: str = name, own: Any = own, **values: Any) -> Any:
            called.append(name)
            return own(self, *args, **values)

        monkeypatch.setattr(se.Evaluator, f"_{name}_checked", noted)
    return called


@compiled
@pytest.mark.parametrize("kind", ["default", "sliced", "few slices", "losses", "classes"])
@pytest.mark.parametrize("name", ["all", "last", "panes", "one pane"])
def test_plain_events_are_counted_without_python(name: str, kind: str, checked: list[str]) -> None:
    ev = se.Evaluator(window=WINDOWS[name], time_unit="s", **OPTIONS[kind])
    several = kind == "classes"

    def update(yes: Any, score: Any, event_time: Any = START, how: str = "score") -> None:
        values = {"y_true": yes, how: score}
        if several:
            values = {"y_true": "ab"[yes], "y_pred": "ab"[bool(score > 0.5)]}
        ev.update(**values, event_time=event_time, slices={"country": "a", "model": "x"})

    for yes in (True, False):
        for score in (0.25, 0.75, 0.5):
            update(yes, score)
    assert checked or not several
    for metric in READ[ev.task]:
        if METRICS[metric].state in ev.plan.keeps or not several:
            value(ev, metric)
    checked.clear()
    for score in (0.75, 0.875, np.float64(1.0)):
        update(True, score)
    update(False, 0.75)
    update(True, 0.75, START + 11)  # another pane
    if not several:
        update(1, 0.75, int(START) + 12, "proba")
        update(np.True_, 0.75, START + 12.5)
        update(True, 0.75, datetime.fromtimestamp(START + 12, UTC))
    assert not checked
    ev._check()


@compiled
@given(
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.lists(
        st.one_of(
            st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
            st.datetimes(datetime(2026, 2, 1), datetime(2026, 3, 30), timezones=st.just(UTC)),
            st.integers(-(2**70), 2**70),
            st.integers(-(10**6), 10**6),
            st.floats(),
            st.floats(-1e6, 1e6).map(np.float64),
            st.integers(-40, 40).map(lambda n: n / 2),
        ),
        max_size=12,
    ),
)
def test_times_are_those_of_the_way_in_python(unit: str, times: list[Any]) -> None:
    # Panes of about 200 years: the latest moment, which is written, is most of the state.
    window = se.Panes("10000w", lateness="1000w")
    scale = {"s": 1, "ms": 1_000, "us": 10**6, "ns": 10**9}[unit]
    ev = se.Evaluator(window=window, time_unit=unit)
    twin = in_python(partial(se.Evaluator, window=window, time_unit=unit))
    for time in [int(START) * scale, *times]:
        near = not isinstance(time, datetime) and abs(time) <= 10**6
        value = time + int(START) * scale if near else time
        for one in {id(time): time, id(value): value}.values():
            given = {"y_true": True, "score": 0.5, "event_time": one}
            assert outcome(ev, "update", **given) == outcome(twin, "update", **given)
            assert (ev.newest, ev.arrivals) == (twin.newest, twin.arrivals)


def test_an_event_of_a_window_is_not_counted_without_its_label() -> None:
    ev = se.Evaluator(window=se.Last(3))
    counting = ev.counting_only((), labels=False, scores=True)
    with pytest.raises(StateError, match="without its label"), counting:
        pass


@compiled
def test_signature_and_documentation_are_those_of_the_method() -> None:
    for name in ("update", "revert", "update_many", "interval"):
        shown, own = getattr(se.Evaluator, name), getattr(CheckedCalls, name)
        assert inspect.signature(shown) == inspect.signature(own)
        assert inspect.getdoc(shown) == inspect.getdoc(own)
    for named, message in (({}, "argument"), ({"y_true": True, "scores": 0.5}, "scores")):
        with pytest.raises(TypeError, match=message):
            se.Evaluator().update(**named)  # type: ignore[arg-type]


@compiled
def test_losses_of_large_sums_are_those_of_the_way_in_python() -> None:
    sums = ProbabilitySums()
    sums.update(True, 0.1, 2**53)
    for _ in range(8):
        sums.merge(sums.copy())
    tally = sums.tally()
    assert tally is not None
    if tally.update(True, 0.3):
        assert tally.log_loss() == se.metrics.log_loss(sums)
    sums.update(True, 0.3, 0.5)
    assert not tally.update(True, 0.3)
    assert tally.log_loss() != tally.log_loss()


EVENTS = 900


@compiled
@pytest.mark.parametrize(
    ("share", "gap", "weight", "at_once", "window"),
    [
        (0.5, 0.2, 1, True, None),
        (0.5, 4.0, 3, True, se.Last(EVENTS - 300)),
        (0.22, 2.0, 1, True, None),
        (0.1, 9.0, 1, False, None),  # an AUC of 1
        (0.5, 0.0, 1, False, se.Last(EVENTS - 300)),  # scores that are all one
        (0.5, 0.2, 2**12, True, None),  # more pairs than the variance takes in the end
        (0.5, 0.2, 2**30, False, se.Last(EVENTS - 300)),  # more than 2**53
    ],
)
def test_intervals_of_an_auc_are_those_of_the_way_in_python(
    share: float, gap: float, weight: int, at_once: bool, window: Any, checked: list[str]
) -> None:
    ev, draw, shorter = se.Evaluator(metrics=["roc_auc"], window=window), random.Random(5), 0
    ev._cache_interval("roc_auc", 0.95, "auto")  # not only from the first of DeLong's on
    for step in range(EVENTS):
        label = draw.random() < share
        event = {"score": round(draw.gauss(gap * label, 1.0 if gap else 0.0), 1), "weight": weight}
        ev.update(label, **event)
        if step % 7 == 0:
            ev.revert(label, **event)
        if step == EVENTS // 2 and window is None:
            ev.merge(ev.copy(), allow_overlap=True)
        interval(ev, method="delong")  # has the index keep the sums
        checked.clear()
        found = interval(ev)
        shorter += "interval" not in checked
        assert found == interval(ev, "_interval_checked")
    assert (shorter > 0) == at_once
    if window is None:
        ev.update(True, score=0.5, weight=0.5)
        assert interval(ev) == interval(ev, "_interval_checked")


@compiled
def test_an_interval_at_once_refuses_what_is_refused_in_python(checked: list[str]) -> None:
    ev = se.Evaluator()
    ev.update_many([n % 3 > 0 for n in range(200)], score=[(n % 7) / 7 for n in range(200)])
    known = interval(ev, level=np.float16(0.5))
    checked.clear()
    assert interval(ev, level=0.5) == known
    assert not checked
    half = Fraction(1, 2)
    assert interval(ev, level=half) == interval(ev, "_interval_checked", level=half) != known
    for method in ([], "wilson", None):
        refused = interval(ev, level=0.5, method=method)
        assert refused == interval(ev, "_interval_checked", level=0.5, method=method) != known
    with pytest.raises(MetricError, match="no metric is called"):
        ev["roc_auc", 0.5, "auto"]  # type: ignore[index]


@compiled
@pytest.mark.parametrize("window", [se.Panes("1h"), se.Last(50)])
def test_nothing_leaks(window: Any) -> None:
    places = ["".join(["P", "T"]), "".join(["D", "E"])]
    labels = ["".join(["sp", "am"]), "".join(["h", "am"])]
    ev = se.Evaluator(positive=labels[0], slices=("country",), window=window, time_unit="s")
    whole, score, level = se.Evaluator(metrics=["roc_auc"]), 0.123456, float("0.9")
    whole.update_many([n % 3 > 0 for n in range(200)], score=[n % 7 / 7 for n in range(200)])

    def work() -> None:
        for n in range(500):
            place = {"country": places[n % 2]}
            ev.update(labels[n % 2], score=score, event_time=START, slices=place)
            ev.update(labels[n % 3 == 0], score=n / 500, event_time=START, slices=place)
            assert ev["accuracy"] >= 0
            assert whole.interval("roc_auc", level=level).level == level
            outcome(ev, "update", y_true=[], score=score, event_time=START, slices={})

    work()
    gc.collect()
    watched = [score, level, *places, *labels, se.Interval, ev._windows.total, ev._input]
    watched += [None, True, False, 1]
    before = [sys.getrefcount(item) for item in watched]
    for _ in range(3):
        work()
    gc.collect()
    after = [sys.getrefcount(item) for item in watched]
    assert all(abs(a - b) < 30 for a, b in zip(after, before, strict=True)), (before, after)
