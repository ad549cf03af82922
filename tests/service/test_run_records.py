"""Raw messages become columns: every message is in exactly one of them, or bad."""

from __future__ import annotations

import gc
import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import Evaluator
from streameval.errors import InputError
from streameval.records.chunk import RecordError
from streameval.records.event_columns import arguments
from streameval.service.config.settings import EvaluatorSettings, FieldSettings, LabelFieldSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.decode.labels import LONGEST_NAME
from streameval.service.sources.raw import KINDS, Decoded, Kind, RawBatch
from tests.support.hostile import hostile

NOW = 1_800_000_000.0
SECOND = 1_000_000
FIELDS = FieldSettings(id="id", score="score")


def decoder(
    fields: FieldSettings = FIELDS, join: bool = True, most: int = 1 << 20, **evaluator: Any
) -> RecordDecoder:
    return RecordDecoder(fields, EvaluatorSettings(**evaluator), join, most, lambda: NOW)


def decode(
    with_: RecordDecoder, *messages: bytes | dict[str, Any], kind: Kind = "records", **more: Any
) -> Decoded:
    lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
    return with_.decode(
        RawBatch("kafka:a/0", kind, lines, range(100, 100 + len(lines)), {}, **more)
    )


def parts(decoded: Decoded) -> dict[str, list[int]]:
    found = {
        name: records.places.tolist()
        for name in ("predictions", "labels", "complete")
        if (records := getattr(decoded, name)) is not None
    }
    return found | ({"bad": [event.place for event in decoded.bad]} if decoded.bad else {})


def rows(decoded: Decoded) -> dict[int, Any]:
    """Everything by place, whatever came beside it."""
    found: dict[int, Any] = {
        event.place: event._replace(place=0, source="") for event in decoded.bad
    }
    for event in decoded.bad:
        event.detail.encode()  # no half of a surrogate pair in it
        assert len(event.detail) <= 500
    for name in ("predictions", "labels", "complete"):
        records = getattr(decoded, name)
        if records is None:
            continue
        columns = {
            key: column.tolist() if isinstance(column, np.ndarray) else column
            for key, column in records.columns.items()
        }
        for place, *values in zip(records.places.tolist(), *columns.values(), strict=True):
            assert place not in found
            found[place] = (name, dict(zip(columns, values, strict=True)))
    return found


LATE = {"id": "a", "score": 1}


@pytest.mark.parametrize(
    ("message", "of_kinds", "without_join"),
    [
        (LATE, ("predictions", "predictions", "y_true"), "y_true"),
        ({"id": 7, "y_true": 1}, ("labels", "record", "labels"), "score"),
        ({"id": "b", "score": 1, "y_true": False}, ("complete", "complete", "labels"), "complete"),
        (LATE | {"y_true": None}, ("predictions", "predictions", "y_true"), "y_true"),
        ({"id": "d"}, ("record", "record", "y_true"), "score"),
        # Without its id a repeated record could not be recognised.
        ({"score": 0.25, "y_true": 0}, ("id", "id", "id"), "complete"),
        # Of a label only its own fields matter.
        ({"id": "a", "score": "x", "y_true": 1}, ("score", "score", "labels"), "score"),
    ],
)
def test_the_fields_tell_what_a_record_is(
    message: dict[str, Any], of_kinds: tuple[str, ...], without_join: str
) -> None:
    def found(join: bool, kind: Kind) -> str:
        (name,) = parts(decoded := decode(decoder(join=join), message, kind=kind))
        return decoded.bad[0].reason if name == "bad" else name

    assert tuple(found(True, kind) for kind in KINDS) == of_kinds
    assert [found(False, kind) for kind in KINDS] == [without_join] * 3


def test_labels_and_ids_have_one_type() -> None:
    decoded = decode(decoder(), *({"id": 7, "score": 1, "y_true": y} for y in (0, True, 1.0)))
    columns = decoded.complete.columns
    assert columns["id"] == ["7"] * 3
    assert [type(label) for label in columns["y_true"]] == [int] * 3
    assert columns["time"].tolist() == [int(NOW) * SECOND] * 3


