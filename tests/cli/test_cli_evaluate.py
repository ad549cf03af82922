"""``streameval evaluate`` on valid files: every format, field and task."""

from __future__ import annotations

import csv
import gzip
import json
import math
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import f1_score, log_loss, roc_auc_score

import streameval as se
from streameval.cli import evaluate as evaluate_command
from streameval.records import record_counter
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


def expected(events: Events, **columns: str) -> str:
    ev = se.Evaluator("binary", positive=1)
    ev.update_many(**{name: [e[field] for e in events] for name, field in columns.items()})
    return str(ev.report()) + "\n"


BINARY = ("--y-true", "label", "--score", "score", "--no-per-class")


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_every_format_gives_what_the_evaluator_gives(
    run: Command, tmp_path: Path, ending: str
) -> None:
    events = binary_events()
    path = written(tmp_path / f"a{ending}", events)
    result = run("evaluate", path, *BINARY)
    assert result == (0, expected(events, y_true="label", score="score"), "")
    weighted = run("evaluate", path, *BINARY, "--weight", "w")
    assert weighted.out == expected(events, y_true="label", score="score", weight="w")
    assert weighted.out != result.out


def test_values_are_scikit_learns(run: Command, tmp_path: Path) -> None:
    events = binary_events()
    path = write_jsonl(tmp_path / "a.jsonl", events)
    result = json.loads(run("evaluate", path, *BINARY, "--format", "json").out)
    true, score = [e["label"] for e in events], [e["score"] for e in events]
    values = {name: row["value"] for name, row in result["metrics"].items()}
    assert values["roc_auc"] == pytest.approx(roc_auc_score(true, score), abs=1e-12)
    assert values["f1"] == pytest.approx(f1_score(true, [s >= 0.5 for s in score]), abs=1e-12)
    assert values["log_loss"] == pytest.approx(log_loss(true, score), abs=1e-12)
    assert "bad_records" not in result


def test_several_files_a_pattern_and_stdin_are_one_stream(run: Command, tmp_path: Path) -> None:
    events = binary_events()
    whole = write_jsonl(tmp_path / "whole.jsonl", events)
    parts = [
        write_jsonl(tmp_path / "part-1.jsonl", events[:100]),
        write_csv(tmp_path / "part-2.csv", events[100:250]),
        tmp_path / "part-3.jsonl.gz",
    ]
    parts[2].write_bytes(
        gzip.compress(write_jsonl(tmp_path / "x.jsonl", events[250:]).read_bytes())
    )
    once = run("evaluate", whole, *BINARY)
    assert once.code == 0
    assert once.out == expected(events, y_true="label", score="score")
    assert run("evaluate", *parts, *BINARY) == once
    assert run("evaluate", tmp_path / "part-*", *BINARY) == once
    assert own_process("evaluate", "-", *BINARY, stdin=whole.read_bytes()) == once
    table = write_csv(tmp_path / "all.csv", events).read_bytes()
    assert own_process("evaluate", "-", "--input-format", "csv", *BINARY, stdin=table) == once


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
@pytest.mark.parametrize("write", [write_csv, write_jsonl])
def test_fields_of_usual_names_need_no_option(
    run: Command,
    tmp_path: Path,
    write: Any,
    fields: list[str],
    options: tuple[str, ...],
    used: list[str],
) -> None:
    given = {"y_true": 1, "y_pred": 0, "score": 0.75, "proba": 0.5}
    event = {name: given[name] for name in ["y_true", *fields]}
    other = {"y_true": 0, **{name: event[name] for name in fields}}
    path = str(write(tmp_path / "events", [event, other]))
    format = ("--input-format", "csv" if write is write_csv else "jsonl", "--format", "json")
    found = run("evaluate", path, *format, *options)
    named = [f"--{name.replace('_', '-')}={name}" for name in used]
    assert found.out == run("evaluate", path, *format, *options, *named).out
    assert found.err.startswith(NAMED + ", ".join(used) + "\n")


