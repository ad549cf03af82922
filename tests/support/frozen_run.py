"""Two small runs with a clock that stands still, and all that a service shows of them.

Each answer has a name; :func:`fresh` returns the answers as texts, long ones as their digests.
Run as a module it writes ``tests/golden/service.json`` where there is none; a golden file is never
replaced, as stores and clients of users hold what it says. ``--show NAME`` prints an answer whole,
in this tree or, by PYTHONPATH, in another.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import msgspec

from streameval import __version__
from streameval.cli import main
from streameval.service.alerts.webhook import Webhook
from streameval.service.config.address import Address
from streameval.service.config.settings import ServeSettings, WebhookSettings
from streameval.service.http.api import ENDPOINTS
from streameval.service.http.server import Server
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.opening import open_settled
from streameval.service.run.store_reader import StoreReader
from streameval.service.sources.raw import Kind
from streameval.service.store.kept_settings import kept_settings
from streameval.service.store.store import read_store
from streameval.state_files.codec import COMPRESSED, decompressed
from tests.support.run import InTurn, Lists, Run, opened, settings

FILE = Path(__file__).parents[1] / "golden" / "service.json"
NOW = 1_767_268_800_000_000
"""2026-01-01 12:00, an hour after the newest record."""
_LONGEST = 240
"""Characters of an answer that stands in the file as it is."""


def _alert(name: str, metric: str, below: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "metric": metric, "below": below, **more}


JOINED: dict[str, Any] = {
    "store": "joined.db",
    "evaluator": {"slices": ["country", ["country", "device"]]},
    "window": [{"name": "all"}, {"name": "recent", "length": "1h", "pane": "5m"}],
    "fields": {"id": "id", "score": "score", "time": "time"},
    "join": {"wait": "30m", "remember": "45m", "hot": 40, "predictions": False},
    "files": {"predictions": ["p"], "labels": ["l"]},
    "checkpoint": {"every": "1h", "events": 60},
    "quarantine": {"keep": 5},
    "serve": None,
    "alert": [
        _alert("low", "accuracy", 0.99, slice={"country": "PT"}),
        _alert("slow", "f1", 0.99, **{"for": "1h"}),
        _alert("anywhere", "recall", 0.99, slice="any", when="certain"),
        _alert("coverage", "label_coverage", 0.5),
    ],
}
CHANGED: dict[str, Any] = {
    **JOINED,
    "evaluator": {"slices": ["country", "device"]},
    "window": [
        {"name": "all"},
        {"name": "recent", "length": "2h", "pane": "5m"},
        {"name": "fading", "half_life": "30m"},
    ],
}
MODELS: dict[str, Any] = {
    "store": "models.db",
    "evaluator": {
        "models": ["champion", "challenger"],
        "slices": ["country"],
        "paired_scores": True,
    },
    "window": [{"name": "day", "length": "1d", "pane": "1h"}, {"name": "all"}],
    "fields": {
        "score": {"champion": "score", "challenger": "other"},
        "time": "time",
        "weight": "w",
    },
    "files": {"records": ["r"]},
    "checkpoint": {"every": "1h", "events": 70},
    "serve": None,
    "alert": [_alert("worse", "roc_auc", 0.0, model="challenger")],
}
_RUNS = {"joined": JOINED, "models": MODELS}
_PATHS = (
    *("/healthz", "/livez", "/readyz", "/caughtup", "/metrics", "/openapi.json", "/api/status"),
    *("/static/grafana_dashboard.json", "/static/prometheus_rules.yml", "/api/nothing"),
)
_QUERIES = {
    "/api/slices": ("sort=name&limit=2", "sort=accuracy&order=worst", "min_support=9&q=pt"),
    "/api/view": ("window=all", "window=all&slice=country%3DPT", "window=none"),
    "/api/report": ("window=all&slice=country%3DDE", "slice=none"),
    "/api/confusion": ("limit=1",),
    "/api/quarantine": ("limit=1&offset=1",),
    "/api/partitions": ("limit=1",),
}


def lines() -> dict[str, tuple[Kind, list[bytes]]]:
    """Predictions, labels that are late, doubled, corrected and without one, and bad records."""
    predictions: list[bytes] = []
    labels: list[bytes] = []
    records: list[bytes] = []
    for number in range(120):
        minute = number * 137 % 97 / 97
        row = {
            "id": f"e{number}",
            "score": round((number * 71 % 100) / 100, 2),
            "other": round((number * 37 % 90) / 100, 2),
            "time": f"2026-01-01T{9 + number // 60:02}:{number % 60:02}:{int(minute * 60):02}Z",
            "country": "PT" if number % 3 else "DE",
            "device": ("phone", "tv", None)[number % 5 % 3],
        }
        truth = number * 53 % 100 > 55 - row["score"] * 20  # type: ignore[operator]
        later = f"{row['time'][:14]}{min(59, number % 60 + number % 9):02}:59Z"  # type: ignore[index]
        label = {"id": row["id"], "y_true": truth, "time": later}
        predictions += [json.dumps(row).encode()] * (1 + (number % 17 == 3))
        if number % 11 == 5:
            labels.insert(0, json.dumps({**label, "y_true": not truth}).encode())
        if number % 7:
            labels += [json.dumps(label).encode()] * (1 + (number % 13 == 4))
        records.append(json.dumps({**row, "y_true": truth, "w": 1 + number % 3}).encode())
        if number % 40 == 7:
            bad = b'{"y_true": "neither", "score": 2}' if number < 50 else b"not json"
            predictions.append(b'{"id": "b%d", "score": "high"}' % number)
            labels.append(bad)
            records.append(bad)
    early = (labels[3:8], labels[8:])
    labels = [*early[1], *early[0], *labels[:3], b'{"id": "unknown", "y_true": true}']
    for lost, at in (("e77", "10:58"), ("e2", "10:58"), ("e70", "10:30"), ("unknown", "09:01")):
        moment = f"2026-01-01T{at}:00Z"
        labels.append(json.dumps({"id": lost, "y_true": True, "time": moment}).encode())
    return {
        "p/0": ("predictions", predictions[::2]),
        "p/1": ("predictions", predictions[1::2]),
        "l/0": ("labels", labels),
        "r/0": ("records", records[::2]),
        "r/1": ("records", records[1::2]),
    }


class _Outbox:
    """A webhook that has not finished a post yet: transitions stay in the store."""

    def __init__(self) -> None:
        self.posted: list[Any] = []

    def post(self, transition: Any) -> bool:
        self.posted.append(transition)
        return True

    def finished(self) -> list[int]:
        return []


@contextmanager
def ran(tables: dict[str, Any]) -> Iterator[tuple[Run, _Outbox]]:
    """A run of all lines, at one moment, on a store that is closed at the end of the block."""
    outbox = _Outbox()
    with mock.patch("time.time_ns", return_value=NOW * 1_000):
        given, store = open_settled(settings(**tables), lambda drops: drops)
    names = {name for found in tables["files"].values() for name in found}
    mine = {name: one for name, one in lines().items() if name.partition("/")[0] in names}
    with opened(given, clock=lambda: 1.0, now=lambda: NOW, store=store, webhook=outbox) as run:
        run.runner.run([Lists(mine, run.runner.positions, InTurn(20, turn=-1))])
        yield run, outbox


def _plain(value: object) -> str:
    """A cell of a row as text; a state without its compression, which depends on zlib's version."""
    if isinstance(value, memoryview):
        value = bytes(value)
    if not isinstance(value, bytes):
        return repr(value)
    content = decompressed(value) if value[16:20] == COMPRESSED.to_bytes(4, "little") else value
    return f"{len(content)} bytes {hashlib.sha256(content).hexdigest()[:16]}"


