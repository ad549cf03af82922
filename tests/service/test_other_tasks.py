"""A run of numbers, and of sets of labels: its counts are those of one evaluator of all events."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.evaluator.comparison import evaluation_from_bytes
from tests.support.command_runs import Command
from tests.support.run import JOINED as OF_SCORES
from tests.support.run import (
    KEPT,
    InTurn,
    Lists,
    Row,
    configure,
    exported,
    opened,
    settings,
    write,
)
from tests.support.serve_runs import serving

LABELS = ["ad", "spam", "toxic"]


@dataclass(frozen=True)
class Case:
    """A task, its records, and what a run of them is configured with."""

    task: str
    truth: str
    prediction: str
    options: dict[str, Any]
    metric: str
    bound: dict[str, float]

    def rows(self, count: int, seed: int = 5) -> list[Row]:
        """Records with their truth, a second apart."""
        rng = random.Random(seed)
        return [
            {
                "id": f"e{n}",
                **self.event(rng),
                "weight": rng.randint(1, 3),
                "country": rng.choice(["PT", "DE"]),
                "time": f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z",
            }
            for n in range(count)
        ]

    def event(self, rng: random.Random) -> Row:
        """The truth and the prediction of one event."""
        if self.task == "regression":
            size = 10.0 ** rng.randint(-9, 9)
            return {"y": rng.choice([rng.gauss(0, size), 3, -0.0]), "p": rng.gauss(0, size)}
        tags = [label for label in LABELS if rng.random() < 0.4]
        scores = {label: round(rng.random(), 2) for label in LABELS}
        return {"tags": rng.sample(tags, len(tags)), "scores": scores}

    def settings(self, **changes: Any) -> dict[str, Any]:
        """What makes a run of such records, whose truths come late."""
        fields = {"y_true": self.truth, self.prediction: self.field}
        base = {
            **OF_SCORES,
            "fields": {"id": "id", "time": "time", "weight": "weight", **fields},
            "evaluator": {"task": self.task, "slices": ["country"], **self.options},
        }
        return base | changes

    @property
    def field(self) -> str:
        """Where a record has its prediction."""
        return "p" if self.task == "regression" else "scores"

    def expected(self, rows: list[Row], **options: Any) -> se.Evaluator:
        """The evaluator of a run that counted these records in a window of all events."""
        kept = {key: KEPT[key] for key in KEPT if key != "max_scores" or self is not REGRESSION}
        given = {"slices": ("country",), **kept, **self.options, **options}
        whole = se.Evaluator(self.task, **given)
        for row in rows:
            whole.update(
                row[self.truth],
                **{self.prediction: row[self.field]},
                weight=row["weight"],
                event_time=row["time"],
                slices={"country": row["country"]},
            )
        return whole


REGRESSION = Case("regression", "y", "y_pred", {}, "mean_absolute_error", {"above": 0.5})
MULTILABEL = Case(
    "multilabel",
    "tags",
    "score",
    {"labels": LABELS, "threshold": {"ad": 0.3, "spam": 0.5, "toxic": 0.7}},
    "f1_micro",
    {"below": 0.99},
)
CASES = [pytest.param(one, id=one.task) for one in (REGRESSION, MULTILABEL)]
IN_ONE: dict[str, Any] = {"join": None, "files": {"records": ["events.jsonl"]}}
"""A run of complete records."""


def predictions(case: Case, rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if key != case.truth} for row in rows]


def truths(case: Case, rows: list[Row]) -> list[Row]:
    return [{key: row[key] for key in ("id", case.truth, "time")} for row in rows]


def label_by_label(rows: list[Row], rng: random.Random, final: int) -> tuple[Row, list[Row]]:
    """The fields of such a run, and the sets of labels in parts; those of the first are final."""
    parts: list[Row] = []
    for n, row in enumerate(rows):
        own: list[Row] = [{"tag": tag} for tag in row["tags"] * rng.choice([1, 1, 2])]
        if n < final:
            last = {} if rng.random() < 0.7 or not own else own.pop()
            own.append({**last, "final": True})
        parts += [{"id": row["id"], "time": row["time"], **one} for one in own]
    order = sorted(range(len(parts)), key=lambda n: n + rng.randrange(40))
    fields = {**MULTILABEL.settings()["fields"], "label": {"y_true": "tag", "final": "final"}}
    return fields, [parts[n] for n in order]  # also after the final one, as corrections


def counts(command: Command) -> None:
    done = command("run", "run.toml", "--until-end")
    assert done.code == 0, done.err
    assert "could not be counted" not in done.err


def joined(command: Command) -> Any:
    """The counts of the join that ``store report`` shows."""
    report = command("store", "report", "streameval.db", "--format", "json").out
    return json.loads(report)["all"]["labels"]


def refused(command: Command) -> list[str]:
    """The errors of the records in quarantine, the oldest first."""
    kept = command("store", "quarantine", "streameval.db", "--format", "json").out
    return [row["detail"] for row in reversed(json.loads(kept)["records"])]


@pytest.mark.parametrize(("case", "hot"), [(REGRESSION, 500_000), (MULTILABEL, 20)])
def test_late_truths_and_their_corrections(
    case: Case, hot: int, here: Path, command: Command
) -> None:
    rng = random.Random(hot)
    rows = case.rows(400)
    pairs = list(zip(rows, case.rows(400, seed=6), strict=True))[:380]
    wrong = [{**row, case.truth: other[case.truth]} for row, other in pairs]
    labels = truths(case, rng.sample(wrong, 150)) + rng.sample(truths(case, rows[:380]), 380)
    # The same again, in another order, is no correction.
    labels += [{k: v[::-1] if k == "tags" else v for k, v in row.items()} for row in labels[-30:]]
    configure(**case.settings(join={"wait": "1h", "hot": hot}))
    given = predictions(case, rows)
    for part in range(4):
        write("p.jsonl", given[100 * part : 100 * part + 100], more=part > 0)
        write("l.jsonl", labels[140 * part : 140 * part + 140], more=part > 0)
        counts(command)
    found = exported(command, here / "out")
    assert found["all.state"] == case.expected(rows[:380]).to_bytes()
    recent = se.Panes("1h", pane="5m", lateness="1h")
    panes: Any = case.expected(rows[:380], window=recent).total
    counted: Any = evaluation_from_bytes(found["recent.state"]).total
    assert counted.report().to_dict()["metrics"] == panes.report().to_dict()["metrics"]
    assert command("store", "check", "streameval.db").code == 0
    known: dict[str, Any] = {}
    corrected = 0
    for row in labels:
        value = sorted(row["tags"]) if "tags" in row else row["y"]
        corrected += known.setdefault(row["id"], value) != value
        known[row["id"]] = value
    shown = joined(command)
    assert (shown["joined"], shown["corrected"]) == (380, corrected)
    assert shown["duplicate_labels"] == len(labels) - 380 - corrected
    assert f"slices by {case.metric}" in command("store", "report", "streameval.db").out


@pytest.mark.parametrize(("case", "parts"), [(REGRESSION, False), (MULTILABEL, True)])
def test_a_store_on_postgresql(
    case: Case, parts: bool, postgres: Any, here: Path, command: Command
) -> None:
    rows = case.rows(200)
    address = str(postgres.address(f"tasks_{case.task}"))
    given, changes = truths(case, rows[::-1]), {"store": address}
    if parts:
        changes["fields"], given = label_by_label(rows, random.Random(5), 170)
    configure(**case.settings(**changes))
    for part in (slice(0, 90), slice(90, None)):
        write("p.jsonl", predictions(case, rows)[part], more=part.start > 0)
        write("l.jsonl", given[part], more=part.start > 0)
        counts(command)
    whole = case.expected(rows[:170] if parts else rows)
    assert exported(command, here / "out", address)["all.state"] == whole.to_bytes()
    assert command("store", "check", address).code == 0


BAD_PARTS = [
    ({"id": "e1", "tag": "spam", "final": "yes"}, "final: expected true or false, got "),
    ({"id": "e1", "final": False}, "tag: expected a label, or a list of labels, got no field"),
    ({"id": "e1", "tag": "span"}, "tag: expected one of the labels 'ad', 'spam', 'toxic', got"),
    ({"id": "e1", "tag": {"ad": 1}}, "tag: expected a label, or a list of labels, got an object"),
]


@pytest.mark.parametrize("hot", [20, 500_000])
def test_labels_one_by_one(hot: int, here: Path, command: Command) -> None:
    rows = MULTILABEL.rows(300)
    fields, mixed = label_by_label(rows, random.Random(hot), 250)
    configure(**MULTILABEL.settings(join={"wait": "1h", "hot": hot}, fields=fields))
    given = predictions(MULTILABEL, rows)
    for part in range(3):
        write("p.jsonl", given[100 * (2 - part) : 100 * (3 - part)], more=part > 0)
        size = len(mixed) // 3 + 1
        more = [{**bad, "time": rows[0]["time"]} for bad, _ in BAD_PARTS] if part == 1 else []
        write("l.jsonl", mixed[size * part : size * (part + 1)] + more, more=part > 0)
        done = command("run", "run.toml", "--until-end")
        assert done.code == 0, done.err
    whole = MULTILABEL.expected(rows[:250]).to_bytes()
    assert exported(command, here / "out")["all.state"] == whole
    assert command("store", "check", "streameval.db").code == 0
    for found, (_, detail) in zip(refused(command), BAD_PARTS, strict=True):
        assert found.startswith(detail)
    shown = joined(command)
    assert (shown["joined"], shown["waiting"] + shown["expired"]) == (250, 50)
    assert shown["labels"] == len(mixed)
    assert "of sets that were not final" in command("store", "report", "streameval.db").out


# What a configuration of such a task cannot have: tests/golden/option_errors.json.
BAD = [
    (REGRESSION, {"y": "3.5"}, "y: expected a finite number, got the text '3.5'; write numbers"),
    (REGRESSION, {"y": float("nan")}, "y: expected a finite number, got NaN"),
    (REGRESSION, {"y": None}, "y: expected a finite number, got null"),
    (REGRESSION, {"p": float("inf")}, "p: expected a finite number, got Infinity"),
    (REGRESSION, {"p": 1e308, "y": -1e308}, "y_pred: expected a number whose difference"),
    (MULTILABEL, {"tags": "spam"}, "tags: expected a list of labels, got the text 'spam'"),
    (MULTILABEL, {"tags": ["spam", "span"]}, "tags: expected one of the labels 'ad', 'spam', "
     "'toxic', got 'span'; add it to evaluator.labels"),
    (MULTILABEL, {"tags": {"ad": 1}}, "tags: expected a list of labels, got an object"),
    (MULTILABEL, {"scores": {"ad": 0.5}}, "scores: expected a score of every label, got none of"),
    (MULTILABEL, {"scores": {"ad": "x"}}, "scores: expected a finite number in 'scores.ad'"),
    (MULTILABEL, {"scores": 0.5}, "scores: expected an object label -> "),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_bad_records_are_in_quarantine(case: Case, here: Path, command: Command) -> None:
    rows = case.rows(40)
    bad = [(change, detail) for of, change, detail in BAD if of is case]
    configure(**case.settings(**IN_ONE))
    write("events.jsonl", [*rows[:7], *({**rows[7], **change} for change, _ in bad), *rows[8:]])
    assert command("run", "run.toml", "--until-end").code == 0
    for found, (_, detail) in zip(refused(command), bad, strict=True):
        assert found.startswith(detail)
    good = [*rows[:7], *rows[8:]]
    assert exported(command, here / "out")["all.state"] == case.expected(good).to_bytes()


@pytest.mark.parametrize(
    ("case", "other"), [(REGRESSION, "median_absolute_error"), (MULTILABEL, "roc_auc_macro")]
)
def test_a_store_keeps_the_states_it_was_begun_with(
    case: Case, other: str, here: Path, command: Command
) -> None:
    if case is MULTILABEL:
        case = replace(case, options={"labels": LABELS, "threshold": 0.5})
    rows = case.rows(60)
    write("events.jsonl", rows[:30])
    base = case.settings(**IN_ONE)
    usual = {**base["evaluator"], "metrics": [case.metric]}
    configure(**base | {"evaluator": usual})
    counts(command)
    changes: dict[str, Any] = {"metrics": [case.metric, other]}
    if case.truth == "tags":
        changes |= {"threshold": 0.4, "labels": [*LABELS, "x"]}
    for key, changed in changes.items():
        configure(**base | {"evaluator": {**usual, key: changed}})
        said = command("run", "run.toml", "--until-end")
        assert said.code == 2
        assert f"evaluator.{key}" in said.err
        assert ("give the windows new names" in said.err) >= (key == "metrics")
    more = base | {"evaluator": usual | {"metrics": changes["metrics"]}}
    configure(**more, window=[{"name": "anew"}])
    dropped = ["--drop", "window.all", "--drop", "window.recent"]
    checked = command("run", "run.toml", "--check", *dropped)
    assert checked.code == 0, checked.err
    configure(**base | {"evaluator": usual | {"slices": []}})
    write("events.jsonl", rows[30:], more=True)
    done = command("run", "run.toml", "--until-end", "--drop", "slice.country")
    assert done.code == 0, done.err
    whole = case.expected(rows, slices=(), metrics=[case.metric]).to_bytes()
    assert exported(command, here / "out")["all.state"] == whole


@pytest.mark.parametrize("case", CASES)
def test_it_is_served_and_watched(case: Case, here: Path) -> None:
    rows = case.rows(200)
    alert = {"name": "it", "metric": case.metric, "when": "value", **case.bound}
    part = {"name": "slice", "window": "recent", "slice": {"country": "PT"}}
    given: dict[str, Any] = {
        name: (name, [json.dumps(row).encode() for row in of(case, rows)])
        for name, of in (("predictions", predictions), ("labels", truths))
    }
    with opened(settings(**case.settings(alert=[alert, alert | part]))) as run:
        run.runner.run([Lists(given, {}, InTurn(50))])
    with serving(run.publisher.current()) as one:
        shown = one.json("/api/report")["report"]["metrics"][case.metric]
        view = one.json(f"/api/view?metric={case.metric}")
        assert view["report"]["metrics"][case.metric] == shown
        assert one.json("/api/predictions")["predictions"] is None
        series = one.client.get("/metrics").text.splitlines()
    assert shown["value"] == case.expected(rows)[case.metric]
    assert shown["support"] == sum(row["weight"] for row in rows)
    assert [one["state"] for one in run.data["alerts"]] == ["firing"] * 2
    values = {
        line.partition('slice="')[2].partition('"')[0]: float(line.split()[-1])
        for line in series
        if line.startswith("streameval_metric{") and f'"{case.metric}"' in line and '"all"' in line
    }
    assert values.keys() == {"total", "country=PT", "country=DE"}
    assert values["total"] == shown["value"]