def test_without_such_a_field_the_options_are_named(run: Command, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [{"y_true": 1, "q": 0.5}])
    result = run("evaluate", str(path))
    assert result.code == 2
    assert (
        "expected columns whose names say what they are, or options that name the pred"
        in result.err
    )
    assert "; name them, such as --y-true y_true --score q; " in result.err


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_nested_fields(run: Command, tmp_path: Path, ending: str) -> None:
    events = binary_events()
    nested = [{"truth": {"y": e["label"]}, "m": {"v7": {"p": e["score"]}}} for e in events]
    path = written(tmp_path / f"a{ending}", nested)
    result = run("evaluate", path, "--y-true", "truth.y", "--score", "m.v7.p", "--no-per-class")
    assert result.out == expected(events, y_true="label", score="score")


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_text_labels_and_positive(run: Command, tmp_path: Path, ending: str) -> None:
    rows = [("spam", "spam"), ("ham", "spam"), ("ham", "ham"), ("spam", "spam")]
    path = written(tmp_path / f"a{ending}", [{"t": t, "p": p} for t, p in rows])
    result = run(
        "evaluate", path, "--y-true", "t", "--y-pred", "p", "--positive", "spam",
        "--metrics", "precision,recall", "--format", "json",
    )  # fmt: skip
    report = json.loads(result.out)
    assert report["task"] == "binary"
    assert report["positive"] == "spam"
    assert {k: v["value"] for k, v in report["metrics"].items()} == {
        "precision": 2 / 3,
        "recall": 1.0,
    }


@pytest.mark.parametrize(
    ("labels", "positive", "shown"),
    [((0, 1), "0", 0), ((True, False), "false", 0), ((1, 2), "2", 2), (("1", "2"), "2", "2")],
)
def test_positive_takes_the_type_of_the_labels(
    run: Command, tmp_path: Path, labels: tuple[Any, Any], positive: str, shown: Any
) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"t": label, "s": 0.5} for label in labels])
    result = run(
        "evaluate", path, "--y-true", "t", "--score", "s", "--positive", positive,
        "--format", "json",
    )  # fmt: skip
    assert json.loads(result.out)["positive"] == shown


def test_threshold(run: Command, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"y_true": 1, "s": 0.3}, {"y_true": 0, "s": 0.2}])
    low = run("evaluate", path, "--score", "s", "--threshold", "0.3", "--metrics", "recall")
    high = run("evaluate", path, "--score", "s", "--metrics", "recall")
    assert low.out.split()[-2] == "1"
    assert high.out.split()[-2] == "0"


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_labels_without_positive_are_multiclass(run: Command, tmp_path: Path, ending: str) -> None:
    rows = [("cat", "cat"), ("dog", "cat"), ("emu", "emu")]
    path = written(tmp_path / f"a{ending}", [{"y_true": t, "y_pred": p} for t, p in rows])
    result = run("evaluate", path, "--y-pred", "y_pred", "--format", "json")
    report = json.loads(result.out)
    assert report["task"] == "multiclass"
    assert report["metrics"]["accuracy"]["value"] == 2 / 3


PROBABILITIES = [
    ("cat", {"cat": 0.75, "dog": 0.25, "emu": 0.0}),
    ("dog", {"cat": 0.5, "dog": 0.25, "emu": 0.25}),
    ("emu", {"cat": 0.125, "dog": 0.125, "emu": 0.75}),
] * 5


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_probabilities_as_object_and_as_columns(run: Command, tmp_path: Path, ending: str) -> None:
    ev = se.Evaluator("multiclass")
    ev.update_many([t for t, _ in PROBABILITIES], proba=[p for _, p in PROBABILITIES])
    flat = [
        {"y_true": t, **{f"p_{label}": share for label, share in p.items()}}
        for t, p in PROBABILITIES
    ]
    path = written(tmp_path / f"flat{ending}", flat)
    result = run("evaluate", path, "--proba", "cat=p_cat,dog=p_dog,emu=p_emu", "--no-per-class")
    assert result == (0, f"{ev.report()}\n", "")
    if ending == ".csv":
        return
    path = written(tmp_path / f"nested{ending}", [{"y_true": t, "p": p} for t, p in PROBABILITIES])
    assert run("evaluate", path, "--proba", "p", "--no-per-class") == result


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_scores_of_classes_that_are_no_probabilities(
    run: Command, tmp_path: Path, ending: str
) -> None:
    labels = ["cat", "dog", "emu"]
    decisions = [(t, {k: 8 * share - 3 for k, share in p.items()}) for t, p in PROBABILITIES]
    ev = se.Evaluator("multiclass", labels=labels, probabilities=False)
    ev.update_many([t for t, _ in decisions], score=[p for _, p in decisions])
    flat = [{"y_true": t, **{f"s_{k}": s for k, s in p.items()}} for t, p in decisions]
    path, state = written(tmp_path / f"flat{ending}", flat), tmp_path / "a.state"
    given = ("--labels", "cat,dog,emu", "--no-probabilities", "--no-per-class")
    result = run("evaluate", path, "--proba", "s_*", *given, "--save", state)
    assert result == (0, f"{ev.report()}\n", "")
    assert se.load(state).to_bytes() == ev.to_bytes()
    if ending != ".csv":
        nested = [{"y_true": t, "s": p} for t, p in decisions]
        nested_path = written(tmp_path / f"nested{ending}", nested)
        assert run("evaluate", nested_path, "--proba", "s", *given) == result
    found = se.evaluate(path, proba="s_*", labels=labels, probabilities=False)
    assert found.to_bytes() == ev.to_bytes()
    refused = run("evaluate", path, "--proba", "s_*", "--labels", "cat,dog,emu")
    assert refused.code == 2
    assert "probability" in refused.err


