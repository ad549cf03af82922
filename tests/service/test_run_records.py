"""Raw messages become columns: every message is in exactly one of them, or bad."""

from __future__ import annotations

import gc
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streameval import Evaluator
from streameval.errors import InputError
from streameval.records.chunk import RecordError
from streameval.service.config.settings import EvaluatorSettings, FieldSettings, LabelFieldSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.decode.labels import LONGEST_NAME
from streameval.service.sources.raw import Decoded, Kind, RawBatch
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


def the_bad(decoded: Decoded) -> RecordError:
    assert (decoded.predictions, decoded.labels, decoded.complete) == (None, None, None)
    (event,) = decoded.bad
    return event


def test_the_fields_tell_what_a_record_is() -> None:
    decoded = decode(
        decoder(),
        {"id": "a", "score": 0.5},
        {"id": 7, "y_true": 1},
        {"id": "b", "score": 1, "y_true": False},
        {"id": "c", "score": 0.25, "y_true": None},
        {"id": 5, "score": 0.25, "y_true": 0},
        {"id": "d"},
        {"score": 0.25, "y_true": 0},
    )
    assert parts(decoded) == {
        "predictions": [100, 103],
        "labels": [101],
        "complete": [102, 104],
        "bad": [105, 106],
    }
    assert decoded.predictions.columns["id"] == ["a", "c"]
    assert decoded.predictions.columns["score"].tolist() == [0.5, 0.25]
    assert decoded.labels.columns["id"] == ["7"]
    assert list(decoded.labels.columns["y_true"]) == [1]
    assert decoded.complete.columns["id"] == ["b", "5"]
    # Without its id a repeated record could not be recognised.
    assert decoded.bad[1].reason == "id"
    assert [type(label) for label in decoded.complete.columns["y_true"]] == [int, int]
    assert decoded.complete.columns["time"].tolist() == [int(NOW) * SECOND] * 2


def test_a_batch_of_one_kind() -> None:
    both = {"id": "a", "score": 0.5, "y_true": 1}
    assert parts(decode(decoder(), both, kind="predictions")) == {"complete": [100]}
    assert parts(decode(decoder(), both, kind="labels")) == {"labels": [100]}
    assert parts(decode(decoder(), {"id": 1, "y_true": 1}, kind="predictions")) == {"bad": [100]}
    # Of a label only its own fields matter.
    odd = {"id": "a", "score": "not a number", "y_true": 1}
    assert parts(decode(decoder(), odd, kind="labels")) == {"labels": [100]}
    assert parts(decode(decoder(), odd)) == {"bad": [100]}


@pytest.mark.parametrize("kind", ["records", "predictions", "labels"])
def test_without_a_join_only_complete_records_count(kind: Kind) -> None:
    decoded = decode(
        decoder(join=False), {"score": 0.5, "y_true": 1}, {"score": 0.5}, {"y_true": 1}, kind=kind
    )
    assert parts(decoded) == {"complete": [100], "bad": [101, 102]}
    assert [event.reason for event in decoded.bad] == ["y_true", "score"]
    assert sorted(decoded.complete.columns) == ["score", "time", "y_true"]


def test_labels_may_have_their_fields_elsewhere() -> None:
    fields = FieldSettings(
        id="meta.id",
        score="meta.score",
        time="at",
        time_unit="s",
        label=LabelFieldSettings(id="event", y_true="truth.value", time="seen"),
    )
    decoded = decode(
        decoder(fields),
        {"meta": {"id": 1, "score": 0.5}, "at": 3},
        {"event": 1, "truth": {"value": 1}, "seen": "1970-01-01T00:00:04.5Z"},
        {"event": 1, "truth": {"value": 1}, "at": 4},
        {"meta": None, "event": 1, "truth": {"value": 0}, "seen": 5},
    )
    assert parts(decoded) == {"predictions": [100], "labels": [101, 103], "bad": [102]}
    assert decoded.labels.columns["time"].tolist() == [4_500_000, 5_000_000]
    assert decoded.bad[0].reason == "time"
    assert decoded.bad[0].detail.startswith("seen: expected a time: ISO 8601")


