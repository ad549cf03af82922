"""``streameval store``: the content of a store in words, in JSON and as state files."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.evaluator.evaluator import load
from streameval.service.store.store import open_store
from tests.service.test_run_predictions import (
    HOURS,
    WAIT,
    evaluated,
    hours,
    lists,
    predicted,
    stream,
)
from tests.support.command_runs import Command
from tests.support.run import JOINED, configure

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
    Path("b.jsonl").write_text(
        '{"y_true": 1, "score": 0.2}\nnot \x1b[31mjson\n{"y_true": 1, "score": "high"}\n'
    )
    result = command("run", "run.toml", "--until-end")
    assert result.code == 0, result.err
    return "streameval.db"


def test_check(command: Command, store: str) -> None:
    result = command("store", "check", store)
    assert result.code == 0
    assert result.out.startswith("streameval.db: sound\n  3 events, 1 checkpoints\n  4 states of 2")
    assert "2 records in quarantine" in result.out


def test_report(command: Command, store: str) -> None:
    whole = se.Evaluator()
    whole.update_many([1, 0, 1], score=[0.9, 0.7, 0.2])
    result = command("store", "report", store, "--format", "json")
    reports = json.loads(result.out)
    assert reports["all"] == whole.report().to_dict()
    assert reports["fading"]["window"] == {"kind": "fading", "half_life": "1h"}
    result = command("store", "report", store, "--window", "all", "--metrics", "accuracy,roc_auc")
    assert result.out.splitlines()[0] == "window all"
    assert result.out.splitlines()[2].split() == ["accuracy", "0.3333333333", "3"]
    for name in ("a", "b"):
        partition = f"files:{Path(f'{name}.jsonl').absolute()}"
        result = command("store", "report", store, "--partition", partition, "--format", "json")
        support = json.loads(result.out)["all"]["metrics"]["accuracy"]["support"]
        assert support == {"a": 2, "b": 1}[name]
    result = command("store", "report", store, "--format", "markdown")
    assert result.out.startswith("## window all\n\n| metric")


WINDOWS = """
[[window]]
name = "week"
length = "7d"
[[window]]
name = "all"
[[window]]
name = "hour"
length = "1h"
"""


def test_windows_come_in_the_order_of_the_settings(command: Command, tmp_path: Path) -> None:
    Path("t.jsonl").write_text('{"y_true": 1, "score": 0.9, "t": "2026-03-01T09:00:00Z"}\n')
    head = CONFIG.partition("[[window]]")[0].replace('"a.jsonl", "b.jsonl"', '"t.jsonl"')
    head = head.replace("[files]", 'time = "t"\n[files]')
    parts = ["[[window]]" + part for part in WINDOWS.split("[[window]]")[1:]]

    def run_with(settings: str) -> None:
        Path("order.toml").write_text(settings)
        result = command("run", "order.toml", "--until-end", "--store", "order.db")
        assert result.code == 0, result.err

    def windows() -> list[str]:
        text = command("store", "report", "order.db").out
        return [line.split()[1] for line in text.splitlines() if line.startswith("window ")]

    run_with(head + WINDOWS)
    assert windows() == ["week", "all", "hour"]
    reported = command("store", "report", "order.db", "--format", "json").out
    assert list(json.loads(reported)) == ["week", "all", "hour"]
    exported = command("store", "export", "order.db").out.split()
    assert [Path(path).stem for path in exported] == ["week", "all", "hour"]
    # Another order is another order of the same counts, also where nothing comes to be counted.
    run_with(head + "".join(reversed(parts)))
    assert windows() == ["hour", "all", "week"]
    # A store of a run that did not note it: by name, and every one.
    for noted in (
        "DELETE FROM meta WHERE key = 'windows'",
        "INSERT INTO meta VALUES ('windows', '[')",
    ):
        with closing(open_store("order.db")) as opened, opened.transaction() as connection:
            connection.execute(noted)
        assert windows() == ["all", "hour", "week"]


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
        (
            ("report", store, "--metrics", "zzz"),
            2,
            "no metric is called 'zzz'; streameval.metrics.",
        ),
        (("check", "none.db"), 1, "there is no such store"),
    ):
        result = command("store", *words)
        assert (result.code, result.out) == (code, "")
        assert message in result.err


def test_a_reason_that_there_is_not(command: Command, store: str) -> None:
    result = command("store", "quarantine", store, "--replay", "--reason", "nosuch")
    assert (result.code, result.out) == (2, "")
    assert "--reason: expected one of 'record', 'score', got 'nosuch'" in result.err
    listed = command("store", "quarantine", store, "--format", "json").out
    assert [row["replay"] for row in json.loads(listed)["records"]] == [False, False]
    # One of which none are left is no mistake: a script may run twice.
    with closing(open_store(store)) as opened, opened.transaction() as connection:
        connection.execute("DELETE FROM quarantine WHERE reason = 'score'")
    result = command("store", "quarantine", store, "--replay", "--reason", "score")
    assert (result.code, result.out) == (0, "0 records will be read first by the next run\n")


def test_quarantine(command: Command, store: str) -> None:
    result = command("store", "quarantine", store)
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "not \\x1b[31mjson" in result.out
    result = command("store", "quarantine", store, "--format", "json", "--reason", "score")
    values = json.loads(result.out)
    assert values["reasons"] == {"record": 1, "score": 1}
    assert [row["raw"] for row in values["records"]] == ['{"y_true": 1, "score": "high"}']
    result = command("store", "quarantine", store, "--replay", "--reason", "score")
    assert result.out == "1 records will be read first by the next run\n"
    assert command("run", "run.toml", "--until-end").code == 0
    result = command("store", "quarantine", store, "--format", "json")
    assert json.loads(result.out)["reasons"] == {"record": 1, "score": 2}


def test_cut_records_are_reported(command: Command, store: str) -> None:
    with Path("a.jsonl").open("a") as file:
        file.write("x" * 5000 + "\n")
    assert command("run", "run.toml", "--until-end").code == 0
    result = command("store", "quarantine", store, "--replay")
    assert (result.code, result.out[:2]) == (0, "2 ")
    assert "1 cannot be replayed, as they were not kept whole" in result.err


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
    result = command("store", "backup", store, "copy")
    assert (result.code, result.out) == (0, f"copy: a sound copy of {store}\n{sound}")
    result = command("store", "backup", store, "copy")
    assert (result.code, result.err.count("--overwrite")) == (1, 1)
    result = command("store", "restore", "copy", "new.db")
    assert (result.code, result.out) == (0, f"new.db: restored from copy\n{sound}")
    assert command("store", "restore", "copy", "new.db", "--overwrite").code == 0
    assert command("store", "report", "new.db").out == command("store", "report", store).out


def test_a_report_tells_of_labels_that_are_missing(command: Command) -> None:
    Path("join.toml").write_text(
        """
        store = "join.db"
        [fields]
        id = "id"
        score = "score"
        time = "time"
        [files]
        predictions = ["p.jsonl"]
        labels = ["l.jsonl"]
        [join]
        wait = "1h"
        [serve]
        enabled = false
        """
    )
    times = [f"2026-01-01T{hour:02}:00:00Z" for hour in range(4)]
    Path("p.jsonl").write_text(
        "".join(f'{{"id": {n}, "score": 0.9, "time": "{time}"}}\n' for n, time in enumerate(times))
    )
    labels = [(3, "true"), (3, "true"), (2, "true"), (2, "false"), (9, "true")]
    Path("l.jsonl").write_text(
        "".join(f'{{"id": {n}, "y_true": {y}, "time": "{times[3]}"}}\n' for n, y in labels)
    )
    assert command("run", "join.toml", "--until-end").code == 0
    result = command("store", "report", "join.db", "--format", "json")
    labels = json.loads(result.out)["all"]["labels"]
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
    part = command("store", "report", "join.db", "--partition", partition, "--format", "json")
    assert "labels" not in json.loads(part.out)["all"]

    with Path("p.jsonl").open("a") as file:
        file.write(f'{{"id": 5, "score": 0.1, "time": "{times[3]}"}}\n')
    assert command("run", "join.toml", "--until-end").code == 0
    table = command("store", "report", "join.db").out
    assert table.endswith("\nimmature: 1 prediction waits for its label; numbers will change\n")


def test_a_report_has_what_predictions_say_before_their_labels(command: Command) -> None:
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
    assert command("run", "run.toml", "--until-end").code == 0
    report = json.loads(command("store", "report", "join.db", "--format", "json").out)
    assert list(report) == ["hours", "hours:predictions", "all", "all:predictions"]
    found = report["hours:predictions"]["before_labels"]
    now = predicted(hours(rows, HOURS - 2 * WAIT - 1, HOURS))
    reference = evaluated(hours(rows, 0, 10))
    assert found["drift"]["ks"]["value"] == now.drift(reference, "ks").value
    f1 = now.expected("f1", reference)
    assert found["expected"]["f1"]["low"] == f1.low
    assert "before_labels" not in report["hours"]
    table = command("store", "report", "join.db", "--window", "hours").out
    title, header, *lines = table.partition("\nbefore their labels, ")[2].splitlines()
    assert title == (
        f"{now.total.support:,} of {len(rows):,} predictions, against "
        "panes from 2026-01-01T00:00:00Z to 2026-01-01T10:00:00Z"
    )
    assert header.split() == ["metric", "value", "low", "high", "p_value", "held", "reason"]
    (line,) = [line for line in lines if line.startswith("expected.f1 ")]
    held = f"{found['checks']['f1']['held']} of {found['checks']['f1']['panes']}".split()
    assert line.split() == [
        "expected.f1", f"{f1.value:.6g}", f"{f1.low:.6g}", f"{f1.high:.6g}", *held
    ]  # fmt: skip
    assert "window all" not in table
    for format in ("markdown", "html"):
        page = command("store", "report", "join.db", "--format", format).out
        assert "drift.jensen_shannon" in page
    assert "set state under [reference]" in page
    # A metric of labels is none of predictions.
    table = command("store", "report", "join.db", "--metrics", "accuracy").out
    assert "window hours\n" in table
    assert "window hours, predictions" not in table
    result = command("store", "report", "join.db", "--metrics", "accuracyy")
    assert (result.code, result.out) == (2, "")
    # Before the first label.
    configure(**{**tables, "store": "early.db"})
    Path("l.jsonl").write_text("")
    assert command("run", "run.toml", "--until-end").code == 0
    table = command("store", "report", "early.db").out
    assert table.startswith("window hours, predictions\n")
    assert "0 of the 10 panes of [reference] have all their labels" in table
