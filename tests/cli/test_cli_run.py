"""``streameval run`` as a process: killed, stopped, refused, and continued exactly."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from streameval.errors import StoreError
from streameval.service.store.store import read_store
from tests.support.command_runs import COMMAND, Command, Result
from tests.support.run import (
    JOINED,
    POSTED,
    RUN,
    Row,
    configure,
    dump,
    events,
    expected,
    exported,
    labels_of,
    predictions_of,
    write,
)


@pytest.fixture(autouse=True)
def run_toml(here: Path) -> None:
    configure()


def stream(count: int) -> list[Row]:
    """Events, one a second."""
    return events(count, seconds=1)


@contextmanager
def start(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run as a process of its own, killed if the test is done before it."""
    with subprocess.Popen(
        [*COMMAND, "run", "run.toml", *arguments], stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def counted() -> int:
    """What other processes see of a run's store; -1 before there is one."""
    try:
        with closing(read_store("streameval.db")) as store:
            return store.counters().get("events", 0)
    except StoreError:
        return -1


def wait_until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to pass in time")


def ran(command: Command, *options: str) -> Result:
    result = command("run", "run.toml", "--until-end", *options)
    assert result.code == 0, result.err
    return result


def metrics_of_store(command: Command) -> Any:
    report = command("store", "report", "streameval.db", "--window", "all", "--format", "json")
    return json.loads(report.out)["all"]["metrics"]


def test_a_file_is_followed_through_a_kill_until_a_signal(here: Path, command: Command) -> None:
    rows = stream(500)
    write("events.jsonl", rows[:100])
    with start() as process:
        wait_until(lambda: counted() == 100)
        write("events.jsonl", rows[100:300], more=True)
        wait_until(lambda: counted() >= 200)  # anywhere: what is asserted holds wherever it falls
        # The store is this process's; others may look into it.
        for words in (("run", "run.toml"), ("store", "quarantine", "streameval.db", "--replay")):
            refused = command(*words)
            assert (refused.code, f"process {process.pid}" in refused.err) == (1, True)
        process.kill()
    write("events.jsonl", rows[300:], more=True)
    # Only the end makes a checkpoint.
    with start("--set", "checkpoint.every=1h", "--set", "checkpoint.events=1000000") as process:
        assert process.stderr is not None
        assert b"events counted so far" in process.stderr.readline()
        time.sleep(0.3)  # it is reading
        process.terminate()
        rest = process.stderr.read()
    assert process.returncode == 0, rest
    assert b"ended after a checkpoint: 500 events counted" in rest
    assert counted() == 500
    assert metrics_of_store(command) == expected(rows).report().to_dict()["metrics"]


def test_a_check_prints_the_configuration_and_touches_nothing(here: Path, command: Command) -> None:
    result = command("run", "run.toml", "--check", "--set", "evaluator.threshold=0.7")
    assert result.code == 0, result.err
    assert "threshold = 0.7" in result.out
    assert 'store = "streameval.db"' in result.out
    assert sorted(path.name for path in here.iterdir()) == ["run.toml"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--set", "evaluator.threshold=high", "evaluator.threshold"),
        ("--set", "window.0.pane=5m", "window"),
        ("--set", "evaluator.metrics=['zzz']", "'zzz'; streameval.metrics.METRICS and `streameval"),
        ("--listen", "nowhere", "serve.listen"),
        ("--store", "none/run.db", "store: expected a file in a directory that is there, got n"),
    ],
)
def test_a_bad_configuration_is_one_line(
    command: Command, option: str, value: str, message: str
) -> None:
    result = command("run", "run.toml", "--check", option, value)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert message in result.err


@pytest.mark.parametrize(
    ("option", "token", "message"),
    [
        ("--check", "env:STREAMEVAL_NONE", "expected the variable STREAMEVAL_NONE in"),
        ("--until-end", "hunter2", "expected at least 16 characters, got 7; "),
    ],
)
def test_an_invalid_secret_is_refused_before_anything_is_made(
    here: Path, command: Command, option: str, token: str, message: str
) -> None:
    configure(serve={"listen": "127.0.0.1:0", "token": token})
    result = command("run", "run.toml", option)
    assert (result.code, result.out) == (2, "")
    assert f"serve.token: {message}" in result.err
    assert "hunter2" not in result.err
    assert sorted(path.name for path in here.iterdir()) == ["run.toml"]