def test_probabilities_that_leave_labels_out_and_labels_that_are_numbers(
    run: Command, tmp_path: Path
) -> None:
    shares: list[dict[int, float]] = [{0: 1.0}, {1: 0.5, 2: 0.5}, {2: 1.0}, {0: 0.25, 2: 0.75}]
    true = [0, 2, 2, 0]
    events = [
        {"y_true": t, "p": {str(label): share for label, share in p.items()}}
        for t, p in zip(true, shares, strict=True)
    ]
    ev = se.Evaluator("multiclass")
    ev.update_many(true, proba=shares)
    result = run("evaluate", write_jsonl(tmp_path / "a.jsonl", events), "--proba", "p")
    assert result.out.startswith(f"{ev.report()}\n\n")


def test_batches_of_any_size_give_the_same(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = binary_events(1000)
    path = write_jsonl(tmp_path / "a.jsonl", events)
    paths = [write_jsonl(tmp_path / f"{n}.jsonl", events[n::7]) for n in range(7)]
    whole = run("evaluate", path, *BINARY)
    for rows in (1, 150, 450):
        monkeypatch.setattr(record_counter, "BATCH_ROWS", rows)
        assert run("evaluate", *paths, *BINARY) == whole


def test_metrics_are_in_the_requested_order(run: Command, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", binary_events(50))
    result = run("evaluate", path, *BINARY, "--metrics", "roc_auc, accuracy")
    assert [line.split()[0] for line in result.out.splitlines()] == [
        "metric",
        "roc_auc",
        "accuracy",
    ]


def test_formats_of_the_result(run: Command, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", binary_events(50))
    markdown = run("evaluate", path, *BINARY, "--format", "markdown").out
    assert re.match(r"\| metric \| value \| support \|\n\| --- \|", markdown)
    assert run("evaluate", path, *BINARY).out.startswith("metric ")
    assert json.loads(run("evaluate", path, *BINARY, "--format", "json").out)["threshold"] == 0.5


def test_help_version_and_metrics(run: Command) -> None:
    assert own_process("--version") == (
        0,
        f"streameval {se.__version__} ({se.backend()} score index)\n"
        + (f"{slow_because()}\n" if slow_because() else ""),
        "",
    )
    for command in ("evaluate", "merge", "report", "metrics"):
        assert run(command, "--help").code == 0
        assert command in run("--help").out
    rows = json.loads(run("metrics", "--format", "json").out)
    assert {row["name"] for row in rows} == set(se.metrics.METRICS)
    assert all(row["definition"] and row["direction"] in ("up", "down", "none") for row in rows)
    assert run("metrics").out.count("\n") == len(rows) + 1
    assert "| roc_auc | binary | 0 … 1 | higher |" in run("metrics", "--format", "markdown").out


def test_the_version_tells_what_a_slow_backend_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMEVAL_BACKEND", "portable")
    first, second = own_process("--version").out.splitlines()
    assert first.endswith("(portable score index)")
    assert second == slow_because("portable", "portable")
    assert second.endswith("; unset it")
    assert "pip install" in slow_because("portable", "")


def test_a_large_file_without_compiled_parts(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = (
        write_jsonl(tmp_path / name, binary_events(50)) for name in ("a.jsonl", "b.jsonl")
    )
    monkeypatch.setattr(evaluate_command, "slow_because", lambda: "nothing is compiled")
    assert run("evaluate", path, other, *BINARY).err == ""
    monkeypatch.setattr(
        evaluate_command, "_LARGE_BYTES", path.stat().st_size + other.stat().st_size
    )
    assert run("evaluate", path, *BINARY).err == ""
    assert run("evaluate", path, other, *BINARY).err == "streameval: nothing is compiled\n"
    monkeypatch.setattr(evaluate_command, "slow_because", lambda: "")
    assert run("evaluate", path, other, *BINARY).err == ""


def test_undefined_values_have_reasons(run: Command, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"label": 1, "score": 0.5}])
    row = json.loads(run("evaluate", path, *BINARY, "--format", "json").out)["metrics"]["roc_auc"]
    assert row["value"] is None
    assert row["reason"]
    assert not math.isnan(row["support"])


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("positive", ["yes", "no"])
def test_a_probability_of_the_positive_label(
    run: Command, tmp_path: Path, ending: str, positive: str
) -> None:
    events = binary_events(60)
    rows = [{"t": "yes" if e["label"] else "no", "p": e["score"]} for e in events]
    path = written(tmp_path / f"a{ending}", rows)
    ev = se.Evaluator("binary", positive=positive, threshold=0.4)
    ev.update_many([row["t"] for row in rows], score=[row["p"] for row in rows])
    binary = ("--y-true", "t", "--positive", positive, "--threshold", "0.4", "--no-per-class")
    result = run("evaluate", path, "--proba", "p", *binary)
    assert result == (0, f"{ev.report()}\n", "")
    assert run("evaluate", path, "--proba", f"{positive}=p", *binary) == result
    assert run("evaluate", path, "--score", "p", *binary) == result


OBJECTS = ("--y-true", "t", "--proba", "p", "--positive", "yes", "--no-per-class")


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_an_object_of_probabilities_in_a_binary_task(
    run: Command, tmp_path: Path, ending: str
) -> None:
    rows = [
        {"t": "yes" if e["label"] else "no", "p": {"no": 1 - e["score"], "yes": e["score"]}}
        for e in binary_events(60)
    ]
    path = written(tmp_path / f"a{ending}", rows)
    ev = se.Evaluator("binary", positive="yes")
    ev.update_many([row["t"] for row in rows], proba=[row["p"] for row in rows])
    result = run("evaluate", path, *OBJECTS)
    assert result == (0, f"{ev.report()}\n", "")


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


def test_declared_labels_reach_the_evaluator(run: Command, tmp_path: Path) -> None:
    rows = [(1, 1), (2, 1), (2, 2), (5, 4)]
    path = write_jsonl(tmp_path / "a.jsonl", [{"y_true": t, "y_pred": p} for t, p in rows])
    ev = se.Evaluator("multiclass", labels=[5, 4, 3, 2, 1])
    ev.update_many(*zip(*rows, strict=True))
    state = tmp_path / "state"
    options = ("--y-pred", "y_pred", "--labels", "5,4,3,2,1", "--save", state)
    assert run("evaluate", path, *options).code == 0
    assert state.read_bytes() == ev.to_bytes()
    path.write_text("")
    assert run("evaluate", path, *options).code == 0
    assert state.read_bytes() == ev.emptied().to_bytes()


def test_units_make_replicates(tmp_path: Path, run: Command) -> None:
    events = [{**event, "user": f"u{n % 40}"} for n, event in enumerate(binary_events())]
    expected = se.Evaluator(bootstrap=se.Bootstrap(unit="user"))
    expected.update_many(
        [event["label"] for event in events],
        score=[event["score"] for event in events],
        unit=[event["user"] for event in events],
    )
    fields = ("--y-true", "label", "--score", "score", "--unit", "user")
    for path in (write_jsonl(tmp_path / "a.jsonl", events), write_csv(tmp_path / "a.csv", events)):
        state = tmp_path / "state"
        assert run("evaluate", str(path), *fields, "--save", str(state)).code == 0
        assert se.load(state) == expected


def test_records_without_a_unit_are_bad(tmp_path: Path, run: Command) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"y": 1, "s": 0.5, "user": "a"}, {"y": 0, "s": 0.2}])
    fields = ("--y-true", "y", "--score", "s", "--unit", "user")
    done = run("evaluate", str(path), *fields)
    assert done.code == 2
    assert "a.jsonl:2: user: expected the value of the event's unit" in done.err
    done = run("evaluate", str(path), *fields, "--window", "last:5")
    assert done.err.strip() == (
        "streameval: --unit conflicts with --window last; use --window panes:1h, or no --window"
    )