def test_times_come_from_the_field_or_the_broker_or_the_clock() -> None:
    record = {"id": 1, "score": 0.5, "t": 5}
    timed = FieldSettings(id="id", score="score", time="t", time_unit="ms")
    for fields, times, expected in (
        (timed, [9], 5_000),
        (FIELDS, [9], 9),
        (FIELDS, None, int(NOW) * SECOND),
    ):
        decoded = decode(decoder(fields), record, times=times)
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
    (GOOD | {"score": "0.5"}, "score", "got the text '0.5'; write numbers without quotes"),
    (GOOD | {"meta": 5}, "slice:country", "got 5"),
    (GOOD | {"id": "é" * 513}, "id", "at most 1,024 bytes"),
    (GOOD | {"id": int("9" * 4000)}, "id", "at most 1,024 bytes"),
    ({"y_true": 1}, "id", "id: expected an id (text or an integer), got no field 'id'"),
    (b'{"\\ud800": 1}', "record", "neither; the record has"),
    (b"x" * ((1 << 20) + 1), "too long", "expected at most 1,048,576 bytes, got 1,048,577"),
]


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("meta", [None, {}, {"country": None}, {"country": float("nan")}, ...])
def test_a_slice_may_be_missing(meta: Any, nan: bool) -> None:
    message = {key: value for key, value in GOOD.items() if key != "meta"}
    message |= {} if meta is ... else {"meta": meta}
    # A NaN in a field that is not read sends the record to the other parser.
    message |= {"x": float("nan")} if nan else {}
    decoded = decode(decoder(FULL, slices=["country"]), GOOD, message)
    assert decoded.predictions.columns["slice:country"] == ["PT", None]
    assert not decoded.bad


@pytest.mark.parametrize(("message", "reason", "detail"), BAD, ids=range(len(BAD)))
def test_a_bad_record_is_reported_and_costs_nothing_beside_it(
    message: dict[str, Any] | bytes, reason: str, detail: str
) -> None:
    with_ = decoder(FULL, slices=["country"])
    event = the_bad(decode(with_, message))
    assert event.reason == reason
    assert detail in event.detail
    assert len(event.detail) <= 500
    event.detail.encode()

    beside = decode(with_, GOOD, message, {"id": "a", "y_true": 1, "t": "2026-01-01T00:00:00Z"})
    assert parts(beside) == {"predictions": [100], "labels": [102], "bad": [101]}
    assert beside.bad[0] == event._replace(place=101)


def test_what_the_source_refused_is_among_the_bad() -> None:
    bad = [RecordError("", "a line", "9 MiB", column="too long", place=90, raw=b"...")]
    decoded = decode(decoder(), {"id": 1}, bad=bad)
    assert [event.place for event in decoded.bad] == [90, 100]
    assert len(bad) == 1


