"""A refused event or batch changes no window, no slice, no timeline and no list of labels."""

from __future__ import annotations

from typing import Any

import pytest

import streameval as se
from streameval.states import class_scores
from streameval.states.confusion_parts import label_index

HEAVY = 2**53
HOUR = 3600
T0 = 1_700_002_800 // HOUR * HOUR
GIVEN: dict[str, dict[str, Any]] = {
    "binary": {"y_true": True, "score": 0.5},
    "multiclass": {"y_true": "a", "proba": {"a": 0.75, "b": 0.25}},
}
TASKS = pytest.mark.parametrize("task", ["binary", "multiclass"])


def refused(ev: se.Evaluator, call: Any, given: dict[str, Any], message: str = "at most") -> None:
    """The call is refused for want of room, and changes nothing."""
    before, labels = ev.to_bytes(), ev.labels
    with pytest.raises(se.InputError, match=message):
        call(**given)
    assert ev.to_bytes() == before
    assert ev.labels == labels
    ev._check()


def columns(*events: dict[str, Any]) -> dict[str, Any]:
    """The events as ``update_many`` takes them, with the names of the last."""
    given: dict[str, Any] = {name: [event.get(name) for event in events] for name in events[-1]}
    for name, column in given.items():
        if not all(isinstance(value, dict) for value in column):
            continue
        if name == "slices" or "champion" in column[0]:
            given[name] = {key: [value.get(key) for value in column] for key in column[0]}
    return given


@pytest.mark.parametrize(
    ("task", "sliced", "read"),
    [("binary", False, "total"), ("multiclass", True, "total"), ("binary", True, "slice")],
)
def test_a_pane_that_would_overflow_the_merge_of_panes_is_refused(task, sliced, read):
    window, slices = se.Panes("4h", pane="1h", lateness="4h"), ("k",) if sliced else ()
    ev = se.Evaluator(task, window=window, time_unit="s", slices=slices)  # type: ignore[arg-type]
    given = GIVEN[task] | ({"slices": {"k": "x"}} if sliced else {})
    # The merge of two panes has room for less than what is light; each has room for more.
    ev.update(**given, weight=HEAVY, event_time=T0)
    ev.update(**given, weight=HEAVY - 1, event_time=T0 + HOUR)
    for _ in range(8 if task == "binary" else 7):
        ev.merge(ev, allow_overlap=True)
    event = given | {"weight": 1000, "event_time": T0 + HOUR}
    late = event | {"event_time": T0 - HOUR}
    view = next(iter(ev.slices().values())) if read == "slice" else ev
    view["accuracy"]  # a merge is made at the first read
    for one in (event, late):
        refused(ev, ev.update, one)
    light = event | {"weight": 1}
    refused(ev, ev.update_many, columns(light, event, late))
    # The first part of a batch has room, the second has not.
    refused(ev, ev.update_many, columns(late | {"weight": 1}, event))
    ev.update(**light)
    ev.update_many(**columns(light, late | {"weight": 1}))
    ev._check()


@TASKS
def test_a_slice_of_the_last_events_may_be_full_where_the_total_is_not(task: str) -> None:
    ev = se.Evaluator(task, window=se.Last(520), slices=("k",))  # type: ignore[arg-type]
    event = GIVEN[task] | {"weight": HEAVY, "slices": {"k": "x"}}
    # Their weights come next to 2**62 - 1, shared by two classes where there are several.
    ev.update_many(**columns(*[event] * (511 if task == "binary" else 255)))
    ev.update_many(**columns(*[event | {"weight": 1, "slices": {"k": "y"}}] * 520))
    refused(ev, ev.update, event)
    for count in (2, 6):
        refused(ev, ev.update_many, columns(*[event | {"slices": {"k": "y"}}, *[event] * count]))
    ev.update(**event | {"slices": {"k": "y"}})
    ev._check()


@pytest.mark.parametrize(
    ("task", "more", "half_life"),
    [
        ("binary", {}, "300d"),
        ("multiclass", {"slices": ("k",)}, "300d"),
        ("binary", {"slices": ("k",)}, 2**40),
        # A replicate that counts all events three times is full first.
        ("binary", {"bootstrap": se.Bootstrap(20)}, "1h"),
    ],
)
def test_a_full_half_life_refuses(task: str, more: dict[str, Any], half_life: str | int) -> None:
    ev = se.Evaluator(task, window=se.Fading(half_life), time_unit="s", **more)  # type: ignore[arg-type]
    event = GIVEN[task] | {"weight": 2**20, "event_time": T0, "slices": {"k": "x"}}
    if "bootstrap" in more:
        event["unit"] = "u1"
    for call, given in ((ev.update_many, columns(*[event] * 50)), (ev.update, event)):
        before, refusal = b"", ""
        while not refusal:
            before = ev.to_bytes()
            try:
                call(**given)
            except se.InputError as error:
                refusal = str(error)
        assert "events of weight 1 in a half-life, got more" in refusal
        assert ev.to_bytes() == before
    most = (2**62 - 1) // (1 if task == "binary" else 2) >> 32
    refused(ev, ev.update_many, columns(event, event | {"weight": 1}), f"at most {most} events")
    ev._check()


