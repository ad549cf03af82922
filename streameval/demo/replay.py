"""The run of the demo, and the streams that are posted to it at a multiple of their speed."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from streameval.demo.flights import Message
from streameval.errors import SourceError

_PORT = 8642
_START_SECONDS = 30
_STOP_SECONDS = 30

_POST_RECORDS = 500
_TICK_SECONDS = 0.2
_TRIES = 20
_PAUSE_SECONDS = 0.5


class Progress(NamedTuple):
    """How much a replay has posted."""

    moment: datetime
    predictions: int


class Poster:
    """Posts to a run's ``/v1/`` and reads its ``/api/`` over one connection."""

    # A post whose response is lost is sent again, which the ids make harmless.

    def __init__(
        self, host: str, port: int, *, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=30)
        self._sleep = sleep

    def post(self, kind: str, records: list[dict[str, Any]]) -> None:
        """Send records of one kind; they are durable when this returns."""
        lines = [json.dumps(record, separators=(",", ":")) for record in records]
        body = "\n".join(lines).encode() + b"\n"
        self._request("POST", f"/v1/{kind}", body)

    def get(self, path: str) -> Any:
        """The JSON under a path of the API."""
        return json.loads(self._request("GET", path, None))

    def _request(self, method: str, path: str, body: bytes | None) -> bytes:
        failure = ""
        for _ in range(_TRIES):
            try:
                self._connection.request(
                    method, path, body, {"Content-Type": "application/x-ndjson"}
                )
                answer = self._connection.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                failure = str(error)
            else:
                if answer.status < 300:
                    return data
                failure = f"{answer.status} {data[:200].decode('utf-8', 'replace')}"
                if answer.status < 500:
                    break
            self._sleep(_PAUSE_SECONDS)
        raise SourceError(f"{method} {path} was not answered: {failure}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def replay(
    messages: Iterable[Message],
    poster: Poster,
    *,
    speed: float | None,
    stop_after: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Progress]:
    """Post messages at ``speed`` seconds of the stream a second; the progress after each post."""
    began = clock()
    first: datetime | None = None
    predictions = 0
    pending: list[Message] = []

    def post() -> Progress:
        """Send pending messages, each kind as one post, and clear the list."""
        nonlocal predictions
        for kind in ("predictions", "labels"):
            if records := [message.record for message in pending if message.kind == kind]:
                poster.post(kind, records)
        predictions += sum(message.kind == "predictions" for message in pending)
        newest = pending[-1].moment
        pending.clear()
        return Progress(newest, predictions)

    for message in messages:
        first = first or message.moment
        if speed is not None and pending:
            due = (message.moment - first).total_seconds() / speed
            ahead = due - (clock() - began)
            if ahead > _TICK_SECONDS:
                yield post()
                sleep(ahead)
        pending.append(message)
        if len(pending) >= _POST_RECORDS:
            yield post()
        if stop_after is not None and clock() - began >= stop_after:
            break
    if pending:
        yield post()


CONFIG = """\
# Flights out of New York: predicted at departure, labelled hours later.
store = "flights.db"

[evaluator]
task = "binary"            # late or not
positive = true
slices = ["carrier", "origin"]

[fields]
id = "id"
score = "score"
y_true = "late"
time = "departed"

[fields.label]
time = "landed"

[http]                     # POST /v1/predictions and /v1/labels

[join]
wait = "24h"               # a diverted flight never gets a label

[reference]                # what flights in the air are compared with
panes = 7                  # the oldest days that have all their labels

[[window]]
name = "all"

[[window]]
name = "7d"
length = "7d"
pane = "1d"
retain = "60d"

[[alert]]
name = "misses-too-many"
metric = "recall"
window = "7d"
below = 0.6
min_support = 2000
for = "2s"
"""


class DemoRun:
    """``streameval run`` in a process of its own, on port 8642 or a free one by default."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.config = directory / "streameval.toml"
        if not self.config.exists():
            self.config.write_text(CONFIG, encoding="utf-8")
        self.store = directory / "flights.db"
        self.port = port or _free_port(*(() if port == 0 else (_PORT,)))
        self.url = f"http://127.0.0.1:{self.port}/"
        self._log = directory / "run.log"
        # Its log would break the progress bar; errors quote the last line of the file.
        log = self._log.open("wb")
        command = [sys.executable, "-m", "streameval.cli", "run", self.config.name]
        self._process = subprocess.Popen(
            [*command, "--listen", f"127.0.0.1:{self.port}"], cwd=directory, stderr=log
        )
        log.close()
        self.poster = Poster("127.0.0.1", self.port)
        try:
            self._wait_until(self._accepts_connections, _START_SECONDS, "does not start")
        except BaseException:
            self.stop()
            raise

    def _accepts_connections(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _wait_until(self, ready: Callable[[], bool], seconds: float, failure: str) -> None:
        until = time.monotonic() + seconds
        while not ready():
            if self._process.poll() is not None or time.monotonic() > until:
                log = self._log.read_text(encoding="utf-8", errors="replace").strip()
                last = log.splitlines()[-1] if log else "it logged nothing"
                raise SourceError(f"the run {failure}: {last}")
            time.sleep(0.05)

    def wait_counted(self, progress: Progress) -> None:
        """Wait until all posts have been read and counted."""

        def counted() -> bool:
            partitions = self.poster.get("/api/partitions")["partitions"]
            joined: int = self.poster.get("/api/join")["join"]["predictions"]
            return all(part["lag"] == 0 for part in partitions) and joined >= progress.predictions

        self._wait_until(counted, 120, "does not catch up")

    def stop(self) -> int:
        """End the run with SIGTERM; it makes a last checkpoint."""
        self.poster.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._process.wait()


def _free_port(*wanted: int) -> int:
    """The first free port of the wanted ones, or any free one."""
    for port in (*wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise SourceError("no free port on 127.0.0.1")
