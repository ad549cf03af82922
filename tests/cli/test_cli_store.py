"""``streameval store``: the content of a store in words, in JSON and as state files."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.evaluator.evaluator import load
from streameval.service.store.store import open_store
from tests.service.test_run_predictions import WAIT, lists, stream
from tests.support.command_runs import Command, Result
from tests.support.run import JOINED, configure, write

CONFIG = """
[fields]
score = "score"
[files]
records = ["a.jsonl", "b.jsonl"]
[serve]
enabled = false
[[window]]
name = "all"
[[window]]
name = "fading"
half_life = "1h"
"""


@pytest.fixture(autouse=True)
def store(here: Path, command: Command) -> str:
    Path("run.toml").write_text(CONFIG)
    Path("a.jsonl").write_text('{"y_true": 1, "score": 0.9}\n{"y_true": 0, "score": 0.7}\n')
    bad = 'not \x1b[31mjson\n{"y_true": 1, "score": "high"}\n'
    Path("b.jsonl").write_text('{"y_true": 1, "score": 0.2}\n' + bad)
    ran(command, "run.toml")
    return "streameval.db"


def ran(command: Command, *options: str) -> None:
    result = command("run", *options, "--until-end")
    assert result.code == 0, result.err


def report(command: Command, *options: str) -> Any:
    return json.loads(command("store", "report", *options, "--format", "json").out)


def test_check(command: Command, store: str) -> None:
    result = command("store", "check", store)
    assert result.code == 0
    assert result.out.startswith("streameval.db: sound\n  3 events, 1 checkpoints\n  4 states of 2")
    assert "2 records in quarantine" in result.out


def test_report(command: Command, store: str) -> None:
    whole = se.Evaluator()
    whole.update_many([1, 0, 1], score=[0.9, 0.7, 0.2])
    reports = report(command, store)
    assert reports["all"] == whole.report().to_dict()
    assert reports["fading"]["window"] == {"kind": "fading", "half_life": "1h"}
    for name, support in (("a", 2), ("b", 1)):
        partition = f"files:{Path(f'{name}.jsonl').absolute()}"
        part = report(command, store, "--partition", partition)["all"]
        assert part["metrics"]["accuracy"]["support"] == support
    result = command("store", "report", store, "--window", "all", "--metrics", "accuracy,roc_auc")
    assert result.out.splitlines()[0] == "window all"
    assert result.out.splitlines()[2].split() == ["accuracy", "0.3333333333", "3"]
    result = command("store", "report", store, "--format", "markdown")
    assert result.out.startswith("## window all\n\n| metric")


WINDOWS = {"week": {"length": "7d"}, "all": {}, "hour": {"length": "1h"}}


def test_windows_come_in_the_order_of_the_settings(command: Command) -> None:
    Path("t.jsonl").write_text('{"y_true": 1, "score": 0.9, "t": "2026-03-01T09:00:00Z"}\n')

    def run_with(names: list[str]) -> None:
        tables = [{"name": name, **WINDOWS[name]} for name in names]
        fields = {"score": "score", "time": "t"}
        configure(window=tables, fields=fields, files={"records": ["t.jsonl"]}, store="order.db")
        ran(command, "run.toml")

    def windows() -> list[str]:
        text = command("store", "report", "order.db").out
        return [line.split()[1] for line in text.splitlines() if line.startswith("window ")]

    run_with([*WINDOWS])
    assert windows() == [*WINDOWS]
    assert list(report(command, "order.db")) == [*WINDOWS]
    exported = command("store", "export", "order.db").out.split()
    assert [Path(path).stem for path in exported] == [*WINDOWS]
    # Another order is another order of the same counts, also where nothing comes to be counted.
    run_with([*WINDOWS][::-1])
    assert windows() == [*WINDOWS][::-1]
    # A store of a run that did not note it: by name, and every one.
    for noted in (
        "DELETE FROM meta WHERE key = 'windows'",
        "INSERT INTO meta VALUES ('windows', '[')",
    ):
        with closing(open_store("order.db")) as opened, opened.transaction() as connection:
            connection.execute(noted)
        assert windows() == sorted(WINDOWS)


def test_export(command: Command, store: str) -> None:
    Path("out").mkdir()
    result = command("store", "export", store, "--to", "out")
    assert result.out == "out/all.state\nout/fading.state\n"
    whole = se.Evaluator(time_unit="us", max_scores=65_536, intervals=True)
    whole.update_many([1, 0, 1], score=[0.9, 0.7, 0.2])
    assert load("out/all.state") == whole
    reported = command("report", "out/all.state", "--metrics", "roc_auc")
    assert reported.out.splitlines()[1].split() == ["roc_auc", "0.5", "3"]
    assert command("store", "export", store, "--to", "none").code == 1


def test_what_is_not_there(command: Command, store: str) -> None:
    for words, code, message in (
        (("report", store, "--window", "hour"), 2, "expected one of 'all', 'fading', got 'hour'"),
        (("report", store, "--partition", "c"), 2, "--partition"),
        (("report", store, "--metrics", "zzz"), 2, "no metric is called 'zzz'; streameval.metr"),
        (("check", "none.db"), 1, "there is no such store"),
    ):
        result = command("store", *words)
        assert (result.code, result.out) == (code, "")
        assert message in result.err


def test_quarantine(command: Command, store: str) -> None:
    def quarantine(*options: str) -> Result:
        return command("store", "quarantine", store, *options)

    result = quarantine()
    assert (result.code, "\x1b" in result.out) == (0, False)
    assert "not \\x1b[31mjson" in result.out
    refused = quarantine("--replay", "--reason", "nosuch")
    assert (refused.code, refused.out) == (2, "")
    assert "--reason: expected one of 'record', 'score', got 'nosuch'" in refused.err
    values = json.loads(quarantine("--format", "json", "--reason", "score").out)
    assert values["reasons"] == {"record": 1, "score": 1}
    (row,) = values["records"]
    assert (row["raw"], row["replay"]) == ('{"y_true": 1, "score": "high"}', False)
    replayed = quarantine("--replay", "--reason", "score")
    assert replayed.out == "1 records will be read first by the next run\n"
    with Path("a.jsonl").open("a") as file:
        file.write("x" * 5000 + "\n")
    ran(command, "run.toml")
    values = json.loads(quarantine("--format", "json").out)
    assert values["reasons"] == {"record": 2, "score": 2}
    result = quarantine("--replay")
    assert (result.code, result.out[:2]) == (0, "2 ")
    assert "1 cannot be replayed, as they were not kept whole" in result.err
    # One of which none are left is no mistake: a script may run twice.
    with closing(open_store(store)) as opened, opened.transaction() as connection:
        connection.execute("DELETE FROM quarantine WHERE reason = 'score'")
    none = "0 records will be read first by the next run\n"
    assert quarantine("--replay", "--reason", "score") == (0, none, "")


def test_a_damaged_store(command: Command, store: str) -> None:
    data = bytearray(Path(store).read_bytes())
    place = data.rindex(b"streameval\r\n") + 60
    data[place] ^= 0xFF
    Path(store).write_bytes(data)
    result = command("store", "check", store)
    assert result.code == 1
    assert "is damaged" in result.err
    for query in ("report", "quarantine", "export"):
        result = command("store", query, store)
        assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)


def test_backup_and_restore(command: Command, store: str) -> None:
    sound = command("store", "check", store).out.partition("\n")[2]
    copied = command("store", "backup", store, "copy")
    assert copied == (0, f"copy: a sound copy of {store}\n{sound}", "")
    again = command("store", "backup", store, "copy")
    assert (again.code, again.err.count("--overwrite")) == (1, 1)
    restored = command("store", "restore", "copy", "new.db")
    assert restored == (0, f"new.db: restored from copy\n{sound}", "")
    assert command("store", "restore", "copy", "new.db", "--overwrite").code == 0
    assert command("store", "report", "new.db").out == command("store", "report", store).out


def test_a_report_tells_of_labels_that_are_missing(command: Command) -> None:
    configure(**JOINED, store="join.db")
    times = [f"2026-01-01T{hour:02}:00:00Z" for hour in range(4)]
    write("p.jsonl", [{"id": n, "score": 0.9, "time": time} for n, time in enumerate(times)])
    given = [(3, True), (3, True), (2, True), (2, False), (9, True)]
    write("l.jsonl", [{"id": n, "y_true": true, "time": times[3]} for n, true in given])
    ran(command, "run.toml")
    labels = report(command, "join.db")["all"]["labels"]
    counts = ("predictions", "joined", "waiting", "expired", "corrected", "duplicate_labels")
    assert [labels[name] for name in counts] == [4, 2, 0, 2, 1, 1]
    assert (labels["labels_waiting"], labels["coverage"], labels["immature"]) == (1, 0.0, False)
    assert labels["delay"]["p50"] is not None
    table = command("store", "report", "join.db").out
    lines = [line.rsplit(None, 1) for line in table.partition("\n\nlabels ")[2].splitlines()]
    assert ["never labelled", "2"] in lines
    assert "immature" not in table
    assert "| coverage | 0 |" in command("store", "report", "join.db", "--format", "markdown").out
    partition = f"files:{Path('p.jsonl').absolute()}"
    assert "labels" not in report(command, "join.db", "--partition", partition)["all"]

    write("p.jsonl", [{"id": 5, "score": 0.1, "time": times[3]}], more=True)
    ran(command, "run.toml")
    table = command("store", "report", "join.db").out
    assert table.endswith("\nimmature: 1 prediction waits for its label; numbers will change\n")


def test_a_report_has_what_predictions_say_before_their_labels(command: Command) -> None:
    """Numbers of JSON: tests/service/test_run_predictions.py."""
    rows = stream(shift=0.6)
    for name, (_, records) in lists(rows).items():
        Path(f"{name}.jsonl").write_bytes(b"\n".join(records))
    tables: dict[str, Any] = {
        **JOINED,
        "store": "join.db",
        "window": [{"name": "hours", "length": "40h", "pane": "1h"}, {"name": "all"}],
        "fields": {"id": "id", "score": "score", "time": "time", "time_unit": "us"},
        "join": {"wait": f"{WAIT}h"},
        "reference": {"panes": 10},
    }
    configure(**tables)
    ran(command, "run.toml")
    reported = report(command, "join.db")
    assert list(reported) == ["hours", "hours:predictions", "all", "all:predictions"]
    found = reported["hours:predictions"]["before_labels"]
    assert "before_labels" not in reported["hours"]
    table = command("store", "report", "join.db", "--window", "hours").out
    title, header, *rows_ = table.partition("\nbefore their labels, ")[2].splitlines()
    assert re.match(r"\d+ of 800 predictions, against panes from 2026-01-01T00:00:00Z to 2", title)
    assert header.split() == ["metric", "value", "low", "high", "p_value", "held", "reason"]
    (line,) = [line for line in rows_ if line.startswith("expected.f1 ")]
    f1, checked = found["expected"]["f1"], found["checks"]["f1"]
    values = [f"{f1[name]:.6g}" for name in ("value", "low", "high")]
    assert line.split()[1:] == [*values, str(checked["held"]), "of", str(checked["panes"])]
    assert "window all" not in table
    for format in ("markdown", "html"):
        page = command("store", "report", "join.db", "--format", format).out
        assert "drift.jensen_shannon" in page
        assert "set state under [reference]" in page
    # A metric of labels is none of predictions.
    table = command("store", "report", "join.db", "--metrics", "accuracy").out
    assert "window hours\n" in table
    assert "window hours, predictions" not in table
    # Before the first label.
    configure(**{**tables, "store": "early.db"})
    Path("l.jsonl").write_text("")
    ran(command, "run.toml")
    table = command("store", "report", "early.db").out
    assert table.startswith("window hours, predictions\n")
    assert "0 of the 10 panes of [reference] have all their labels" in table