def test_nan_and_odd_text_in_unused_fields_change_nothing() -> None:
    decoded = decode(
        decoder(),
        b'{"id": "a", "score": 0.5, "feature": NaN}',
        b'{"id": "b", "score": 0.5, "name": "\\ud800"}',
        b'\xef\xbb\xbf{"id": "c", "score": 0.5}',
        '{"id": "é", "score": 0.5}'.encode(),
    )
    assert decoded.predictions.columns["id"] == ["a", "b", "c", "é"]


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
        (["0", "1"], {}, {"0": 1.0}, {"0": 1.0}),
        (None, {}, {"\ud800": 1.0}, "half of a surrogate pair"),
        (None, {}, {"x" * 2000: 1.0}, "at most 1,024 bytes"),
        (None, {}, {"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}),
        # Scores that are no probabilities.
        (BOTH, RAW, {"0": -2.5, "1": 7}, {0: -2.5, 1: 7.0}),
        (BOTH, RAW, {"0": 0.5}, "proba: expected a score of every label, as evaluator.prob"),
        (BOTH, RAW, {"0": 0.5, "1": 1, "2": 1}, "proba: expected one of the labels 0, 1, got '2'"),
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
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-1, max_value=2),
    st.floats(),
    st.sampled_from([0.5, 0.25, 10**25, 10**400, -0.0, 5e-324]),
    st.text(max_size=5),
    st.sampled_from(["ham", "spam", "\ud800", "x" * (LONGEST_NAME + 1), "2026-01-01T00:00:00Z"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from(["country", "ham", "spam", "0", "1", ""]), inner),
    ),
    max_leaves=4,
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


def as_json(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode()


def twice(records: tuple[dict[str, Any], dict[str, Any]]) -> bytes:
    """An object with each of its names twice."""
    first, second = (json.dumps(record)[1:-1] for record in records)
    return f"{{{', '.join(part for part in (first, second) if part)}}}".encode()


MESSAGES = st.one_of(
    SOUND.map(as_json),
    st.dictionaries(st.sampled_from(NAMES), VALUES).map(as_json),
    st.tuples(SOUND, st.dictionaries(st.sampled_from(NAMES), VALUES)).map(
        lambda pair: as_json({**pair[0], **pair[1]})
    ),
    st.tuples(SOUND, SOUND).map(twice),
    st.binary(max_size=20),
    VALUES.map(lambda value: json.dumps(value).encode()),
    SOUND.map(as_json).flatmap(
        lambda line: st.tuples(st.integers(0, len(line)), st.binary(max_size=2), st.just(line)).map(
            lambda cut: cut[2][: cut[0]] + cut[1] + cut[2][cut[0] + 1 :]
        )
    ),
    st.sampled_from([b'{"a":' * 10_000, b"[" * 10_000, b'{"id":' + b"1" * 5000 + b"}"]),
    SOUND.map(lambda record: json.dumps(record, ensure_ascii=False).encode("utf-16")),
    SOUND.map(lambda record: json.dumps(record, ensure_ascii=False).encode("latin-1")),
)
LAYOUTS = [
    (FieldSettings(id="id", score="score"), EvaluatorSettings()),
    (
        FieldSettings(
            id="id",
            score="score",
            weight="w",
            time="t",
            time_unit="s",
            slices={"country": "meta.country"},
        ),
        EvaluatorSettings(slices=["country"]),
    ),
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
    st.sampled_from(["records", "predictions", "labels"]),
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
    fields, options = layout
    with_ = RecordDecoder(fields, options, False, 2_000_000, lambda: NOW)
    found = decode(with_, *messages).complete
    if found is None:
        return
    evaluator = (
        Evaluator(
            options.task, positive=options.positive, labels=options.labels, slices=options.slices
        )
        if options.task == "binary"
        else Evaluator(options.task, labels=options.labels)
    )
    arguments: dict[str, Any] = {
        name: found.columns[name]
        for name in ("y_true", "y_pred", "score", "proba", "weight")
        if name in found.columns
    }
    if options.slices:
        arguments["slices"] = {"country": found.columns["slice:country"]}
    evaluator.update_many(**arguments)


@pytest.mark.parametrize("kind", ["predictions", "labels", "records"])
def test_bad_records_leave_no_reference_cycles(kind: Kind) -> None:
    # A cycle would keep the whole batch in memory until the next full collection.
    with_ = decoder(FieldSettings(id="id", score="score", time="time", time_unit="s"))
    lines = [line for line in hostile(4, 60) if b"\n" not in line]
    bad_times = [{"id": "a", "score": 0.5, "time": time} for time in ("soon", 1e30, -1, "", None)]
    decode(with_, *lines, *bad_times, kind=kind)
    gc.collect()
    gc.disable()
    try:
        decode(with_, *lines, *bad_times, kind=kind)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_weight_of_0_is_a_good_one() -> None:
    decoded = decode(decoder(FULL), GOOD | {"w": 0}, GOOD | {"w": -0.0})
    assert list(decoded.predictions.columns["weight"]) == [0.0, 0.0]
    assert not decoded.bad