def test_a_changed_threshold_holds_for_every_event(here: Path, command: Command) -> None:
    rows, changed = stream(300), ("--set", "evaluator.threshold=0.7")
    write("events.jsonl", rows[:200])
    ran(command)
    write("events.jsonl", rows)
    derived = "evaluator.threshold: 0.7: the counts of labels are derived exactly"
    assert derived in ran(command, *changed).err
    ran(command, *changed, "--store", "new.db")
    assert exported(command, here / "a") == exported(command, here / "b", store="new.db")


DAY = {"name": "day", "length": "24h"}


def test_new_parts_begin_in_an_old_store(here: Path, command: Command) -> None:
    rows = stream(300)
    write("events.jsonl", rows[:200])
    ran(command)
    before = dump()
    configure(evaluator={"slices": ["country", "device"]}, window=[*RUN["window"], DAY])
    check = command("run", "run.toml", "--check")
    assert check.code == 0, check.err
    for part in ("window 'day'", "slice 'device'"):
        assert f"# store streameval.db: {part} begins now: it holds what is read" in check.out
    assert dump() == before
    write("events.jsonl", rows)
    assert "window 'day' begins now" in ran(command).err
    report = command("store", "report", "streameval.db").out
    assert "window all, slice device since 20" in report
    assert "window day, since 20" in report
    shown = json.loads(command("store", "report", "streameval.db", "--format", "json").out)
    assert shown["all"]["metrics"] == expected(rows).report().to_dict()["metrics"]
    assert shown["day"]["metrics"] == expected(rows[200:]).report().to_dict()["metrics"]
    assert "since" not in shown["all"]
    assert shown["day"]["since"] <= shown["all"]["slices_since"]["device"]
    assert "begins" not in ran(command).err


def test_what_is_removed_is_dropped_only_when_confirmed(here: Path, command: Command) -> None:
    write("events.jsonl", stream(50))
    ran(command)
    before = dump()
    configure(evaluator={"slices": []}, window=[{"name": "all"}])
    options = ("--drop", "slice.country", "--drop", "window.recent")
    refused = command("run", "run.toml", "--until-end")
    assert refused.err.endswith(
        "streameval.db: slice 'country' and its 2 values and window 'recent' and its 1 states "
        f"would be dropped; to confirm, add {' '.join(options)}\n"
    )
    half = command("run", "run.toml", "--until-end", *options[:2])
    assert "to confirm, add --drop window.recent" in half.err
    assert [(one.code, one.err.count("\n")) for one in (refused, half)] == [(2, 1)] * 2
    check = command("run", "run.toml", "--check", *options[:2])
    assert "slice 'country' and its 2 values would be dropped\n" in check.out
    assert "would be dropped; needs --drop window.recent\n" in check.out
    assert dump() == before
    assert "dropped: window 'recent' and its 1 states" in ran(command, *options).err
    found = json.loads(command("store", "report", "streameval.db", "--format", "json").out)
    assert list(found) == ["all"]
    ran(command, *options)  # they may stay where they are


