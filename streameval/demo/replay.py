"""Post recorded streams to a run, at a chosen multiple of their own speed."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streameval.demo.flights import Message
from streameval.errors import SourceError

_POST_RECORDS = 500
_TICK_SECONDS = 0.2
_TRIES = 20
_PAUSE_SECONDS = 0.5


@dataclass
class Progress:
    """How much a replay has posted."""

    moment: datetime | None = None
    predictions: int = 0
    labels: int = 0


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
    progress = Progress()
    pending: list[Message] = []
    for message in messages:
        first = first or message.moment
        if speed is not None and pending:
            due = (message.moment - first).total_seconds() / speed
            ahead = due - (clock() - began)
            if ahead > _TICK_SECONDS:
                _post(pending, poster, progress)
                yield progress
                sleep(ahead)
        pending.append(message)
        if len(pending) >= _POST_RECORDS:
            _post(pending, poster, progress)
            yield progress
        if stop_after is not None and clock() - began >= stop_after:
            break
    if pending:
        _post(pending, poster, progress)
        yield progress


def _post(pending: list[Message], poster: Poster, progress: Progress) -> None:
    """Send pending messages, each kind as one post, and clear the list."""
    for kind in ("predictions", "labels"):
        records = [message.record for message in pending if message.kind == kind]
        if records:
            poster.post(kind, records)
            setattr(progress, kind, getattr(progress, kind) + len(records))
    progress.moment = pending[-1].moment
    pending.clear()