@pytest.fixture
def six_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of labels that a test reaches quickly."""
    for module in (label_index, class_scores):
        monkeypatch.setattr(module, "MAX_CLASSES", 6)


@pytest.mark.parametrize(
    ("window", "metrics", "proba"),
    [
        (None, None, None),
        (se.Last(9), None, {"a": 0.5, "new": 0.5}),
        (se.Panes("1h"), ["accuracy"], {"a": 1.0}),
        (se.Fading(9), ["accuracy", "log_loss"], {"a": 0.5, "new": 0.5}),
        (None, ["accuracy", "log_loss"], {"a": 0.5, "new": 0.5}),
    ],
)
@pytest.mark.usefixtures("six_labels")
def test_labels_of_a_refused_event_are_not_known(window: Any, metrics: Any, proba: Any) -> None:
    ev = se.Evaluator("multiclass", window=window, time_unit="s", metrics=metrics, slices=("k",))
    for label in "abcde":
        ev.update(label, label, proba={label: 1.0}, event_time=1, slices={"k": 1})
    before = ev.to_bytes()
    # One of the two new labels would still be taken.
    given = {"y_true": "new", "y_pred": "newer", "proba": proba, "event_time": 1}
    rows = {name: value if value is None else [value] for name, value in given.items()}
    for verb, named, k in (("update", given, 1), ("update_many", rows, [1]), ("revert", given, 1)):
        with pytest.raises(se.InputError):
            getattr(ev, verb)(**named, slices={"k": k})
        assert ev.labels == list("abcde")
        assert ev.to_bytes() == before


def test_the_negative_label_of_a_refused_event_is_not_known() -> None:
    one = se.Evaluator(positive="spam", slices=("k",))
    with pytest.raises(se.InputError):
        one.update("ham", score=0.5, slices=3)
    with pytest.raises(se.InputError):
        one.update_many(["ham"], score=[0.5], slices={"k": ["a", "b"]})
    assert one.labels == ["not spam", "spam"]
    one.update("eggs", score=0.5, slices={"k": 1})
    assert one.labels == ["eggs", "spam"]


# One law over all of them -------------------------------------------------

WINDOWS: dict[str, Any] = {
    "all": None,
    "last": se.Last(6),
    "panes": se.Panes("4h", pane="1h", lateness="1h"),
    "fading": se.Fading("1h"),
    "fading events": se.Fading(4),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "scores": {"labels": [0, 1]},
    "labels": {"positive": "spam"},
    "sliced": {"slices": ("k",)},
    "intervals": {"intervals": True, "slices": ("k",)},
    "max_scores": {"max_scores": 1024, "metrics": ["roc_auc", "log_loss", "accuracy"]},
    "temporal": {"temporal": True},
    "losses": {"intervals": True, "metrics": ["log_loss", "brier_score"], "bins": 3},
    "few slices": {"slices": ("k",), "max_slices": 1, "undefined": 0.0},
    "bootstrap": {"bootstrap": se.Bootstrap(20), "slices": ("k",)},
    "classes": {"task": "multiclass"},
    "probabilities": {"task": "multiclass", "slices": ("k",), "intervals": True},
    "class scores": {"task": "multiclass", "labels": ["a", "b"], "probabilities": False},
    "comparison": {"slices": ("k",)},
    "comparison of classes": {"task": "multiclass"},
    "comparison of bins": {"paired_scores": False, "max_scores": 1024, "threshold": 0.25},
}


def events_of(kind: str) -> list[dict[str, Any]]:
    """Good events; with the last of them weights that are not whole begin."""
    events = []
    for n in range(7):
        share, pair = n / 8, "ab"[n % 2]
        event: dict[str, Any] = {"y_true": n % 2 == 0, "score": share}
        if kind == "labels":
            event = {"y_true": ["spam", "ham"][n % 2], "y_pred": "spam"}
        elif kind in ("classes", "comparison of classes"):
            event = {"y_true": pair, "y_pred": "b"}
        elif kind in ("probabilities", "class scores"):
            shares = {"a": share, "b": 1 - share}
            event = {"y_true": pair, "proba" if kind == "probabilities" else "score": shares}
        event |= {"weight": 1 + n % 3, "event_time": T0 + n * 1200, "slices": {"k": n % 2}}
        if kind == "bootstrap":
            event["unit"] = n % 3
        events.append(event)
    events.append(events[-1] | {"weight": 0.5})
    return events


BAD: list[dict[str, Any]] = [
    {"y_true": None},
    {"y_true": "other"},
    {"y_pred": 0.5},
    {"score": float("nan")},
    {"score": {"a": "x"}},
    {"proba": {"a": 0.5, "c": 0.1}},
    {"proba": 2.0},
    {"weight": -1},
    {"event_time": None},
    {"slices": {"k": "(missing)"}},
    {"slices": 5},
]


# Each option in panes and in one other window, each window with whole weights and fractions.
OTHERS = {"max_scores": "all", "temporal": "last"}
CASES = [
    (kind, window, window == "last" or kind == "bootstrap" or (n + m) % 2 == 0)
    for n, kind in enumerate(OPTIONS)
    for m, window in enumerate(("panes", OTHERS.get(kind, ("all", "last", "fading")[n % 3])))
    if (kind, window) != ("temporal", "panes")
]
CASES += [("scores", "fading events", True), ("comparison", "fading events", False)]


@pytest.mark.parametrize(("kind", "window", "whole"), CASES)
def test_law_a_refused_call_leaves_the_bytes(kind: str, window: str, whole: bool) -> None:
    """What was read before, too: of whole weights nothing, of fractions and the last events all."""
    read = not whole or window == "last"
    several, made_of = kind.startswith("comparison"), events_of(kind)
    if several:
        for event in made_of:
            for name in {"y_pred", "score"} & event.keys():
                event[name] = {"champion": event[name], "challenger": event[name]}
    if whole or window == "last":
        made_of.pop()

    def make(**more: Any) -> Any:
        options = OPTIONS[kind] | {"window": WINDOWS[window], "time_unit": "s"} | more
        return (se.Comparison if several else se.Evaluator)(**options)

    ev = make()
    for event in made_of:
        ev.update(**event)
    total = ev.reference if several else ev
    if read:
        total.report()
        [view.report() for view in total.slices().values()]
    refused = 0
    before, names, times = ev.to_bytes(), ev.labels, ev.arrivals

    def attempt(method: str, *given: Any, **named: Any) -> None:
        nonlocal refused, ev
        error = None
        try:
            getattr(ev, method)(*given, **named)
        except (se.InputError, se.StateError) as caught:
            error = caught
        if error is None:
            ev = type(ev).from_bytes(before) if several else se.from_bytes(before)
            return
        refused += 1
        assert (ev.to_bytes(), ev.labels, ev.arrivals) == (before, names, times), error
        assert isinstance(error, se.StateError) is (method == "merge"), error

    wrong = BAD if several else [*BAD, {"unit": float("nan")}]
    for bad in wrong[:: 3 if kind == "bootstrap" else 1]:  # 21 states are slow to write
        event = made_of[0] | bad
        attempt("update", **event)
        attempt("update_many", **columns(made_of[1], event))
        attempt("revert", **event)
    # What was never counted, in whole or in one slice, by every way of telling it: an event of
    # each label and slice, and the last, whose weight may be a fraction.
    for event in (*made_of[:2], made_of[-1]):
        attempt("revert", **event | {"weight": 100})
        attempt("revert", **event | {"slices": {"k": "never"}})
        attempt("revert", **event | {"slices": {"k": 1 - event["slices"]["k"]}})
        attempt("revert", **event | {"event_time": T0 - 9 * HOUR})
        attempt("revert", **event | {"weight": 0.5})
        attempt("revert", **event)
    for other in others(kind, make, made_of):
        attempt("merge", other)
    ev._check()
    heavy = kind in ("scores", "intervals", "probabilities") and window != "last"
    if heavy and not (window == "panes" and kind == "probabilities"):
        # To the most that a state holds; of unread panes the next read says so.
        for _ in range(55 if whole else 0):
            before, times = ev.to_bytes(), ev.arrivals
            try:
                ev.merge(ev.copy(), allow_overlap=True)
            except se.StateError:
                assert (ev.to_bytes(), ev.labels, ev.arrivals) == (before, names, times)
                break
    assert refused > 20


def others(kind: str, make: Any, events: list[dict[str, Any]]) -> list[Any]:
    """Shards of which some cannot be merged: other settings, other labels, any last events."""
    found = [make(max_slices=7), make()]
    found[1].update(**events[0])
    if kind == "labels":
        found.append(make())
        found[-1].update("eggs", "spam", event_time=T0)
    if kind == "classes":
        found.append(make())
        found[-1].update(1, 2, event_time=T0)
    return found