def sqlite_rows(path: str) -> Iterator[tuple[str, str]]:
    """The statements that make the tables, and each row."""
    with closing(sqlite3.connect(path)) as connection:
        for pragma in ("application_id", "user_version", "auto_vacuum", "page_size"):
            (value,) = connection.execute(f"PRAGMA {pragma}").fetchone()
            yield f"pragma {pragma}", repr(value)
        objects = list(connection.execute("SELECT type, name, sql FROM sqlite_master"))
        for kind, name, sql in objects:
            yield f"{kind} {name}", str(sql)
        for kind, name, _ in objects:
            # Sums of rows are of the compressed bytes as well: they are only counted.
            if kind == "table" and name != "checksums":
                rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
                yield from _rows(name, rows)
        yield "sums", repr(connection.execute("SELECT count(*) FROM checksums").fetchone())


def _rows(table: str, rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, str]]:
    if table == "meta":
        yield from ((f"row meta {key}", value) for key, value, *_ in rows)
        return
    shown = ["\t".join(map(_plain, row)) for row in rows]
    for number, row in enumerate(sorted(shown) if len(shown) <= 6 else ["\n".join(sorted(shown))]):
        yield f"row {table} {number}" if len(shown) <= 6 else f"rows {table}", row


def postgres_rows(address: str) -> Iterator[tuple[str, str]]:
    """What the catalogue says of the schema, and each row."""
    import psycopg

    from streameval.service.store.postgres import MIGRATIONS

    for version, statements in enumerate(MIGRATIONS, 1):
        for number, sql in enumerate(statements()):
            yield f"migration {version}.{number}", sql
    where = re.sub(r"&?schema=\w+", "", address)
    (schema,) = re.findall(r"schema=(\w+)", address)
    with psycopg.connect(where) as connection:
        connection.execute(f"SET search_path TO {schema}")
        columns = connection.execute(
            "SELECT table_name, ordinal_position, column_name, data_type, is_nullable, "
            "column_default, is_identity FROM information_schema.columns WHERE table_schema = %s "
            "ORDER BY 1, 2",
            (schema,),
        ).fetchall()
        for table, rows in itertools.groupby(columns, lambda row: row[0]):
            yield f"columns {table}", "; ".join(str(row[1:]) for row in rows).replace(schema, "S")
        query = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1"
        for name, text in connection.execute(query, (schema,)).fetchall():
            yield f"index {name}", text.replace(schema, "S")
        for table in sorted({row[0] for row in columns}):
            if table == "claims":
                query = "SELECT unit, generation, commits FROM claims"
                yield "row claims", repr(connection.execute(query).fetchall())
            elif table == "unit_checksums":
                query = "SELECT unit, name, key FROM unit_checksums"
                yield from _rows(table, connection.execute(query).fetchall())
            elif table.startswith("unit_"):
                rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
                if table == "unit_meta":
                    rows = [(key, value) for key, value, *_ in rows]
                yield from _rows(table.removeprefix("unit_"), rows)


