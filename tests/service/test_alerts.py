"""Alerts: which state for which observations, also across restarts, and what they observe."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval.errors import ConfigError, StateError
from streameval.evaluator.evaluator import Evaluator
from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.rules import AlertBook
from streameval.service.config.checks import check_settings
from streameval.service.config.evaluators import kept_metrics, main_metrics, open_evaluators
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import AlertSettings, Duration, DurationOrZero, RunSettings
from streameval.service.publish.snapshot import Checkpoint, Quarantine, Slice, Snapshot, Value
from streameval.uncertainty.differences import difference
from streameval.uncertainty.proportions import wilson
from tests.support.published_sample import published
from tests.support.run import Clock
from tests.support.run import settings as settings_of

SECOND = 1_000_000
MINUTE = 60 * SECOND


def alert(**given: Any) -> AlertSettings:
    return AlertSettings(**{"name": "low", "metric": "accuracy", "below": 0.8} | given)


def run_of(*alerts: AlertSettings, **tables: Any) -> RunSettings:
    """The settings of a run over slices by country, in a window of all events, with alerts."""
    fields = {"id": "id", "score": "score", "time": "time"}
    given = settings_of(**{"window": [{"name": "all"}], "fields": fields, **tables})
    found = msgspec.structs.replace(given, alert=list(alerts))
    check_settings(found)
    return found


def plain(value: float | None, support: int = 100) -> AlertInput:
    return AlertInput(Value(value, support))


def sure(value: float, half: float, support: int = 100) -> AlertInput:
    return AlertInput(Value(value, support, "", value - half, value + half, "wilson"))


def book_of(*alerts: AlertSettings) -> AlertBook:
    return AlertBook(RunSettings(alert=list(alerts or [alert()])))


def reopened(book: AlertBook, *alerts: AlertSettings) -> AlertBook:
    again = book_of(*alerts)
    again.restore(json.loads(json.dumps(book.to_state())))
    return again


def states(book: AlertBook, *seen: AlertInput | float | None, start: int = 0) -> list[str]:
    """The state after each observation, a second apart; in capitals where it was posted."""
    found = []
    for moment, one in enumerate(seen, start):
        given = one if isinstance(one, AlertInput) else plain(one)
        judgement = book.judge({"low": given}, moment * SECOND)
        posted = [transition.event for transition in judgement.transitions]
        found.append(posted[0].upper() if posted else judgement.states[0].state)
    return found


CERTAIN = {"when": "certain"}


@pytest.mark.parametrize(
    ("given", "seen", "wanted"),
    [
        ({"below": None, "above": 0.2}, [math.inf], ["FIRING"]),
        ({}, [0.7, None, math.nan, 0.7, 0.9], ["FIRING", *["firing"] * 3, "RESOLVED"]),
        # An end that is infinite reaches beyond any bound.
        (CERTAIN, [AlertInput(Value(0.7, 9, "", 0.1, None, "x"))], ["ok"]),
        (CERTAIN, [AlertInput(Value(0.7, 9, "", None, 0.75, "x"))], ["FIRING"]),
        (CERTAIN, [AlertInput(Value(0.7, 9, "too few events"))], ["undefined"]),
    ],
)
def test_states_of_what_is_not_finite(
    given: dict[str, Any], seen: list[Any], wanted: list[str]
) -> None:
    """All others: the model below."""
    assert states(book_of(alert(**given)), *seen) == wanted


def test_what_is_published() -> None:
    book = book_of(
        alert(window="hour", slice={"country": "PT"}, min_support=10, when="certain", level=0.9)
    )
    book.judge({"low": sure(0.9, 0.05, 10)}, 5 * SECOND)
    judgement = book.judge({"low": sure(0.75, 0.03125, 12)}, 7 * SECOND)
    (state,), (transition,) = judgement.states, judgement.transitions
    assert (state.slice, state.support, state.bound) == ("country=PT", 12, "certainly below 0.8")
    assert (transition.number, transition.at) == (1, "1970-01-01T00:00:07Z")
    assert transition.text == (
        "firing: low: accuracy is 0.75 [0.71875, 0.78125] (certainly below 0.8 fires) "
        "in window hour, country=PT, support 12"
    )
    for one in (state, transition):
        found = (one.when, one.level, one.low, one.high, one.method)
        assert found == ("certain", 0.9, 0.71875, 0.78125, "wilson")
    for seen, reason in (
        ({"low": plain(0.9, 3)}, "support 3, less than 10"),
        ({"low": AlertInput(Value(math.nan, 3, "no positive"))}, "no positive"),
        ({"low": AlertInput(Value(0.7, 30, "too few events"))}, "too few events"),
        ({}, "not computed"),
    ):
        (state,) = book.judge(seen, 9 * SECOND).states
        assert (state.state, state.since) == ("firing", "1970-01-01T00:00:07Z")
        assert (state.reason, state.level, state.method) == (reason, None, "")


class Model:
    """The rules of an alert, told in another way: every observation since the last resolution."""

    def __init__(self, alert: AlertSettings, wait: int) -> None:
        self.alert = alert
        self.wait = wait
        self.seen: list[tuple[int, Value]] = []

    def state(self, now: int, value: Value) -> str:
        self.seen.append((now, value))
        firing, since, state = False, None, "undefined"
        for at, one in self.seen:
            defined = one.value is not None and one.support >= self.alert.min_support
            defined = defined and (self.alert.when == "value" or one.method != "")
            if not defined:
                state, since = ("firing", since) if firing else ("undefined", None)
                continue
            assert one.value is not None
            end = one.value if self.alert.when == "value" else one.high
            beyond = end is not None and end < self.alert.below
            if beyond:
                since = at if since is None else since
                firing = firing or at - since >= self.wait
                state = "firing" if firing else "pending"
            elif firing and one.value < self.alert.below:
                state = "firing"
            else:
                firing, since, state = False, None, "ok"
        return state


def negated(one: Value) -> Value:
    value, low, high = (None if x is None else -x for x in (one.value, one.high, one.low))
    return Value(value, one.support, one.reason, low, high, one.method)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([None, 0.6, 0.75, 0.79, 0.8, 0.9]),
        st.sampled_from([0.0, 0.02, 0.1, None]),
        st.sampled_from([1, 10]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@settings(max_examples=300)
@given(
    STEPS,
    st.sampled_from(["value", "certain", "anytime"]),
    st.sampled_from([0, 2]),
    st.booleans(),
)
def test_the_book_follows_the_model(
    steps: list[tuple[float | None, float | None, int, int]], when: str, wait: int, above: bool
) -> None:
    """Also across restarts, and each change is posted once; ``above``: all of it negative."""
    modelled = alert(when=when, for_=DurationOrZero(f"{wait}s"), min_support=5)
    watched = msgspec.structs.replace(modelled, below=None, above=-0.8) if above else modelled
    book, model, now = book_of(watched), Model(modelled, wait * SECOND), 0
    posted: list[str] = []
    for value, half, support, later in steps:
        now += later * SECOND
        seen = Value(value, support)
        if value is not None and half is not None:
            seen = Value(value, support, "", value - half, value + half, "wilson")
        given = negated(seen) if above else seen
        judgement = book.judge({"low": AlertInput(given)}, now)
        assert judgement.states[0].state == model.state(now, seen)
        posted += [transition.event for transition in judgement.transitions]
        assert (judgement.states[0].state == "firing") == (posted[-1:] == ["firing"])
        if later == 3:
            book = reopened(book, watched)
    assert posted == ["firing", "resolved"] * (len(posted) // 2) + ["firing"] * (len(posted) % 2)


@pytest.mark.parametrize(
    ("now", "kept"),
    [
        ({"for_": DurationOrZero("1h"), "min_support": 5}, True),
        ({"below": 0.75}, False),
        ({"level": 0.99}, False),
        ({"against": "previous"}, False),
        ({"slice": "any"}, False),
    ],
)
def test_an_alert_that_watches_something_else_starts_anew(now: dict[str, Any], kept: bool) -> None:
    begun = {"when": "certain", "level": 0.9}
    book = book_of(alert(**begun))
    assert states(book, sure(0.7, 0.01)) == ["FIRING"]
    again = reopened(book, alert(**begun | now))
    assert states(again, None, sure(0.7, 0.01))[0] == ("firing" if kept else "undefined")
    if kept:
        assert states(again, sure(0.9, 0.01)) == ["RESOLVED"]
        # Numbers go on: what was posted before keeps its own.
        assert [transition.number for transition in again.unsent] == [1, 2]


def test_a_clock_that_is_set_back_does_not_keep_an_alert_pending() -> None:
    kept = book_of(alert(for_=DurationOrZero("2s")))
    assert states(kept, 0.7, start=1_000_000) == ["pending"]
    assert states(kept, 0.7, 0.7, 0.7) == ["pending", "pending", "FIRING"]


def test_what_was_not_certainly_sent_is_kept() -> None:
    rule = alert(below=None, above=0.8)
    kept = book_of(rule)
    states(kept, math.inf, 0.7)
    assert "accuracy is infinite (above 0.8 fires)" in kept.unsent[0].text
    saved = kept.to_state()
    for key in ("when", "against", "level", "low", "high", "method", "slices"):
        del saved["unsent"][0][key]  # as older versions wrote it
    again = book_of(rule)
    again.restore(json.loads(json.dumps(saved)))
    assert again.unsent == kept.unsent
    again.discard([1, 99])
    assert [transition.event for transition in reopened(again, rule).unsent] == ["resolved"]
    states(again, *[0.9, 0.7] * 600)
    assert len(again.unsent) == 1000


def test_a_state_that_is_none() -> None:
    with pytest.raises(StateError, match="alerts: expected their saved state"):
        book_of().restore({"version": 2, "next": 1, "alerts": {}, "unsent": []})


# ------------------------------------------------------------------ observations


SAMPLE = msgspec.structs.replace(published(slices=0, join=False), windows=[], partitions=[])


def snapshot(**given: Any) -> Snapshot:
    """The sample with other parts."""
    return msgspec.structs.replace(SAMPLE, **given)


def inputs(
    settings: RunSettings, evaluators: Any = (), data: Snapshot = SAMPLE
) -> dict[str, AlertInput]:
    """What the alerts look at, by their names."""
    return AlertInputs(settings, dict(evaluators), lambda: 0.0).observe(data, 0)


def test_values_out_of_what_is_published() -> None:
    data = snapshot(
        slices={
            "all": [
                Slice({"c": "PT"}, "c=PT", 3, {"accuracy": None}, {"accuracy": "why"}, {}, {}, {}),
                Slice({"c": 7}, "c=7", 2, {"accuracy": 0.25}, {}, {}, {}, {}),
            ]
        },
    )
    alerts = [
        alert(name="slice", slice={"c": "PT"}),
        alert(name="no slice", slice={"c": "ES"}),
        alert(name="number", slice={"c": "7"}),
        alert(name="no window", window="day"),
        alert(name="no join", metric="label_coverage"),
    ]
    found = inputs(msgspec.structs.replace(run_of(), alert=alerts), data=data)
    assert {name: seen.value for name, seen in found.items()} == {
        "slice": Value(None, 3, "why"),
        "no slice": Value(None, 0, "no event of this slice yet"),
        "number": Value(0.25, 2),
        "no window": Value(None, 0, "not published"),
        "no join": Value(None, 0, "not published"),
    }


def guesses(
    count: int, seed: int, right: Callable[[int], float] = lambda n: 0.8
) -> Iterator[tuple[int, bool, bool]]:
    """The number, truth and prediction of events, of which this share is predicted right."""
    rng = random.Random(seed)
    for n in range(count):
        truth = rng.random() < 0.5
        yield n, truth, truth == (rng.random() < right(n))


def counted(settings: RunSettings) -> dict[str, Evaluator]:
    evaluators = open_evaluators(settings)
    for n, truth, guess in guesses(600, 3):
        given = {"event_time": n * SECOND, "slices": {"country": "PT" if n % 3 else "ES"}}
        for evaluator in evaluators.values():
            evaluator.update(truth, score=0.9 if guess else 0.1, **given)
    return evaluators


def observed(settings: RunSettings, evaluators: Any = (), data: Snapshot = SAMPLE) -> Value:
    return inputs(settings, evaluators, data)["low"].value


@pytest.mark.parametrize(("when", "part"), [("certain", {}), ("anytime", {"country": "PT"})])
def test_the_interval_of_an_alert_has_its_own_level(when: Any, part: Any) -> None:
    settings = run_of(alert(when=when, level=0.99, slice=part))
    evaluators = counted(settings)
    found = observed(settings, evaluators)
    whole = evaluators["all"]
    view = whole.slices()[(("country", "PT"),)] if part else whole.total
    method = "anytime" if when == "anytime" else "auto"
    wanted = view.interval("accuracy", level=0.99, method=method)
    assert (found.value, found.low, found.high) == (wanted.value, wanted.low, wanted.high)
    assert found.support == wanted.n
    assert found.method == ("anytime" if when == "anytime" else "wilson")


def test_an_alert_between_groups() -> None:
    watched = alert(
        metric="equal_opportunity_difference", slice="country", when="certain", level=0.9,
        below=None, above=0.05, min_support=100,
    )  # fmt: skip
    value = alert(name="value", metric="demographic_parity_ratio", slice="country")
    fewer = {"slices": ["country"], "metrics": ["roc_auc"]}
    settings = run_of(watched, value, evaluator=fewer)
    assert main_metrics(settings) == ["roc_auc"]
    assert kept_metrics(settings) == ["accuracy", "roc_auc"]
    evaluators = open_evaluators(settings)
    countries = ["PT", "ES", "FR"] * 296 + ["PT", "ES"] + ["DE"] * 10
    for n, truth, guess in guesses(900, 7, lambda n: 0.6 if countries[n] == "ES" else 0.8):
        given = {"event_time": n, "slices": {"country": countries[n]}}
        evaluators["all"].update(truth, score=float(guess), **given)
    report = evaluators["all"].fairness("country", min_support=100, level=0.9)
    row = report.by_name["equal_opportunity_difference"]
    seen = inputs(settings, evaluators)
    every = evaluators["all"].fairness("country")
    assert seen["value"].value.value == every["demographic_parity_ratio"]
    found = seen["low"]
    ends = (row.interval.low, row.interval.high)
    assert found.value == Value(row.value, row.support, "", *ends, "mover of wilson")
    assert found.slices[1] == "country=ES"
    changes = AlertBook(settings).judge({"low": found}, 0)
    assert "in window all, slices country=" in changes.transitions[0].text
    assert changes.states[0].slice == "country"


def test_against_the_window_before() -> None:
    window = {"name": "five", "length": "2m", "pane": "1m", "lateness": "0s", "retain": "10m"}
    settings = run_of(alert(against="previous", below=-0.1), window=[window], evaluator={})
    evaluators = open_evaluators(settings)
    before, now = Evaluator(), Evaluator()
    # 10 minutes of an event a second: the window is minutes 8 and 9, before it 6 and 7.
    for n, truth, guess in guesses(600, 4, lambda n: 0.9 if n < 480 else 0.6):
        evaluators["five"].update(truth, guess, event_time=n * SECOND)
        for evaluator, start in ((before, 360), (now, 480)):
            if start <= n < start + 120:
                evaluator.update(truth, guess)
    wanted = difference(now.interval("accuracy"), before.interval("accuracy"))
    found = observed(settings, evaluators)
    assert (found.value, found.low, found.high) == (wanted.value, wanted.low, wanted.high)
    assert (found.method, found.support) == ("mover", 120)
    book = AlertBook(settings)
    (transition,) = book.judge({"low": AlertInput(found)}, 0).transitions
    assert "against the window before (below -0.1 fires) in window five" in transition.text


def test_against_a_reference(tmp_path: Path) -> None:
    path = tmp_path / "month.state"
    month = Evaluator(slices=("country",))
    for n, truth, guess in guesses(1000, 5, lambda n: 0.9):
        score = 0.9 if guess else 0.1
        month.update(truth, score=score, slices={"country": "PT" if n % 2 else "IT"})
    month.save(path)
    pt, given = (("country", "PT"),), {"reference": str(path), "below": 0.0, "when": "certain"}
    for part in ({}, {"country": "PT"}):
        settings = run_of(alert(slice=part, **given))
        evaluators = counted(settings)
        mine, theirs = evaluators["all"].total, month.total
        if part:
            mine, theirs = evaluators["all"].slices()[pt], month.slices()[pt]
        wanted = difference(mine.interval("accuracy"), theirs.interval("accuracy"))
        found = observed(settings, evaluators)
        assert (found.value, found.low, found.high) == (wanted.value, wanted.low, wanted.high)
    settings = run_of(alert(slice={"country": "ES"}, **given))
    found = observed(settings, counted(settings))
    assert (found.value, found.reason) == (None, "the reference has no event of this slice")
    # It is gone after the start: the alert is undefined, and the run goes on.
    path.unlink()
    found = observed(settings, evaluators)
    assert found.value is None
    assert "month.state" in found.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"positive": "spam"}, "expected a state of positive 1, as the run's, got 'spam'"),
        ({"task": "multiclass"}, "expected a state of task 'binary', as the run's, got 'multicl"),
        ({"metrics": ["roc_auc"]}, "accuracy is not kept"),
    ],
)
def test_a_reference_that_means_something_else(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "other.state"
    Evaluator(**options).save(path)
    text = (
        '[fields]\nscore = "s"\n[[alert]]\nname = "a"\nmetric = "accuracy"\nbelow = 0\n'
        f"reference = {json.dumps(str(path))}"
    )
    with pytest.raises(ConfigError) as caught:
        settings_from_text(text, "run.toml")
    assert str(caught.value).startswith("run.toml: alert[0].reference: expected a state file")
    assert words in str(caught.value)


def rows_of(*accuracies: float, support: int = 200) -> list[Slice]:
    rows = []
    for n, one in enumerate(accuracies):
        low, high = wilson(round(one * support), support, 0.95)
        key: dict[str, Any] = {"country": f"C{n}"}
        ends = ({"accuracy": low}, {"accuracy": high})
        rows.append(Slice(key, f"country=C{n}", support, {"accuracy": one}, {}, *ends, {}))
    return rows


def test_any_slice() -> None:
    watched = alert(slice="any", when="certain", min_support=100)
    settings = run_of(watched)
    observer = AlertInputs(settings, {}, lambda: 0.0)
    book = AlertBook(settings)

    def look(rows: list[Slice], now: int) -> Any:
        return book.judge(observer.observe(snapshot(slices={"all": rows}), now), now)

    alike = [0.82] * 50
    assert look(rows_of(*alike), 0).states[0].state == "ok"
    # Of a single slice 0.74 would be certain, with a p-value of 0.02; of 53 slices it is not.
    found = look(rows_of(0.6, 0.55, 0.74, *alike), 1)
    (transition,) = found.transitions
    assert transition.slices == found.states[0].slices == ["country=C1", "country=C0"]
    assert (transition.value, transition.slice, found.states[0].slice) == (0.55, {}, "any")
    assert "in window all, slices country=C1; country=C0, support 200" in transition.text
    # Another one: the alert fires already, and its state names it.
    found = look(rows_of(0.6, 0.55, 0.5, *alike), 2)
    assert (found.transitions, len(found.states[0].slices)) == ([], 3)
    assert look(rows_of(*alike), 3).transitions[0].event == "resolved"
    assert look(rows_of(0.5, support=99), 4).states[0].state == "undefined"


def test_volume_and_quarantine_are_of_the_last_minutes() -> None:
    volume = alert(name="volume", metric="volume", below=10, per=Duration("5m"))
    bad = alert(name="bad", metric="quarantine", above=0.1, below=None, per=Duration("5m"))
    settings = run_of(volume, msgspec.structs.replace(bad, when="certain"))
    observer = AlertInputs(settings, {}, lambda: 0.0)
    book = AlertBook(settings)
    partition = published(slices=0).partitions[0]

    def look(minute: float, records: int, quarantined: int) -> list[tuple[str, Any]]:
        now = round(minute * MINUTE)
        data = snapshot(
            partitions=[msgspec.structs.replace(partition, records=records)],
            quarantine=Quarantine(quarantined, 0, {}, []),
        )
        found = book.judge(observer.observe(data, now), now)
        return [(one.state, one.value) for one in found.states]

    assert look(0, 1000, 50) == look(4, 1100, 50) == [("undefined", None)] * 2
    assert look(5, 1200, 50) == [("ok", 200), ("ok", 0.0)]
    for second in range(301, 540):
        look(second / 60, 1200, 50)
    # Of the last five minutes: from minute 4 on.
    assert look(9, 1300, 100) == [("ok", 200), ("firing", 0.25)]
    for second in range(541, 845):
        found = look(second / 60, 1300, 100)
    assert found == [("firing", 0), ("firing", None)]
    assert len(observer._samples) <= 202


@pytest.mark.parametrize(("lags", "value"), [([60, None, 50], 110), ([None], None)])
def test_lag_is_summed(lags: list[int | None], value: int | None) -> None:
    settings = run_of(alert(metric="lag", above=100.0, below=None))
    one = published(slices=0).partitions[0]
    data = snapshot(partitions=[msgspec.structs.replace(one, lag=lag) for lag in lags])
    assert observed(settings, data=data).value == value


def test_coverage_can_be_certain() -> None:
    settings = run_of(alert(metric="label_coverage", when="certain", below=0.95), join={})
    found = observed(settings, data=published(slices=0))
    assert (found.value, found.low, found.high) == (0.9166, *wilson(0.9166 * 5000, 5000, 0.95))


def test_reading_evaluators_is_bounded() -> None:
    """A read of 2 s is repeated after 40 s of run time, and never without a new checkpoint."""
    settings = run_of(alert(when="certain"))
    clock, reads = Clock(), []
    observer = AlertInputs(settings, counted(settings), clock)
    make = observer._read["low"]._make

    def dear() -> AlertInput:
        clock.now += 2.0
        reads.append(clock.now)
        return make()

    observer._read["low"]._make = dear
    for n in range(203):
        clock.now += 1.0 if n < 200 else 1000.0
        point = Checkpoint(min(n, 200), "1970-01-01T00:00:00Z", 0, 0.0)
        observer.observe(snapshot(checkpoint=point), 0)
    assert 5 <= len(reads) <= 7
