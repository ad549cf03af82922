"""``streameval evaluate`` on valid files: every format, field and task."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import shlex
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.cli import evaluate as evaluate_command
from streameval.state_files.codec import decompressed
from streameval.states.backend import slow_because
from tests.support.command_runs import Command, own_process

Events = list[dict[str, Any]]


def binary_events(count: int = 400, seed: int = 1) -> Events:
    source = random.Random(seed)
    events = []
    for _ in range(count):
        label = source.random() < 0.4
        score = round(min(1.0, max(0.0, source.gauss(0.6 if label else 0.4, 0.2))), 2)
        events.append({"label": int(label), "score": score, "w": source.randint(1, 3)})
    return events


def write_jsonl(path: Path, events: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def write_csv(path: Path, events: Events) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(events[0]))
        writer.writeheader()
        writer.writerows(events)
    return path


def write_parquet(path: Path, events: Events) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(events), path)
    return path


def written(path: Path, events: Events) -> Path:
    writers = {".jsonl": write_jsonl, ".csv": write_csv, ".parquet": write_parquet}
    return writers[path.suffix](path, events)


BINARY = ("--y-true", "label", "--score", "score", "--no-per-class")


START = datetime(2026, 3, 1, tzinfo=UTC)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def stream(count: int = 300, seed: int = 1, late: float = 0.1) -> Events:
    """Events a minute apart, some of them up to two hours late."""
    source = random.Random(seed)
    events = []
    for n in range(count):
        minutes = n - (source.randint(1, 120) if source.random() < late else 0)
        label = source.random() < 0.4
        score = round(min(1.0, max(0.0, source.gauss(0.6 if label else 0.4, 0.2))), 2)
        at = (START + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        about = {"country": source.choice(["PT", "DE", "FR", "ES"]), "model": source.choice("ab")}
        events.append({"label": int(label), "score": score, "at": at, **about})
    return events


def evaluated(events: Events, given: Mapping[str, str], **setup: Any) -> se.Evaluator:
    """The same without the command line: one event after another, by the fields that are given."""
    evaluator = se.Evaluator(**setup)
    for event in events:
        fields = {argument: event[field] for argument, field in given.items()}
        slices = {"country": event.get("country"), "model": event.get("model")}
        evaluator.update(**fields, slices=slices)
    return evaluator


def of_every_kind() -> Events:
    """The stream with labels of texts, numbers and classes, and what models say of them."""
    source, events = random.Random(5), []
    for number, event in enumerate(stream(150)):
        kind = "spam" if event["label"] else "ham"
        share = source.randrange(33) / 64
        shares = {"cat": share, "dog": 0.5, "emu": 0.5 - share}
        sizes = {name: 8 * value - 3 for name, value in shares.items()}
        more = {
            "w": source.randint(1, 3),
            "user": f"u{number % 40}",
            "kind": kind,
            "said": source.choice(["spam", kind]),
            "animal": source.choice(LABELS),
            "stars": source.randint(1, 5),
            "guess": source.randint(1, 4),
            "shares": shares,
            "sizes": sizes,
            "both": {"ham": 1 - event["score"], "spam": event["score"]},
            "m": {"truth": event["label"], "v7": {"p": event["score"]}},
        }
        seconds = int(datetime.fromisoformat(event["at"]).timestamp())
        more |= {f"in_{unit}": seconds * factor for unit, factor in UNITS.items()}
        more |= {f"p_{name}": value for name, value in shares.items()}
        more |= {f"s_{name}": value for name, value in sizes.items()}
        events.append({**event, **more})
    return events


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, events = tmp_path_factory.mktemp("kinds"), of_every_kind()
    return {kind: written(folder / f"a.{kind}", events) for kind in ("jsonl", "csv", "parquet")}


LABELS, OPEN = ["cat", "dog", "emu"], "--labels cat,dog,emu --no-probabilities"
SCORE = {"y_true": "label", "score": "score"}
TIMED = {**SCORE, "event_time": "at"}
KIND, GUESSED = {"y_true": "kind", "score": "score"}, {"y_true": "kind", "y_pred": "said"}
SHARES, SHARE = {"y_true": "animal", "proba": "shares"}, {"y_true": "kind", "proba": "score"}
BOTH = {"y_true": "kind", "proba": "both"}
SIZES = {"y_true": "animal", "score": "sizes"}
SPAM, SEVERAL = {"positive": "spam"}, {"task": "multiclass"}
SLICES, BY = "--slice country,country+model", {"slices": ("country", ("country", "model"))}
LATE = se.Panes("2h", pane="10m", lateness="30m", retain="1d")
# What is typed, with the fields and the options of the evaluator that it stands for. Files are read
# in turn as JSONL, CSV and Parquet where no kind is named.
TYPED: list[tuple[str, Mapping[str, str], dict[str, Any]]] = [
    ("", SCORE, {}),
    ("--weight w", {**SCORE, "weight": "w"}, {}),
    ("--unit user", {**SCORE, "unit": "user"}, {"bootstrap": se.Bootstrap(unit="user")}),
    ("--bins 20 --undefined 0", SCORE, {"bins": 20, "undefined": 0}),
    ("--threshold 0.3", SCORE, {"threshold": 0.3}),
    ("--max-scores 1024", SCORE, {"max_scores": 1024}),
    ("--intervals .95", SCORE, {"intervals": True}),
    ("--metrics f1,roc_auc", SCORE, {"metrics": ["f1", "roc_auc"]}),
    (f"{SLICES} --max-slices 5", SCORE, {**BY, "max_slices": 5}),
    ("jsonl --y-true m.truth --score m.v7.p", SCORE, {}),
    ("parquet --y-true m.truth --score m.v7.p", SCORE, {}),
    ("--y-true kind --y-pred said --positive spam", GUESSED, SPAM),
    ("--y-true kind --y-pred said", GUESSED, SEVERAL),
    ("--y-true kind --score score --positive ham --threshold .4", KIND,
     {"positive": "ham", "threshold": 0.4}),
    ("--y-true kind --score score --positive spam --negative ham", KIND,
     {**SPAM, "labels": ["ham", "spam"]}),
    ("--y-true kind --proba score --positive spam", SHARE, SPAM),
    ("--y-true kind --proba spam=score --positive spam", SHARE, SPAM),
    ("jsonl --y-true kind --proba both --positive spam", BOTH, SPAM),
    ("parquet --y-true kind --proba both --positive spam", BOTH, SPAM),
    ("--y-true animal --proba cat=p_cat,dog=p_dog,emu=p_emu", SHARES, SEVERAL),
    ("csv --y-true animal --proba p_*", SHARES, SEVERAL),
    ("jsonl --y-true animal --proba shares", SHARES, SEVERAL),
    (f"csv --y-true animal --proba s_* {OPEN}", SIZES,
     {**SEVERAL, "labels": LABELS, "probabilities": False}),
    (f"parquet --y-true animal --proba sizes {OPEN}", SIZES,
     {**SEVERAL, "labels": LABELS, "probabilities": False}),
    ("--y-true stars --y-pred guess --labels 5,4,3,2,1", {"y_true": "stars", "y_pred": "guess"},
     {**SEVERAL, "labels": [5, 4, 3, 2, 1]}),
    (f"--window last:50 {SLICES}", SCORE, {**BY, "window": se.Last(50)}),
    ("--window fading:50", SCORE, {"window": se.Fading(50)}),
    (f"--window fading:1h --time at {SLICES}", TIMED, {**BY, "window": se.Fading("1h")}),
    (f"--window panes:1h --time at {SLICES}", TIMED, {**BY, "window": se.Panes("1h")}),
    ("--window ' panes: 2h / 10m , lateness = 30m,retain=1d' --time at", TIMED, {"window": LATE}),
    *(
        (f"--window panes:10m --time in_{unit} --time-unit {unit}",
         {**SCORE, "event_time": f"in_{unit}"}, {"window": se.Panes("10m"), "time_unit": unit})
        for unit in UNITS
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TYPED)), ids=[typed for typed, *_ in TYPED])
def test_every_format_gives_what_the_evaluator_gives(
    run: Command, tmp_path: Path, files: dict[str, Path], number: int
) -> None:
    typed, fields, setup = TYPED[number]
    words = shlex.split(typed)
    kind = words.pop(0) if words and words[0] in files else [*files][number % 3]
    usual = () if "--y-true" in words else ("--y-true", "label", "--score", "score")
    state = tmp_path / "state"
    result = run("evaluate", files[kind], *usual, *words, "--no-per-class", "--save", state)
    assert (result.code, result.err == "" or "--metrics" in words) == (0, True)
    expected = evaluated(of_every_kind(), fields, **setup)
    assert decompressed(state.read_bytes()) == expected.to_bytes()
    report = expected.report(intervals=0.95 if "--intervals" in words else None)
    assert result.out.startswith(f"{report}\n")


def test_several_files_a_pattern_and_stdin_are_one_stream(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = binary_events()
    whole = write_jsonl(tmp_path / "whole.jsonl", events)
    parts = [
        write_jsonl(tmp_path / "part-1.jsonl", events[:100]),
        write_csv(tmp_path / "part-2.csv", events[100:250]),
        write_jsonl(tmp_path / "part-3.jsonl.gz", events[250:]),
    ]
    parts[2].write_bytes(gzip.compress(parts[2].read_bytes()))
    once = run("evaluate", whole, *BINARY)
    assert once.out == str(evaluated(events, SCORE).report()) + "\n"
    assert run("evaluate", *parts, *BINARY) == once
    assert run("evaluate", tmp_path / "part-*", *BINARY) == once
    assert own_process("evaluate", "-", *BINARY, stdin=whole.read_bytes()) == once
    table = io.BytesIO(write_csv(tmp_path / "all.csv", events).read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(table))
    assert run("evaluate", "-", "--input-format", "csv", *BINARY) == once


NAMED = "streameval: no field of predictions is named; used: "


@pytest.mark.parametrize(
    ("fields", "options", "used"),
    [
        (["score"], (), ["score"]),
        (["y_pred"], ("--task", "multiclass"), ["y_pred"]),
        (["y_pred", "score"], (), ["y_pred", "score"]),
        (["y_pred", "score"], ("--threshold", "0.7"), ["score"]),
        (["y_pred", "score", "proba"], (), ["y_pred", "score"]),
        (["proba"], ("--positive", "1"), ["proba"]),
    ],
)
def test_fields_of_usual_names_need_no_option(
    run: Command, tmp_path: Path, fields: list[str], options: tuple[str, ...], used: list[str]
) -> None:
    given = {"y_true": 1, "y_pred": 0, "score": 0.75, "proba": 0.5}
    event = {name: given[name] for name in ["y_true", *fields]}
    other = {"y_true": 0, **{name: event[name] for name in fields}}
    kind = "jsonl" if options else "csv"
    path = written(tmp_path / f"a.{kind}", [event, other]).rename(tmp_path / "events")
    format = ("--input-format", kind, "--format", "json")
    found = run("evaluate", path, *format, *options)
    named = [f"--{name.replace('_', '-')}={name}" for name in used]
    assert found.out == run("evaluate", path, *format, *options, *named).out
    assert found.err.startswith(NAMED + ", ".join(used) + "\n")


@pytest.mark.parametrize(
    ("labels", "positive", "shown"),
    [((0, 1), "0", 0), ((True, False), "false", 0), ((1, 2), "2", 2), (("1", "2"), "2", "2")],
)
def test_positive_takes_the_type_of_the_labels(
    run: Command, tmp_path: Path, labels: tuple[Any, Any], positive: str, shown: Any
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"y_true": one, "s": 0.5} for one in labels])
    result = run("evaluate", path, "--score", "s", "--positive", positive, "--format", "json")
    found = json.loads(result.out)
    assert (found["task"], found["positive"]) == ("binary", shown)


def test_objects_of_probabilities_whose_labels_are_numbers(run: Command, tmp_path: Path) -> None:
    true = [0, 2, 2, 0]
    shares: list[dict[int, float]] = [{0: 1.0}, {1: 0.5, 2: 0.5}, {2: 1.0}, {0: 0.25, 2: 0.75}]
    events = [{"y_true": t, "p": p} for t, p in zip(true, shares, strict=True)]
    report = se.Evaluator("multiclass").update_many(true, proba=shares).report()
    result = run("evaluate", write_jsonl(tmp_path / "a.jsonl", events), "--proba", "p")
    assert result.out.startswith(f"{report}\n\n")


def test_help_version_and_metrics(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    version = f"streameval {se.__version__} ({se.backend()} score index)\n"
    slow = f"{slow_because()}\n" if slow_because() else ""
    assert own_process("--version") == (0, version + slow, "")
    monkeypatch.setenv("STREAMEVAL_BACKEND", "portable")
    first, second = own_process("--version").out.splitlines()
    assert first.endswith("(portable score index)")
    assert second == slow_because("portable", "portable")
    assert second.endswith("; unset it")
    assert "pip install" in slow_because("portable", "")
    for command in ("evaluate", "merge", "report", "metrics"):
        assert run(command, "--help").code == 0
        assert command in run("--help").out
    rows = json.loads(run("metrics", "--format", "json").out)
    assert {row["name"] for row in rows} == set(se.metrics.METRICS)
    assert all(row["definition"] and row["direction"] in ("up", "down", "none") for row in rows)
    assert run("metrics").out.count("\n") == len(rows) + 1
    assert "| roc_auc | binary | 0 … 1 | higher |" in run("metrics", "--format", "markdown").out


def test_a_large_file_without_compiled_parts(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write_jsonl(tmp_path / name, binary_events(50)) for name in ("a.jsonl", "b.jsonl")]
    large = sum(path.stat().st_size for path in paths)
    for said, least, files, expected in (
        ("nothing is compiled", large + 1, paths, ""),
        ("nothing is compiled", large, paths[:1], ""),
        ("nothing is compiled", large, paths, "streameval: nothing is compiled\n"),
        ("", large, paths, ""),
    ):
        monkeypatch.setattr(evaluate_command, "slow_because", lambda said=said: said)
        monkeypatch.setattr(evaluate_command, "_LARGE_BYTES", least)
        assert run("evaluate", *files, *BINARY).err == expected


OBJECTS = ("--y-true", "t", "--proba", "p", "--positive", "yes", "--no-per-class")


def test_numbers_and_objects_of_probabilities_in_one_file(run: Command, tmp_path: Path) -> None:
    shares: list[Any] = [0.25, {"yes": 0.75, "no": 0.25}, 0.5, {"no": 1.0}]
    rows = [{"t": t, "p": p} for t, p in zip(["yes", "no"] * 2, shares, strict=True)]
    ev = se.Evaluator("binary", positive="yes")
    ev.update_many([row["t"] for row in rows], proba=shares)
    path = write_jsonl(tmp_path / "a.jsonl", rows)
    result = run("evaluate", path, *OBJECTS)
    assert result == (0, f"{ev.report()}\n", "")
    path = write_jsonl(tmp_path / "b.jsonl", [*rows, {"t": "no", "p": 1.5}, {"t": "no", "p": "x"}])
    skip = ("--on-bad", "skip", "--max-bad", "1")
    again = run("evaluate", path, *OBJECTS, *skip)
    assert again.out == result.out
    assert f"{path}:5: p: expected a probability" in again.err
    assert f"{path}:6: p: expected the positive label's probability, or an object" in again.err