def test_a_removal_requires_a_confirmation_on_a_terminal(
    here: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("events.jsonl", stream(50))
    ran(command)
    before = dump()
    configure(evaluator={"slices": []})
    for answer, code in ((b"n\n", 2), (b"y\n", 0)):
        terminal, end = pty.openpty()
        os.write(terminal, answer)
        with open(end, buffering=1) as typed, open(os.dup(end), "w", 1) as said:
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stdin", typed)
                patch.setattr(sys, "stderr", said)
                assert command("run", "run.toml", "--until-end").code == code
            heard = b""
            while b"slice 'country' and its 2 values will be dropped: go on? [y/N]" not in heard:
                heard += os.read(terminal, 10_000)
        os.close(terminal)
        assert (dump() == before) == (code == 2)


MEANINGS = {
    "evaluator.task='multiclass'; fields={y_pred='label'}": "evaluator.task: streameval.db was beg",
    "evaluator.positive=0": "evaluator.positive: ",
    "fields.weight='w'": "fields.weight: streameval.db was begun with 'false'",
    "fields.y_pred='label'": "fields.y_pred: ",
    "join={wait = '1h'}": "join: ",
    "window.1.pane='10m'": "window.recent.pane: streameval.db was begun with 300 s, and its ",
    "window.1.lateness='1m'": "window.recent.lateness (join.wait unless it is set): ",
}


def test_what_changes_the_meaning_of_events_is_refused(here: Path, command: Command) -> None:
    rows = stream(50)
    rows.append({**rows[0], "time": rows[0]["time"].replace("00:00Z", "00:30Z")})
    rows.insert(0, {**rows[0], "time": "2026-01-01T00:20:00Z"})
    write("events.jsonl", rows)
    configure(fields=JOINED["fields"])
    ran(command)
    before = dump()
    for number, (option, said) in enumerate(MEANINGS.items()):
        pairs = [part for one in option.split("; ") for part in ("--set", one)]
        result = command("run", "run.toml", ("--check", "--until-end")[number % 2], *pairs)
        assert (result.code, result.err.count("\n")) == (2, 1), result.err
        assert said in result.err
        assert "its counts depend on it; got " in result.err
        assert "or begin a new store with --store" in result.err
    assert dump() == before


def test_a_change_that_is_killed_leaves_the_store_as_it_was(here: Path, command: Command) -> None:
    write("events.jsonl", stream(200))
    ran(command)
    whole = dump()
    changed = ["--set", "evaluator.slices=['country', 'id']", "--set", "evaluator.threshold=0.7"]
    # After the states of the second window.
    killed = [sys.executable, "-m", "tests.crash.killed_at", "states changed", "2"]
    here_ = ["run", here / "run.toml", "--until-end", "--store", here / "streameval.db"]
    tests = Path(__file__).parents[2]
    done = subprocess.run([*killed, *here_, *changed], cwd=tests, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert dump() == whole
    ran(command, *changed)
    assert dump() != whole


def test_posted_events_are_counted_through_a_kill(here: Path, command: Command) -> None:
    """What was answered with success is counted, once, whatever comes between."""
    configure(**{**JOINED, **POSTED, "join": {"wait": "24h"}})
    rows = stream(40)
    for some in (rows[:20], rows[20:]):
        with start() as process:
            address = listening(process)
            for prediction, label in zip(predictions_of(some), labels_of(some), strict=True):
                post(address, "predictions", prediction)
                post(address, "labels", label)
            if some == rows[:20]:
                process.kill()
                continue
            wait_until(lambda: counted() == 40)
            # What is shown follows what is stored.
            wait_until(lambda: supported(address) == 40)  # noqa: B023
            process.send_signal(signal.SIGINT)
            assert process.wait() == 0
    assert metrics_of_store(command) == expected(rows).report().to_dict()["metrics"]


def asked(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def supported(address: str) -> int:
    support: int = asked(f"{address}api/report")["report"]["metrics"]["accuracy"]["support"]
    return support


def listening(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if b"listening at " in line:
            return line.split()[-1].decode()
    raise AssertionError("it does not listen")


def post(address: str, kind: str, record: dict[str, Any]) -> None:
    json_lines = {"Content-Type": "application/x-ndjson"}
    request = urllib.request.Request(f"{address}v1/{kind}", json.dumps(record).encode(), json_lines)
    with urllib.request.urlopen(request) as answer:
        assert answer.status in (200, 202)


LOW = {"name": "low", "metric": "accuracy", "below": 0.99}
SILENCE = {"name": "silence", "metric": "volume", "below": 1}


def test_sighup_reads_the_configuration_again(here: Path) -> None:
    def reread(process: subprocess.Popen[bytes], **changes: Any) -> list[str]:
        """Send the signal; the lines of the log up to the one that tells of it."""
        configure(**{**POSTED, **changes})
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        found = []
        while not found or "configuration" not in found[-1]:
            found.append(process.stderr.readline().decode())
        return found

    def alerts() -> list[str]:
        return [alert["name"] for alert in asked(f"{address}api/alerts")["alerts"]]

    configure(**POSTED)
    with start() as process:
        address = listening(process)
        assert alerts() == []
        for names, told, changes in (
            (["low"], "alert", {"alert": [LOW]}),
            (["low", "silence"], "alert", {"alert": [LOW, SILENCE]}),
            (["low"], "intervals, alert", {"intervals": 0.9, "alert": [LOW]}),
        ):
            (line,) = reread(process, **changes)
            assert line.endswith(f"configuration read: {told}\n")
            wait_until(lambda: alerts() == names)  # noqa: B023
        (line,) = reread(process, alert=[LOW])
        (line,) = reread(process, alert=[{**LOW, "bellow": 1}])
        assert "the configuration was not taken over, nothing has changed: " in line
        assert "alert[0].bellow: expected a key" in line
        assert alerts() == ["low"]
        window = [*RUN["window"], DAY]
        (line,) = reread(process, alert=[LOW], window=window, http={"max_line_bytes": 20})
        assert line.endswith("configuration read: http.max_line_bytes\n")
        assert process.stderr is not None
        later = process.stderr.readline().decode()
        assert later.endswith("window: takes effect at the next start\n")
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(address, "predictions", stream(1)[0])
        assert b"at most 20 bytes" in refused.value.read()
        refused.value.close()
        process.terminate()
        assert process.wait() == 0
