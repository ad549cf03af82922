"""A seeded stream with every kind of faulty record."""

from __future__ import annotations

import heapq
import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

Kind = Literal["predictions", "labels"]

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_STEP = timedelta(seconds=2)

_BAD = (
    b"not json",
    b'{"id": "x", "score": NaN}',
    b'{"id": "x"}',
    b'{"id": ["x"], "score": 0.5}',
    b"\xff\xfe{}",
    b'{"id": "x", "score": "high", "time": "2026-01-01T00:00:00Z", "country": "PT"}',
    b"[1, 2, 3]",
    b"{" * 200,
)


class Line(NamedTuple):
    """One record of one of the two streams."""

    kind: Kind
    key: str
    """Records of one id go to one partition."""
    body: bytes


def stream(seed: int, predictions: int) -> list[Line]:
    """Predictions in the order of their times, labels minutes to hours later.

    One in 50 is never labelled, one in 100 labels comes twice, one in 100 is
    corrected, one in 200 predictions is sent twice, one in 300 labels
    belongs to nothing, one in 150 records is malformed.
    """
    rng = random.Random(seed)
    waiting: list[tuple[datetime, int, Line]] = []
    found: list[Line] = []
    count = 0

    def later(moment: datetime, record: dict[str, object]) -> None:
        nonlocal count
        count += 1
        body = json.dumps({**record, "time": _text(moment)}).encode()
        heapq.heappush(waiting, (moment, count, Line("labels", str(record["id"]), body)))

    for n in range(predictions):
        now = _BEGIN + n * _STEP
        while waiting and waiting[0][0] <= now:
            found.append(heapq.heappop(waiting)[2])
        truth = rng.random() < 0.3
        score = min(max(rng.gauss(0.6 if truth else 0.4, 0.2), 0.0), 1.0)
        record = {
            "id": f"e{n}",
            "score": round(score, rng.choice([1, 6])),
            "time": _text(now),
            "country": rng.choice(["PT", "DE", "FR", "<b>"]),
        }
        line = Line("predictions", f"e{n}", json.dumps(record).encode())
        found.append(line)
        if rng.random() < 1 / 200:
            found.append(line)
        if rng.random() < 1 / 150:
            found.append(Line(rng.choice(["predictions", "labels"]), f"e{n}", rng.choice(_BAD)))
        if rng.random() < 1 / 300:
            later(now, {"id": f"stray{n}", "y_true": True})
        if rng.random() < 1 / 50:
            continue
        delay = timedelta(seconds=rng.choice([0, 5, 600, rng.randrange(1, 7200)]))
        label = {"id": f"e{n}", "y_true": truth}
        kind = rng.random()
        if kind < 0.01:
            later(now + delay + timedelta(minutes=10), label)
        elif kind < 0.02:
            later(now + delay + timedelta(minutes=10), {**label, "y_true": not truth})
        later(now + delay, label)
    found += [heapq.heappop(waiting)[2] for _ in range(len(waiting))]
    return found


def label_by_label(lines: list[Line], seed: int) -> list[Line]:
    """The same stream with two scores, and sets of labels in parts: a label, later the end.

    One set in 20 is never final. What was a correction adds a label, before or after the end.
    """
    rng = random.Random(seed)
    found: list[tuple[int, int, Line]] = []
    for n, (kind, key, body) in enumerate(lines):
        parts: list[Any] = [body]
        record = body.startswith(b'{"id": "e') and json.loads(body)
        if record and kind == "predictions":
            score = {"ad": record["score"], "spam": round(1 - record["score"], 6)}
            parts = [{**record, "score": score}]
        elif record:
            tag = "ad" if record.pop("y_true") else "spam"
            parts = [{**record, "tag": tag}, {**record, "final": True}][: 2 - (n % 20 == 0)]
        for later, part in enumerate(parts):
            data = part if isinstance(part, bytes) else json.dumps(part).encode()
            found.append((n + later * rng.randrange(200), len(found), Line(kind, key, data)))
    return [line for *_, line in sorted(found)]


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