def answers(publisher: Publisher) -> Iterator[tuple[str, str]]:
    """Of every path of the server."""
    server = Server(
        ServeSettings(listen=Address("127.0.0.1:0")),
        None,
        publisher,
        None,
        clock=lambda: NOW / 1e6 + 5,
    )
    try:
        with httpx.Client(base_url=server.url, timeout=20) as client:
            for path in (*_PATHS, *ENDPOINTS):
                plain = path.replace("{name}", "roc").replace("{metric}", "accuracy")
                for query in ("", *_QUERIES.get(path, ())):
                    where = f"{plain}?{query}" if query else plain
                    response = client.get(where)
                    text = response.text.replace(__version__, "VERSION")
                    yield from _in_parts(f"GET {where}", f"{response.status_code} {text}")
            yield "POST /v1/labels", client.post("/v1/labels", content=b"{}").text
            with client.stream("GET", "/api/events") as response:
                event = ""
                for part in response.iter_text():
                    event += part
                    if "snapshot" in event and event.endswith("\n\n"):
                        break
                yield "GET /api/events", event
    finally:
        server.stop()


def _in_parts(name: str, text: str) -> Iterator[tuple[str, str]]:
    """An answer; the metrics of Prometheus by their names."""
    if name != "GET /metrics":
        yield name, text
        return
    for number, family in enumerate(text.split("# HELP ")):
        yield f"{name} {number} {family.partition(' ')[0]}", family


def posted(outbox: _Outbox) -> Iterator[tuple[str, str]]:
    """The bodies that a webhook sends."""
    bodies: list[bytes] = []

    def sent(self: Webhook, body: bytes) -> tuple[str, bool]:
        bodies.append(body)
        return "", False

    with mock.patch.object(Webhook, "_try", sent):
        webhook = Webhook(WebhookSettings(url="http://127.0.0.1/"))
        for transition in outbox.posted:
            webhook.post(transition)
        webhook.close()
    for number, body in enumerate(bodies):
        yield f"webhook {number}", body.decode()


def command(*arguments: str) -> str:
    """What a command of the command line writes, with its status."""
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    written = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return "\n".join([str(code), *written])


