"""What labels, scores, weights and times become, and how others are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from streameval.errors import InputError
from streameval.events.time import (
    ForwardClock,
    duration,
    duration_text,
    event_time,
    iso_time,
    unit_remedy,
)
from streameval.events.truth import canonical_positive, positive_column
from streameval.events.values import (
    array_of,
    canonical_label,
    canonical_score,
    canonical_weight,
    check_probabilities,
    check_same_kind,
    factorised,
    is_missing,
    is_number,
    label_column,
    most_probable,
    score_column,
)
from streameval.tasks.registry import one_of_tasks, task_names


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (array_of([1, 2]), None),
        (array_of(np.float64(0.5)), None),
        ([canonical_label(value) for value in (True, 1.0, np.str_("cat"))], [1, 1, "cat"]),
        ([is_number(v) for v in (np.int64(1), True, np.timedelta64(1, "s"))], [True, False, False]),
        (canonical_score(np.float32(0.5)), 0.5),
        ([canonical_weight(2.0), canonical_weight(0.5)], [2, 0.5]),
        ([is_missing(v) for v in (None, float("nan"), "", 0)], [True, True, False, False]),
        (label_column(["b", "a", "b"], "y_true").labels, ["b", "a"]),
        (factorised(["b", "a", "b"])[1].tolist(), [0, 1, 0]),
        (str(score_column([0.25, -0.0]).tolist()), "[0.25, 0.0]"),
        (most_probable({"cow": 0.2, "dog": 0.4, "cat": 0.4}), "cat"),
        (check_probabilities({"cat": 0.7, "dog": 0.3}), {"cat": 0.7, "dog": 0.3}),
        ([canonical_positive(1), canonical_positive(np.False_)], [True, False]),
        (positive_column([1, 0, 1]).tolist(), [True, False, True]),
        (duration("5m"), 300_000_000),
        (duration("1.5h"), 5_400_000_000),
        (duration(timedelta(days=1)), 86_400_000_000),
        ([duration_text(amount) for amount in (300_000_000, 90_000_000, 0)], ["5m", "90s", "0s"]),
        (iso_time(0), "1970-01-01T00:00:00Z"),
        (event_time("2026-01-01T00:00:00Z"), event_time(1_767_225_600, "s")),
        (unit_remedy(1_772_323_200, "ms"), "in s it is a time of 2026-03-01: declare that unit"),
        ([unit_remedy(3_000, "ms"), unit_remedy(1_772_323_200, "s")], ["", ""]),
        (task_names(), ("binary", "multiclass", "multilabel", "regression")),
        (one_of_tasks(), '"binary", "multiclass", "multilabel" or "regression"'),
    ],
)
def test_values(got: object, expected: object) -> None:
    assert got == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: canonical_label(0.5), "label: expected a str, int or bool label, got 0.5; "),
        (
            lambda: check_same_kind(1, "1", "y_pred"),
            "y_pred: expected a number like the label 1, got '1', a str; ",
        ),
        (lambda: canonical_score(float("nan")), "score: expected a finite number, got nan"),
        (
            lambda: check_probabilities({"cat": 0.7, "dog": 0.7}),
            "proba: expected probabilities that add up to 1, got 1.4; ",
        ),
        (
            lambda: canonical_positive("yes"),
            "positive: expected True or 1 for a positive event, False or 0 for a negative one, ",
        ),
    ],
)
def test_errors(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value).startswith(message)


def test_a_clock_that_goes_back_stands_still() -> None:
    times = iter([5.0, 3.0, 6.0])
    clock = ForwardClock(lambda: next(times))
    assert [clock(), clock(), clock()] == [5.0, 5.0, 6.0]
