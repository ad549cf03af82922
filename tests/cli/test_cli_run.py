"""``streameval run`` as a process: killed, stopped, refused, and continued exactly."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.errors import StoreError
from streameval.service.store.store import read_store
from streameval.state_files.codec import decompressed
from tests.support.command_runs import COMMAND, Command, Result, in_process, own_process

CONFIG = """
[evaluator]
slices = ["country"]

[[window]]
name = "all"

[[window]]
name = "recent"
length = "1h"
pane = "5m"

[fields]
score = "score"
time = "time"

[files]
records = ["events.jsonl"]

[checkpoint]
every = "10ms"
events = 200

[serve]
enabled = false
"""


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(capfd)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events(count: int) -> list[dict[str, Any]]:
    rng = random.Random(3)
    rows = []
    for number in range(count):
        truth = rng.random() < 0.4
        rows.append(
            {
                "y_true": truth,
                "score": round(min(1.0, max(0.0, rng.gauss(0.6 if truth else 0.4, 0.2))), 3),
                "time": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:00Z",
                "country": rng.choice(["PT", "DE"]),
            }
        )
    return rows


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def expected(rows: list[dict[str, Any]]) -> se.Evaluator:
    whole = se.Evaluator(slices=("country",), time_unit="us", max_scores=65_536, intervals=True)
    whole.update_many(
        [row["y_true"] for row in rows],
        score=[row["score"] for row in rows],
        slices={"country": [row["country"] for row in rows]},
    )
    return whole


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
        store = read_store("streameval.db")
    except StoreError:
        return -1
    try:
        return store.counters().get("events", 0)
    finally:
        store.close()


def wait_until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to pass in time")


def exported(command: Command, directory: Path) -> dict[str, bytes]:
    directory.mkdir()
    done = command("store", "export", "streameval.db", "--to", directory)
    assert done.code == 0, done.err
    return {path.name: decompressed(path.read_bytes()) for path in sorted(directory.iterdir())}


def test_killed_runs_count_every_event_once(here: Path, command: Command) -> None:
    rows = events(6000)
    (here / "events.jsonl").write_text(lines(rows))
    result = command("run", "run.toml", "--until-end", "--store", "whole.db")
    assert result.code == 0, result.err
    rng = random.Random(1)
    done = False
    for _ in range(3):
        with start("--until-end", "--set", "checkpoint.events=50") as process:
            assert process.stderr is not None
            assert b"counted so far" in process.stderr.readline()  # it has opened its store
            time.sleep(rng.random() * 0.15)  # anywhere: what is asserted holds wherever it falls
            process.kill()
        done = process.returncode == 0
    assert not done or counted() == 6000
    result = command("run", "run.toml", "--until-end")
    assert result.code == 0, result.err
    assert counted() == 6000
    os.rename("streameval.db", "killed.db")
    os.rename("whole.db", "streameval.db")
    whole = exported(command, here / "whole")
    os.rename("killed.db", "streameval.db")
    assert exported(command, here / "killed") == whole
    assert whole["all.state"] == expected(rows).to_bytes()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_makes_a_checkpoint_and_ends_with_0(here: Path, number: int) -> None:
    rows = events(500)
    (here / "events.jsonl").write_text(lines(rows))
    # Only the end makes a checkpoint.
    with start("--set", "checkpoint.every=1h", "--set", "checkpoint.events=1000000") as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        assert b"0 events counted so far" in first
        # It is reading, and reads on: more is written and then read as well.
        time.sleep(0.3)
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == 0, rest
    assert b"ended after a checkpoint: 500 events counted" in rest
    assert counted() == 500


def test_a_file_is_followed_until_the_run_is_stopped(here: Path) -> None:
    rows = events(300)
    file = here / "events.jsonl"
    file.write_text(lines(rows[:100]))
    with start() as process:
        wait_until(lambda: counted() == 100)
        with file.open("a") as more:
            more.write(lines(rows[100:]))
        wait_until(lambda: counted() == 300)
        # The store is this process's; others may look into it.
        second = own_process("run", "run.toml", "--until-end")
        assert second.code == 1
        assert f"is in use by the process {process.pid}" in second.err
        replay = own_process("store", "quarantine", "streameval.db", "--replay")
        assert (replay.code, f"process {process.pid}" in replay.err) == (1, True)
        report = own_process("store", "report", "streameval.db", "--format", "json")
        metrics = json.loads(report.out)["all"]["metrics"]
        assert metrics == expected(rows).report().to_dict()["metrics"]
        process.terminate()
        assert process.wait() == 0


def test_a_check_prints_the_configuration_and_touches_nothing(here: Path, command: Command) -> None:
    result = command("run", "run.toml", "--check", "--set", "evaluator.threshold=0.7")
    assert result.code == 0, result.err
    assert "threshold = 0.7" in result.out
    assert 'store = "streameval.db"' in result.out
    assert sorted(path.name for path in here.iterdir()) == ["run.toml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "evaluator.threshold=high"], "evaluator.threshold"),
        (["--set", "window.0.pane=5m"], "window"),
        (["--set", "evaluator.metrics=['kappa_temporal']"], "kappa_temporal"),
        (
            ["--set", "evaluator.metrics=['zzz']"],
            "'zzz'; streameval.metrics.METRICS and `streameval metrics` list",
        ),
        (["--listen", "nowhere"], "serve.listen"),
    ],
)
def test_a_bad_configuration_is_one_line(
    command: Command, arguments: list[str], message: str
) -> None:
    result = command("run", "run.toml", "--check", *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("serve", "message"),
    [
        ("token = 'env:STREAMEVAL_NONE'", "serve.token: expected the variable STREAMEVAL_NONE in"),
        ("token = 'hunter2'", "serve.token: expected at least 16 characters, got 7; "),
    ],
)
@pytest.mark.parametrize("option", ["--check", "--until-end"])
def test_an_invalid_secret_is_refused_before_anything_is_made(
    here: Path, command: Command, serve: str, message: str, option: str
) -> None:
    (here / "run.toml").write_text(
        CONFIG.replace("enabled = false", f"listen = '127.0.0.1:0'\n{serve}")
    )
    result = command("run", "run.toml", option)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "hunter2" not in result.err
    assert sorted(path.name for path in here.iterdir()) == ["run.toml"]


def test_a_check_looks_for_the_directory_of_the_store(here: Path, command: Command) -> None:
    result = command("run", "run.toml", "--check", "--store", "none/run.db")
    assert (result.code, result.out) == (2, "")
    assert "store: expected a file in a directory that is there, got none/run.db" in result.err
    assert result.err.count("\n") == 1


def test_a_changed_threshold_holds_for_every_event(here: Path, command: Command) -> None:
    rows = events(300)
    (here / "events.jsonl").write_text(lines(rows[:200]))
    assert command("run", "run.toml", "--until-end").code == 0
    (here / "events.jsonl").write_text(lines(rows))
    result = command("run", "run.toml", "--until-end", "--set", "evaluator.threshold=0.7")
    assert result.code == 0, result.err
    assert "evaluator.threshold: 0.7: the counts of labels are derived exactly" in result.err
    again = command(
        "run", "run.toml", "--until-end", "--set", "evaluator.threshold=0.7", "--store", "new.db"
    )
    assert again.code == 0, again.err
    changed = exported(command, here / "changed")
    os.replace("new.db", "streameval.db")
    assert changed == exported(command, here / "begun")


NEW_PARTS = """
[[window]]
name = "day"
length = "24h"
"""


def dump(path: str = "streameval.db") -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def logged(result: Result) -> str:
    """The log without its times."""
    return "".join(line.partition(" INFO ")[2] + "\n" for line in result.err.splitlines())


def test_new_parts_begin_in_an_old_store(here: Path, command: Command) -> None:
    rows = [{**row, "device": "ab"[n % 2]} for n, row in enumerate(events(300))]
    (here / "events.jsonl").write_text(lines(rows[:200]))
    assert command("run", "run.toml", "--until-end").code == 0
    before = dump()
    config = CONFIG.replace('["country"]', '["country", "device"]') + NEW_PARTS
    (here / "run.toml").write_text(config)
    check = command("run", "run.toml", "--check")
    assert check.code == 0, check.err
    assert "# store streameval.db: window 'day' begins now: it holds what is read" in check.out
    assert "# store streameval.db: slice 'device' begins now: it holds what is read" in check.out
    assert dump() == before
    (here / "events.jsonl").write_text(lines(rows))
    result = command("run", "run.toml", "--until-end")
    assert result.code == 0, result.err
    assert "window 'day' begins now" in logged(result)
    report = command("store", "report", "streameval.db").out
    assert "window all, slice device since 20" in report
    assert "window day, since 20" in report
    shown = json.loads(command("store", "report", "streameval.db", "--format", "json").out)
    assert shown["all"]["metrics"] == expected(rows).report().to_dict()["metrics"]
    assert shown["day"]["metrics"] == expected(rows[200:]).report().to_dict()["metrics"]
    assert "since" not in shown["all"]
    assert shown["day"]["since"] <= shown["all"]["slices_since"]["device"]
    again = command("run", "run.toml", "--until-end")
    assert (again.code, "begins" in again.err) == (0, False)


def test_what_is_removed_is_dropped_only_when_confirmed(here: Path, command: Command) -> None:
    (here / "events.jsonl").write_text(lines(events(50)))
    assert command("run", "run.toml", "--until-end").code == 0
    before = dump()
    start_of_recent = CONFIG.index('[[window]]\nname = "recent"')
    config = CONFIG[:start_of_recent] + CONFIG[CONFIG.index("[fields]") :]
    (here / "run.toml").write_text(config.replace('["country"]', "[]"))
    refused = command("run", "run.toml", "--until-end")
    assert refused.code == 2
    assert refused.err.rstrip("\n").endswith(
        "streameval.db: slice 'country' and its 2 values and window 'recent' and its 1 states "
        "would be dropped; to confirm, add --drop slice.country --drop window.recent"
    )
    assert refused.err.count("\n") == 1
    half = command("run", "run.toml", "--until-end", "--drop", "slice.country")
    assert half.code == 2
    assert "to confirm, add --drop window.recent" in half.err
    assert dump() == before
    check = command("run", "run.toml", "--check", "--drop", "slice.country")
    assert "slice 'country' and its 2 values would be dropped\n" in check.out
    assert "would be dropped; needs --drop window.recent\n" in check.out
    options = ["--drop", "slice.country", "--drop", "window.recent"]
    result = command("run", "run.toml", "--until-end", *options)
    assert result.code == 0, result.err
    assert "dropped: window 'recent' and its 1 states" in result.err
    found = json.loads(command("store", "report", "streameval.db", "--format", "json").out)
    assert list(found) == ["all"]
    # The options may stay where they are.
    assert command("run", "run.toml", "--until-end", *options).code == 0


def test_a_removal_requires_a_confirmation_on_a_terminal(here: Path, command: Command) -> None:
    (here / "events.jsonl").write_text(lines(events(50)))
    assert command("run", "run.toml", "--until-end").code == 0
    before = dump()
    (here / "run.toml").write_text(CONFIG.replace('["country"]', "[]"))
    for answer, code in ((b"n\n", 2), (b"y\n", 0)):
        terminal, end = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, "run", "run.toml", "--until-end"], stdin=end, stderr=end, stdout=end
        ) as process:
            os.close(end)
            heard = b""
            while b"go on? [y/N]" not in heard:
                heard += os.read(terminal, 1000)
            assert b"slice 'country' and its 2 values will be dropped" in heard
            os.write(terminal, answer)
            with suppress(OSError):  # the end of a terminal is an error on Linux
                while os.read(terminal, 1000):
                    pass
        os.close(terminal)
        assert process.returncode == code
        assert (dump() == before) == (code == 2)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "evaluator.task='multiclass'; fields={y_pred='label'}",
            "evaluator.task: streameval.db was begun with ",
        ),
        ("evaluator.positive=0", "evaluator.positive: "),
        ("fields.weight='w'", "fields.weight: streameval.db was begun with 'false'"),
        ("fields.y_pred='label'", "fields.y_pred: "),
        ("join={wait = '1h'}", "join: "),
        ("window.1.pane='10m'", "window.recent.pane: streameval.db was begun with 300 s, and its "),
        ("window.1.lateness='1m'", "window.recent.lateness (join.wait unless it is set): "),
    ],
)
def test_what_changes_the_meaning_of_events_is_refused(
    here: Path, command: Command, option: str, said: str
) -> None:
    rows = events(50)
    rows.append({**rows[0], "time": rows[0]["time"].replace("00:00Z", "00:30Z")})
    rows.insert(0, {**rows[0], "time": "2026-01-01T00:20:00Z"})
    (here / "events.jsonl").write_text(lines(rows))
    (here / "run.toml").write_text(CONFIG.replace("[fields]", '[fields]\nid = "id"'))
    assert command("run", "run.toml", "--until-end").code == 0
    before = dump()
    for check in ("--check", "--until-end"):
        pairs = [part for one in option.split("; ") for part in ("--set", one)]
        result = command("run", "run.toml", check, *pairs)
        assert (result.code, result.err.count("\n")) == (2, 1), result.err
        assert said in result.err
        assert "its counts depend on it; got " in result.err
        assert "or begin a new store with --store" in result.err
    assert dump() == before


def test_a_change_that_is_killed_leaves_the_store_as_it_was(here: Path, command: Command) -> None:
    (here / "events.jsonl").write_text(lines(events(200)))
    assert command("run", "run.toml", "--until-end").code == 0
    whole = dump()
    changed = ["--set", "evaluator.slices=['country', 'id']", "--set", "evaluator.threshold=0.7"]
    for number in (1, 2):  # before the states of the first window, after those of the second
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.crash.killed_at", "states changed", str(number)),
                *("run", here / "run.toml", "--until-end", *changed),
                *("--store", here / "streameval.db"),
            ],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert dump() == whole
    result = command("run", "run.toml", "--until-end", *changed)
    assert result.code == 0, result.err
    assert dump() != whole


def test_a_full_disk_ends_the_run_in_words(here: Path, command: Command) -> None:
    (here / "events.jsonl").write_text(lines(events(10)))
    result: Result = command("run", "run.toml", "--until-end", "--store", "none/run.db")
    assert result.code == 1
    assert "there is no directory" in result.err


def test_the_log_is_one_line_a_record(here: Path) -> None:
    (here / "run.toml").write_text(CONFIG.replace("events.jsonl", "ev\\nents\\u001b[31m.jsonl"))
    (here / "ev\nents\x1b[31m.jsonl").write_text("")
    result = own_process("run", "run.toml", "--until-end")
    assert result.code == 0, result.err
    for line in result.err.splitlines():
        assert line.startswith("20")
        assert line.isprintable()


def test_posted_events_are_counted_through_a_kill(here: Path) -> None:
    """What was answered with success is counted, once, whatever comes between."""
    config = CONFIG.replace('[files]\nrecords = ["events.jsonl"]', "[http]")
    config = config.replace("enabled = false", 'listen = "127.0.0.1:0"')
    config = config.replace("[fields]", '[fields]\nid = "id"')
    (here / "run.toml").write_text(config + '[join]\nwait = "24h"\n')
    rows = [{"id": f"e{n}", **row} for n, row in enumerate(events(40))]
    for number in range(4):
        with start() as process:
            address = listening(process)
            for row in rows[number * 10 : number * 10 + 10]:
                prediction = {key: value for key, value in row.items() if key != "y_true"}
                label = {key: row[key] for key in ("id", "y_true", "time")}
                post(address, "predictions", prediction)
                post(address, "labels", label)
            if number == 3:
                wait_until(lambda: counted() == 40)
                # What is shown follows what is stored.
                wait_until(partial(shows, address, 40))
                process.terminate()
                assert process.wait() == 0
            else:
                process.kill()
    store = own_process("store", "report", "streameval.db", "--window", "all", "--format", "json")
    metrics = json.loads(store.out)["all"]["metrics"]
    assert metrics == expected(rows).report().to_dict()["metrics"]


def shows(address: str, support: int) -> bool:
    with urllib.request.urlopen(f"{address}api/report") as answer:
        shown: int = json.load(answer)["report"]["metrics"]["accuracy"]["support"]
        return shown == support


def listening(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if b"listening at " in line:
            return line.split()[-1].decode()
    raise AssertionError("it does not listen")


def post(address: str, kind: str, record: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{address}v1/{kind}",
        json.dumps(record).encode(),
        {"Content-Type": "application/x-ndjson"},
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status in (200, 202)


SERVED = CONFIG.replace("enabled = false", 'listen = "127.0.0.1:0"')


def test_sighup_reads_the_configuration_again(here: Path) -> None:
    config = SERVED.replace('[files]\nrecords = ["events.jsonl"]', "[http]")
    file = here / "run.toml"
    file.write_text(config)
    rows = events(1)

    def reread(process: subprocess.Popen[bytes], text: str) -> list[str]:
        """Send the signal; the lines of the log up to the one that tells of it."""
        file.write_text(text)
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        found = []
        while not found or "configuration" not in found[-1]:
            found.append(process.stderr.readline().decode())
        return found

    def alerts() -> Any:
        with urllib.request.urlopen(f"{address}api/alerts") as answer:
            return json.load(answer)["alerts"]

    with start() as process:
        address = listening(process)
        assert alerts() == []
        low = '[[alert]]\nname = "low"\nmetric = "accuracy"\nbelow = 0.99\n'
        (line,) = reread(process, config + low)
        assert line.endswith("configuration read: alert\n")
        wait_until(lambda: [alert["name"] for alert in alerts()] == ["low"])
        silence = '[[alert]]\nname = "silence"\nmetric = "volume"\nbelow = 1\n'
        (line,) = reread(process, config + low + silence)
        assert line.endswith("configuration read: alert\n")
        wait_until(lambda: [alert["name"] for alert in alerts()] == ["low", "silence"])
        (line,) = reread(process, "intervals = 0.9\n" + config + low)
        assert line.endswith("configuration read: intervals, alert\n")
        wait_until(lambda: [alert["name"] for alert in alerts()] == ["low"])
        (line,) = reread(process, config + low)
        (line,) = reread(process, config + low.replace("below", "bellow"))
        assert "the configuration was not taken over, nothing has changed: " in line
        assert "alert[0].bellow: expected a key" in line
        assert [alert["name"] for alert in alerts()] == ["low"]
        short = config.replace("[http]", "[http]\nmax_line_bytes = 20")
        (line,) = reread(process, short + low + NEW_PARTS)
        assert line.endswith("configuration read: http.max_line_bytes\n")
        assert process.stderr is not None
        later = process.stderr.readline().decode()
        assert later.endswith("window: takes effect at the next start\n")
        with pytest.raises(urllib.error.HTTPError) as refused:
            post(address, "predictions", rows[0])
        assert b"at most 20 bytes" in refused.value.read()
        refused.value.close()
        process.terminate()
        assert process.wait() == 0
