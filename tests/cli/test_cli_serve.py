"""``streameval serve`` as a command: what it serves, and what it refuses in one sentence."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

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
    urls: list[str] = []
    stop = threading.Event()
    up = threading.Event()

    def started(url: str) -> None:
        urls.append(url)
        up.set()

    changes = ["serve.listen=127.0.0.1:0", "serve.read_every=10ms"]
    serving = threading.Thread(
        target=lambda: serve_store(
            "run.db",
            lambda meta: kept_settings("run.db", meta, changes),
            started=started,
            stopping=stop,
        )
    )
    serving.start()
    try:
        assert up.wait(60)
        report = httpx.get(f"{urls[0]}api/report").json()
        assert report["report"]["metrics"]["accuracy"]["value"] == 1.0
        posted = httpx.post(f"{urls[0]}v1/predictions", content=b"{}")
        assert posted.status_code == 404
        assert posted.json()["error"]["remedy"] == "post to the run itself"
        # What a run counts from now on is seen, also that of a restored copy.
        back_up("run.db", "copy")
        with open("events.jsonl", "a") as file:
            file.write('{"y_true": false, "score": 0.7}\n' * 10)
        run_service(load_settings("run.toml"), until_end=True)
        _wait(lambda: _events(urls[0]) == 20)
        restore("copy", "run.db", overwrite=True)
        _wait(lambda: _events(urls[0]) == 10)
    finally:
        stop.set()
        serving.join()


def _events(url: str) -> int:
    return int(httpx.get(f"{url}api/status").json()["run"]["checkpoint"]["events"])


def _wait(reached: object) -> None:
    until = time.monotonic() + 60
    assert callable(reached)
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_what_cannot_be_served_is_refused_in_one_sentence(command: Command) -> None:
    assert command("serve").err == "streameval: serve requires --store or --config\n"
    found = command("serve", "--store", "none.db")
    assert (found.code, found.err.rpartition(" ")[2]) == (1, "store\n")
    assert "none.db: there is no such store" in found.err
    Path("other.toml").write_text(
        CONFIG.replace("[fields]", "[evaluator]\nthreshold = 0.9\n[fields]")
    )
    found = command("serve", "--store", "run.db", "--config", "other.toml")
    assert found.code == 2
    assert "evaluator.threshold: run.db is counted with '0.5', got '0.9'; give the conf" in (
        found.err
    )
    shutil.copy("run.db", "old.db")
    with closing(sqlite3.connect("old.db")) as old:
        old.execute("PRAGMA journal_mode = DELETE")
        old.execute("DELETE FROM meta WHERE key = ?", (SETTINGS,))
        old.commit()
    found = command("serve", "--store", "old.db")
    assert "old.db: holds no settings, because an older release wrote it; give" in found.err
    with closing(sqlite3.connect("old.db")) as old:
        old.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
        old.commit()
    found = command("serve", "--store", "old.db")
    assert "was written by a newer streameval (its schema is 99" in found.err
    found = command("serve", "--store", "run.db", "--listen", "0.0.0.0:0")
    assert "serve.token: expected a token, because 0.0.0.0 can be reached" in found.err


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


def test_a_log_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    import typer

    with log_to_stderr(LogFormat.JSON):
        logging.getLogger("streameval.run").warning("a\nb", extra={"partition": "p"})
    (line,) = capsys.readouterr().err.splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "WARNING",
        "logger": "streameval.run",
        "message": "a\nb",
        "fields": {"partition": "p"},
    }
    with pytest.raises(typer.Exit) as ended, log_to_stderr(LogFormat.JSON):
        raise ConfigError("join.wait: expected a duration")
    assert ended.value.exit_code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "join.wait: expected a duration"
