"""``streameval serve`` as a command: what it serves, and what it refuses in one sentence."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import httpx
import pytest
import typer

from streameval.cli.logs import LogFormat, log_to_stderr
from streameval.errors import ConfigError
from streameval.service.config.load import load_settings
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.service import run_service
from streameval.service.run.store_reader import StoreReader, serve_store
from streameval.service.store.kept_settings import SETTINGS, kept_settings
from streameval.service.store.store import read_store
from streameval.service.upkeep.backup import back_up, restore
from tests.support.command_runs import Command

CONFIG = """
store = "run.db"
[fields]
score = "score"
[files]
records = ["events.jsonl"]
[serve]
enabled = false
token = "a-secret-of-twenty-two"
[webhook]
url = "http://hooks.example/secret"
"""


@pytest.fixture(autouse=True)
def _counted(here: Path) -> None:
    Path("run.toml").write_text(CONFIG)
    Path("events.jsonl").write_text('{"y_true": true, "score": 0.7}\n' * 10)
    run_service(load_settings("run.toml"), until_end=True)


def test_a_store_is_served_without_its_configuration_and_without_its_secrets() -> None:
    with closing(read_store("run.db")) as store:
        meta = store.meta()
    assert "secret" not in meta[SETTINGS]
    assert kept_settings("run.db", meta).fields.score == "score"
    urls: SimpleQueue[str] = SimpleQueue()
    stop = threading.Event()
    changes = ["serve.listen=127.0.0.1:0", "serve.read_every=10ms"]

    def serve() -> None:
        settings = partial(kept_settings, "run.db", overrides=changes)
        serve_store("run.db", settings, started=urls.put, stopping=stop)

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        url = urls.get(timeout=60)
        report = httpx.get(f"{url}api/report").json()
        assert report["report"]["metrics"]["accuracy"]["value"] == 1.0
        posted = httpx.post(f"{url}v1/predictions", content=b"{}")
        assert posted.status_code == 404
        assert posted.json()["error"]["remedy"] == "post to the run itself"
        # What a run counts from now on is seen, also that of a restored copy.
        back_up("run.db", "copy")
        with open("events.jsonl", "a") as file:
            file.write('{"y_true": false, "score": 0.7}\n' * 10)
        run_service(load_settings("run.toml"), until_end=True)
        _wait_for(url, 20)
        restore("copy", "run.db", overwrite=True)
        _wait_for(url, 10)
    finally:
        stop.set()
        serving.join()


def _wait_for(url: str, events: int) -> None:
    until = time.monotonic() + 60
    while httpx.get(f"{url}api/status").json()["run"]["checkpoint"]["events"] != events:
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_cannot_be_served_is_refused_in_one_sentence(command: Command) -> None:
    Path("other.toml").write_text(CONFIG + "[evaluator]\nthreshold = 0.9\n")
    for name, change in (
        ("old.db", f"DELETE FROM meta WHERE key = '{SETTINGS}'"),
        ("new.db", "UPDATE meta SET value = '99' WHERE key = 'schema'"),
    ):
        shutil.copy("run.db", name)
        with closing(sqlite3.connect(name)) as store:
            store.execute("PRAGMA journal_mode = DELETE")
            store.execute(change)
            store.commit()
    for options, code, message in (
        ("", 2, "serve requires --store or --config\n"),
        ("--store none.db", 1, "none.db: there is no such store"),
        ("--store run.db --config other.toml", 2,
         "evaluator.threshold: run.db is counted with '0.5', got '0.9'; give the conf"),
        ("--store old.db", 1, "old.db: holds no settings, because an older release wrote it; give"),
        ("--store new.db", 1, "was written by a newer streameval (its schema is 99"),
        ("--store run.db --listen 0.0.0.0:0", 2,
         "serve.token: expected a token, because 0.0.0.0 can be reached"),
    ):  # fmt: skip
        found = command("serve", *options.split())
        assert (found.code, message in found.err) == (code, True), found


def test_a_store_that_is_counted_otherwise_from_now_on() -> None:
    publisher = Publisher()
    following = StoreReader("run.db", lambda meta: kept_settings("run.db", meta), publisher)
    with closing(following):
        following.read()
        more = load_settings("run.toml", ['window=[{name="all"}, {name="late"}]'])
        run_service(more, until_end=True)
        following.read()
        found = publisher.current()
        assert found is not None
        assert [window.name for window in found.windows] == ["all", "late"]


def test_a_log_is_a_line_or_an_object_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    for form in LogFormat:
        with log_to_stderr(form):
            extra = {"partition": "p"}
            logging.getLogger("streameval.run").warning("a\nb\x1b[31m", extra=extra)
    text, json_line = capsys.readouterr().err.splitlines()
    assert text.isprintable()
    record = json.loads(json_line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "WARNING",
        "logger": "streameval.run",
        "message": "a\nb\x1b[31m",
        "fields": {"partition": "p"},
    }
    with pytest.raises(typer.Exit) as ended, log_to_stderr(LogFormat.JSON):
        raise ConfigError("join.wait: expected a duration")
    assert ended.value.exit_code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "join.wait: expected a duration"