def test_labels_may_have_their_fields_elsewhere() -> None:
    label = LabelFieldSettings(id="event", y_true="truth.value", time="seen")
    fields = FieldSettings(id="meta.id", score="meta.score", time="at", time_unit="s", label=label)
    decoded = decode(
        decoder(fields),
        {"meta": {"id": 1, "score": 0.5}, "at": 3},
        {"event": 1, "truth": {"value": 1}, "seen": "1970-01-01T00:00:04.5Z"},
        {"event": 1, "truth": {"value": 1}, "at": 4},
        {"meta": None, "event": 1, "truth": {"value": 0}, "seen": 5},
    )
    assert parts(decoded) == {"predictions": [100], "labels": [101, 103], "bad": [102]}
    assert decoded.labels.columns["time"].tolist() == [4_500_000, 5_000_000]
    assert decoded.bad[0].detail.startswith("seen: expected a time: ISO 8601")


@pytest.mark.parametrize(
    ("named", "times", "expected"),
    [({"time": "t", "time_unit": "ms"}, [9], 5_000), ({}, [9], 9), ({}, None, int(NOW) * SECOND)],
)
def test_times_come_from_the_field_or_the_broker_or_the_clock(
    named: dict[str, Any], times: Any, expected: int
) -> None:
    with_ = decoder(FieldSettings(id="id", score="score", **named))
    decoded = decode(with_, {"id": 1, "score": 0.5, "t": 5}, times=times)
    assert decoded.predictions.columns["time"].tolist() == [expected]


def test_a_time_of_another_unit_is_a_fault_whatever_is_beside_it() -> None:
    fields = FieldSettings(id="id", score="score", time="t", time_unit="ms")
    times = [1_772_323_201_000, 1_772_323_201, 5_000, "1970-01-21T12:18:43.201Z", 1_772_323_201]
    decoded = decode(
        decoder(fields), *[{"id": n, "score": 0.5, "t": time} for n, time in enumerate(times)]
    )
    assert parts(decoded) == {"predictions": [100, 102, 103], "bad": [101, 104]}
    assert {event.detail for event in decoded.bad} == {
        "t: expected a time in ms, got 1772323201; "
        "in s it is a time of 2026-03-01: declare that unit"
    }


def test_a_time_far_ahead_is_a_fault_because_it_would_make_all_others_late() -> None:
    day = 86_400 * SECOND
    now = int(NOW) * SECOND
    decoded = decode(
        decoder(), *[{"id": n, "score": 0.5} for n in range(3)], times=[now + day, now + day + 1, 0]
    )
    assert parts(decoded) == {"predictions": [100, 102], "bad": [101]}
    assert decoded.bad[0].reason == "time"
    assert "raise fields.ahead" in decoded.bad[0].detail


FULL = FieldSettings(
    id="id", score="score", weight="w", time="t", slices={"country": "meta.country"}
)
GOOD = {"id": "a", "score": 0.5, "w": 2, "t": "2026-01-01T00:00:00Z", "meta": {"country": "PT"}}

# Most values of fields, and other lines: tests/unit/test_frozen_bad_records.py.
BAD: list[tuple[dict[str, Any] | bytes, str, str]] = [
    (GOOD | {"meta": 5}, "slice:country", "got 5"),
    (GOOD | {"id": int("9" * 4000)}, "id", "at most 1,024 bytes"),
    (b'{"\\ud800": 1}', "record", "neither; the record has"),
    (b"x" * ((1 << 20) + 1), "too long", "expected at most 1,048,576 bytes, got 1,048,577"),
]


@pytest.mark.parametrize(("message", "reason", "detail"), BAD, ids=range(len(BAD)))
def test_a_bad_record_is_reported_and_costs_nothing_beside_it(
    message: dict[str, Any] | bytes, reason: str, detail: str
) -> None:
    with_ = decoder(FULL, slices=["country"])
    decoded = decode(with_, message)
    (event,) = decoded.bad
    assert (parts(decoded), event.reason) == ({"bad": [100]}, reason)
    assert detail in event.detail
    beside = decode(with_, GOOD, message, {"id": "a", "y_true": 1, "t": "2026-01-01T00:00:00Z"})
    assert parts(beside) == {"predictions": [100], "labels": [102], "bad": [101]}
    assert beside.bad[0] == event._replace(place=101)


