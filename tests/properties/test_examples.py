"""Examples of the confusion matrix: few, of their cell, and the same however events are divided."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.records.event_columns import EventColumns
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.join import examples as module
from streameval.service.join.examples import Examples
from streameval.windows import Cumulative, Panes

MINUTE = 60_000_000
LABELS = ("cat", "dog", "fox")
NAMES = {
    "binary": {0: "other", 1: "spam"},
    "multiclass": {},
}
CONFIG = {
    "binary": 'evaluator = { positive = "spam", labels = ["other", "spam"] }',
    "multiclass": f'evaluator = {{ task = "multiclass", labels = {list(LABELS)} }}',
}


def settings_of(task: str, each: int = 2) -> RunSettings:
    scores = "score" if task == "binary" else "proba"
    return settings_from_text(
        f"""
        {CONFIG[task]}
        window = [{{ name = "all" }}, {{ name = "recent", length = "3m", pane = "1m" }}]
        fields = {{ id = "id", {scores} = "{scores}", time = "time" }}
        join = {{ wait = "1h", examples = {each} }}
        [files]
        predictions = ["p"]
        labels = ["l"]
        """
    )


@st.composite
def streams(draw: Any) -> tuple[str, list[tuple[bool, dict[str, Any]]]]:
    """Events as they are counted (True) and reverted, each id's in their order."""
    task = draw(st.sampled_from(sorted(CONFIG)))
    steps = []
    for number in range(draw(st.integers(1, 12))):
        event: dict[str, Any] = {
            "id": f"e{number}",
            "time": draw(st.integers(0, 9)) * MINUTE // 2,
        }
        if task == "binary":
            event["score"] = draw(st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
        else:
            shares = draw(st.permutations([0.25, 0.25, 0.5]))
            event["proba"] = dict(zip(LABELS, shares, strict=True))
        names = ("other", "spam") if task == "binary" else LABELS
        labels = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
        for turn, label in enumerate(labels):
            if turn:
                steps.append((False, {**event, "y_true": labels[turn - 1]}))
            steps.append((True, {**event, "y_true": label}))
    return task, steps


def checkpoint(to: Examples, steps: list[tuple[bool, dict[str, Any]]]) -> None:
    """Counts events and then reverts, as a checkpoint does."""
    counted = [event for adds, event in steps if adds]
    if counted:
        columns = {name: [event[name] for event in counted] for name in counted[0] if name != "id"}
        columns["time"] = np.array(columns["time"])
        columns |= {"score": np.array(columns["score"])} if "score" in columns else {}
        events = EventColumns(columns, range(len(counted)))  # type: ignore[arg-type]
        to.add(events, [event["id"] for event in counted])
    for adds, event in steps:
        if not adds:
            to.revert(event)


@given(stream=streams(), data=st.data())
def test_any_split_into_checkpoints_and_workers_keeps_the_same(stream: Any, data: Any) -> None:
    task, steps = stream
    settings = settings_of(task)
    whole = Examples(settings)
    checkpoint(whole, steps)
    workers = [Examples(settings) for _ in range(2)]
    for number, worker in enumerate(workers):
        left = [one for one in steps if int(one[1]["id"][1:]) % 2 == number]
        while left:
            size = data.draw(st.integers(1, len(left)))
            checkpoint(worker, left[:size])
            left = left[size:]
            if data.draw(st.booleans()):
                text = worker.to_text()
                worker.__init__(settings)  # type: ignore[misc]
                worker.restore(text)
    workers[0].merge(workers[1])
    assert workers[0].to_text() == whole.to_text()


@given(streams())
def test_each_list_is_that_of_its_definition(stream: Any) -> None:
    task, steps = stream
    found = Examples(settings_of(task))
    checkpoint(found, steps)
    newest = max(event["time"] for _, event in steps)
    current = {event["id"]: event["y_true"] for adds, event in steps if adds}
    for window, panes in ((Cumulative(), 99), (Panes("3m", pane="1m"), 3)):
        lists: dict[Any, set[tuple[Any, ...]]] = defaultdict(set)
        for _, event in steps:
            true, when, name = event["y_true"], event["time"], event["id"]
            if task == "binary":
                score = event["score"]
                predicted = "spam" if score >= 0.5 else "other"
                rank = score if predicted == "spam" else -score
            else:
                score = rank = max(event["proba"].values())
                predicted = next(label for label in LABELS if event["proba"][label] == score)
            bucket = when // MINUTE if panes == 3 else 0
            rank = -rank if true == predicted else rank
            lists[true, predicted, "newest", 0].add((0, when, name, score))
            lists[true, predicted, "by_confidence", bucket].add((rank, when, name, score))
        expected: dict[Any, list[Any]] = defaultdict(list)
        for (true, *cell, _), events in lists.items():
            # A corrected event keeps its place in the list, and is not shown.
            expected[true, *cell] += [
                one
                for one in sorted(events)[-2:]
                if current[one[2]] == true and one[1] // MINUTE > newest // MINUTE - panes
            ]
        shown = {
            (cell["true"], cell["predicted"], name): [
                (one["id"], one["score"]) for one in cell[name]
            ]
            for cell in found.cells(window, NAMES[task], newest, lambda time: True)  # type: ignore[arg-type]
            for name in ("newest", "by_confidence")
        }
        for key in shown.keys() | expected.keys():
            wanted = sorted(expected[key], reverse=True)[:2]
            assert shown.get(key, []) == [(name, score) for *_, name, score in wanted]
        assert all(shown[*key, "newest"] or shown[*key, "by_confidence"] for *key, _ in shown)


@given(stream=streams(), cut=st.integers(0, 25))
def test_memory_is_bounded_and_the_bound_does_not_depend_on_the_split(stream, cut):
    task, steps = stream
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_LISTS", 2)
        whole, parts = Examples(settings_of(task)), Examples(settings_of(task))
        checkpoint(whole, steps)
        for piece in (steps[:cut], steps[cut:]):
            checkpoint(parts, piece)
    assert whole.to_text() == parts.to_text()
    assert sum(map(len, whole._lists.values())) <= 2 * 2 * 3


def counted(found: Examples, columns: dict[str, Any], names: str) -> None:
    columns["time"] = np.arange(1, len(names) + 1)
    found.add(EventColumns(columns, range(len(names))), list(names))  # type: ignore[arg-type]


def test_an_event_of_a_weight_of_0_and_a_score_that_is_not_given_are_no_examples() -> None:
    found = Examples(settings_of("multiclass"))
    labels = {"y_true": ["cat", "cat", "dog"], "y_pred": ["fox", "fox", "dog"]}
    counted(found, labels | {"weight": np.array([0.0, 1.0, 1.0])}, "abc")
    (cell,) = found.cells(Cumulative(), {}, 3, lambda time: time < 3)
    assert (cell["true"], cell["predicted"], cell["by_confidence"]) == ("cat", "fox", [])
    assert [one["id"] for one in cell["newest"]] == ["b"]


def test_probabilities_of_several_forms_are_those_of_each_row() -> None:
    shares = dict(zip(LABELS, (0.5, 0.25, 0.25), strict=True))
    mixed, alike = (Examples(settings_of("multiclass")) for _ in range(2))
    for found, form in ((mixed, list(shares.values())), (alike, shares)):
        counted(found, {"y_true": ["dog", "cat"], "proba": [shares, form]}, "ab")
    found, wanted = (one.cells(Cumulative(), {}, 2, lambda _: True) for one in (mixed, alike))
    assert found == wanted != []