def _commands() -> Iterator[tuple[str, str]]:
    rows = [line for line in lines()["r/0"][1] if line.startswith(b'{"id"')]
    Path("events.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    one = ("evaluate", "events.jsonl", "--score", "score")
    two = ("compare", "events.jsonl", "--score", "a=score", "--score", "b=other")
    timed = ("--time", "time", "--slice", "country", "--window", "panes:30m/5m")
    given = {
        "evaluate": (*one, "--slice", "country,country+device", "--weight", "w"),
        "evaluate panes": (*one, *timed, "--series", "accuracy", "--intervals", "0.9"),
        "evaluate bad": ("evaluate", "events.jsonl", "--score", "id"),
        "evaluate fading": (*one, *timed[:2], "--window", "fading:30m"),
        "compare": (*two, "--weight", "w"),
        "compare anytime": (*two, "--anytime"),
        "compare panes": (*two, *timed),
    }
    for name, arguments in given.items():
        yield name, command(*arguments, "--format", "json")
    # The settings of the file: its comments are the descriptions of the keys.
    code, _, text = command("init", "-").partition("\n")
    yield "init", f"{code} {json.dumps(tomllib.loads(text), sort_keys=True)}"
    for run in _RUNS:
        store = f"{run}.db"
        yield f"store check {run}", command("store", "check", store)
        yield f"store quarantine {run}", command("store", "quarantine", store, "--format", "json")
        for shape in ("json", "table"):
            report = command("store", "report", store, "--format", shape)
            yield f"store report {run} {shape}", report
        yield f"store export {run}", command("store", "export", store)
        for path in sorted(Path().glob("*.state")) + sorted(Path().glob("*.comparison")):
            yield f"export {run} {path}", _plain(path.read_bytes())
            path.unlink()
    yield "store backup", command("store", "backup", "joined.db", "backup")
    yield "backup holds", " ".join(sorted(os.listdir("backup")))
    yield "store copy", command("store", "copy", "joined.db", "copied.db")
    yield "store restore", command("store", "restore", "backup", "restored.db")
    yield "store replay", command("store", "quarantine", "restored.db", "--replay")
    for name in ("copied.db", "restored.db"):
        yield from ((f"{name} {what}", text) for what, text in sqlite_rows(name))


def service_answers() -> Iterator[tuple[str, str]]:
    """Every answer but PostgreSQL's; writes in the working directory."""
    for name, tables in _RUNS.items():
        with ran(tables) as (run, outbox):
            data = run.data.items()
            yield from ((f"{name} snapshot {key}", json.dumps(one)) for key, one in data)
            yield from ((f"{name} {what}", answer) for what, answer in answers(run.publisher))
            yield from ((f"{name} {what}", answer) for what, answer in posted(outbox))
        yield from ((f"{name} {what}", row) for what, row in sqlite_rows(f"{name}.db"))
        followed = Publisher()
        store, of = tables["store"], partial(kept_settings, tables["store"])
        with closing(
            StoreReader(store, of, followed, now=lambda: NOW, clock=lambda: 1.0)
        ) as follower:
            follower.read()
        data = msgspec.to_builtins(followed.current())
        yield from ((f"{name} followed {key}", json.dumps(one)) for key, one in data.items())
    yield from _commands()
    with ran(CHANGED) as (run, _):
        yield "changed events", repr(run.runner.events)
        yield "changed begins", json.dumps(run.data["windows"])
    yield from ((f"changed {what}", row) for what, row in sqlite_rows("joined.db"))
    with closing(read_store("joined.db")) as store:
        yield "changed windows", " ".join(json.loads(store.meta()["windows"]))


def postgres_answers(address: str) -> Iterator[tuple[str, str]]:
    """What a run leaves in a PostgreSQL store."""
    with ran({**JOINED, "store": address}):
        pass
    yield from ((f"postgres {what}", row) for what, row in postgres_rows(address))
    checked = command("store", "check", address)
    yield "postgres check", checked.replace(*re.findall(r"\n(\S+): sound", checked), "ADDRESS")


working_directory = contextlib.chdir
_DIGITS = re.compile(r"\d+\.\d{11,}(?:e[-+]?\d+)?")


def short(text: str) -> str:
    """A text, or the digest of a long one; numbers to eleven digits.

    Ends of intervals differ in their last digits between versions of Python, which add up floats
    otherwise. States and stores hold integers: their bytes are compared whole.
    """
    text = _DIGITS.sub(lambda found: format(float(found[0]), ".11g"), text)
    if len(text) <= _LONGEST:
        return text
    return f"{len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}"


def _everything() -> Iterator[tuple[str, str]]:
    from tests.support.postgres_server import running_postgres

    yield from service_answers()
    with (
        tempfile.TemporaryDirectory(prefix="pg") as directory,
        running_postgres(Path(directory) / "data") as server,
    ):
        yield from postgres_answers(server.address("frozen"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as here, contextlib.chdir(here):
        begun = time.monotonic()
        found = dict(_everything())
    if sys.argv[1:2] == ["--show"]:
        print(found[sys.argv[2]])
    elif FILE.exists():
        print(f"{FILE} is there already; {time.monotonic() - begun:.1f} s")
    else:
        kept = {name: short(text) for name, text in found.items()}
        FILE.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")
        print(f"{len(kept)} answers in {time.monotonic() - begun:.1f} s")