def test_what_the_source_refused_is_among_the_bad() -> None:
    bad = [RecordError("", "a line", "9 MiB", column="too long", place=90, raw=b"...")]
    decoded = decode(decoder(), {"id": 1}, bad=bad)
    assert [event.place for event in decoded.bad] == [90, 100]
    assert len(bad) == 1


def test_the_labels_of_a_multi_class_run() -> None:
    fields = FieldSettings(id="id", y_pred="y_pred")
    listed = decoder(fields, task="multiclass", labels=["cat", "dog"])
    decoded = decode(listed, {"id": 1, "y_pred": "cat"}, {"id": 1, "y_pred": "cow"})
    assert parts(decoded) == {"predictions": [100], "bad": [101]}
    assert "one of the labels 'cat', 'dog', got 'cow'" in decoded.bad[0].detail

    found = decoder(fields, task="multiclass")
    assert found.label_kind is None
    assert parts(decode(found, {"id": 1, "y_pred": 5})) == {"predictions": [100]}
    assert found.label_kind == "number"
    assert parts(decode(found, {"id": 1, "y_pred": "5"})) == {"bad": [100]}
    again = decoder(fields, task="multiclass")
    again.label_kind = "number"
    assert parts(decode(again, {"id": 1, "y_pred": "5"})) == {"bad": [100]}


BOTH = [0, 1]
RAW = {"probabilities": False}


@pytest.mark.parametrize(
    ("labels", "more", "shares", "taken"),
    [
        (BOTH, {}, {"0": 0.25, "1": 0.75}, {0: 0.25, 1: 0.75}),
        (BOTH, {}, {"true": 0.75, "false": 0.25}, {1: 0.75, 0: 0.25}),
        (BOTH, {}, {"true": 0.75, "1": 0.25}, "proba: expected each label once"),
        (None, {}, {"\ud800": 1.0}, "half of a surrogate pair"),
        (None, {}, {"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}),
        # Scores that are no probabilities.
        (BOTH, RAW, {"0": -2.5, "1": 7}, {0: -2.5, 1: 7.0}),
        (BOTH, RAW, {"0": 0.5}, "proba: expected a score of every label, as evaluator.prob"),
        (BOTH, RAW, {"0": None, "1": 1}, "expected a finite number in 'proba.0', got null"),
    ],
)
def test_scores_of_each_label(labels: Any, more: dict[str, Any], shares: Any, taken: Any) -> None:
    with_ = decoder(FieldSettings(id="id", proba="proba"), task="multiclass", labels=labels, **more)
    good = {"1": 3, "0": -3} if more else {str((labels or ["a"])[0]): 1.0}
    for others in ([], [{"id": 2, "proba": good}]):
        decoded = decode(with_, {"id": 1, "proba": shares}, *others)
        if isinstance(taken, str):
            assert taken in decoded.bad[0].detail
            assert decoded.bad[0].reason == "proba"
        else:
            assert decoded.predictions.columns["proba"][0] == taken
            assert not decoded.bad


def test_paths_that_clash_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="expected a field of its own"):
        decoder(FieldSettings(id="a", score="a.b"))


# What a hostile producer may write: fields of every shape, and bytes of any.
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(
        [10**25, 10**400, -0.0, "\ud800", "x" * (LONGEST_NAME + 1), "2026-01-01T00:00Z"]
    ),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["country", "ham", "0", ""]), st.none() | st.floats()),
)
NAMES = ["id", "score", "y_true", "w", "t", "meta", "proba", "y_pred", "other"]
SOUND = st.fixed_dictionaries(
    {"id": st.sampled_from(["a", 5, "é"])},
    optional={
        "score": st.sampled_from([0.5, 1, 0]),
        "y_pred": st.sampled_from(["ham", "spam"]),
        "proba": st.sampled_from([{"ham": 0.5, "spam": 0.5}, {"spam": 1}, {"ham": 0.1}]),
        "y_true": st.sampled_from([0, 1, True, 1.0, "ham", "spam"]),
        "w": st.sampled_from([1, 0.5]),
        "t": st.sampled_from([1.5, 10**9, "2026-01-01T00:00:00Z"]),
        "meta": st.sampled_from([{"country": "PT"}, {"country": 1}, {}, None]),
    },
)


MESSAGES = st.one_of(
    SOUND.map(json.dumps).map(str.encode),
    st.tuples(SOUND, st.dictionaries(st.sampled_from(NAMES), VALUES)).map(
        lambda pair: json.dumps({**pair[0], **pair[1]}).encode()
    ),
    st.binary(max_size=20),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.tuples(SOUND, st.integers(0, 99), st.binary(max_size=2)).map(
        lambda cut: (line := json.dumps(cut[0]).encode())[: cut[1]] + cut[2] + line[cut[1] + 1 :]
    ),
    st.sampled_from([b'{"a":' * 10_000, b"[" * 10_000, b'{"id":' + b"1" * 5000 + b"}"]),
    SOUND.map(lambda record: json.dumps(record, ensure_ascii=False).encode("utf-16")),
)
LAYOUTS = [
    (FieldSettings(id="id", score="score"), EvaluatorSettings()),
    (msgspec.structs.replace(FULL, time_unit="s"), EvaluatorSettings(slices=["country"])),
    (
        FieldSettings(id="id", y_pred="y_pred", proba="proba"),
        EvaluatorSettings(task="multiclass", labels=["ham", "spam"]),
    ),
    (
        FieldSettings(id="id", proba="proba", label=LabelFieldSettings(id="other", time="t")),
        EvaluatorSettings(positive="spam", labels=["ham", "spam"]),
    ),
]


@settings(max_examples=250)
@given(
    st.lists(MESSAGES, max_size=6),
    st.sampled_from(LAYOUTS),
    st.sampled_from(KINDS),
    st.booleans(),
)
def test_every_message_ends_up_in_one_place_whatever_comes_beside_it(
    messages: list[bytes], layout: tuple[FieldSettings, EvaluatorSettings], kind: Kind, join: bool
) -> None:
    with_ = RecordDecoder(*layout, join, 2_000_000, lambda: NOW)
    together = rows(decode(with_, *messages, kind=kind))
    assert sorted(together) == list(range(100, 100 + len(messages)))
    for place, message in enumerate(messages, 100):
        batch = RawBatch("a", kind, [message], [place], {})
        assert rows(with_.decode(batch)) == {place: together[place]}


@settings(max_examples=150)
@given(st.lists(MESSAGES, max_size=6), st.sampled_from(LAYOUTS))
def test_what_is_taken_an_evaluator_takes(
    messages: list[bytes], layout: tuple[FieldSettings, EvaluatorSettings]
) -> None:
    _, options = layout
    found = decode(RecordDecoder(*layout, False, 2_000_000, lambda: NOW), *messages).complete
    if found is not None:
        own = {"positive": options.positive} if options.task == "binary" else {}
        given = {"labels": options.labels, "slices": options.slices, "time_unit": "us", **own}
        evaluator = Evaluator(options.task, **given)
        evaluator.update_many(**arguments(found.columns))


def test_bad_records_leave_no_reference_cycles() -> None:
    # A cycle would keep the whole batch in memory until the next full collection.
    with_ = decoder(FieldSettings(id="id", score="score", time="time", time_unit="s"))
    lines = [line for line in hostile(4, 60, oversized=1) if b"\n" not in line]
    bad_times = [{"id": "a", "score": 0.5, "time": time} for time in ("soon", 1e30, -1, "", None)]
    decode(with_, *lines, *bad_times)
    gc.collect()
    gc.disable()
    try:
        decode(with_, *lines, *bad_times)
        assert gc.collect() == 0
    finally:
        gc.enable()
