"""The demo's streams, their replay, and the whole path once."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streameval.demo.flights import DEPARTURES, Message, departures, messages
from streameval.demo.replay import Poster, replay
from streameval.errors import SourceError
from tests.support.command_runs import COMMAND, Command
from tests.support.run import Clock


@pytest.mark.heavy
def test_the_flights_of_a_year() -> None:
    flights = departures()
    assert len({flight.id for flight in flights}) == len(flights) == DEPARTURES
    assert sum(flight.late is None for flight in flights) == 1_175
    assert [flight.departed for flight in flights] == sorted(f.departed for f in flights)
    assert flights[0].features["carrier"] == "UA"
    end = flights[0].departed.date().toordinal() + 45
    assert departures(45) == [f for f in flights if f.departed.date().toordinal() < end]


def test_labels_follow_hours_later_and_some_are_corrected() -> None:
    flights = departures(4)[:3_000]
    found = list(messages(flights))
    assert [m.moment for m in found] == sorted(m.moment for m in found)
    predicted = {m.record["id"]: m for m in found if m.kind == "predictions"}
    assert len(predicted) == 3_000
    labels: dict[str, list[Message]] = {}
    for message in found:
        if message.kind == "labels":
            labels.setdefault(message.record["id"], []).append(message)
    truth = {flight.id: flight.late for flight in flights}
    sent = Counter(len(sent) for sent in labels.values())
    assert sent[2] > 15
    assert set(sent) == {1, 2}
    for key, of_flight in labels.items():
        assert of_flight[-1].record["late"] == truth[key]
        assert of_flight[0].moment - predicted[key].moment >= timedelta(minutes=30)
    assert all(key in labels or truth[key] is None for key in predicted)


def taker() -> Any:
    """Takes posts as a Poster does: pairs of kind and records, in ``posts``."""
    posts: list[tuple[str, list[Any]]] = []
    return SimpleNamespace(post=lambda *given: posts.append(given), posts=posts)


def at(second: int, kind: Any = "predictions") -> Message:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)
    return Message(moment, kind, {"n": second})


def test_a_replay_keeps_to_its_speed() -> None:
    clock, poster = Clock(), taker()
    stream = [at(0), at(1, "labels"), at(600), at(1200)]
    posts = replay(stream, poster, speed=600.0, clock=clock, sleep=clock.sleep)
    shown = [(done.predictions, round(clock.now, 3)) for done in posts]
    assert shown == [(1, 0.0), (2, 1.0), (3, 2.0)]
    assert [kind for kind, _ in poster.posts] == ["predictions", "labels", *["predictions"] * 2]


def test_a_replay_ends_in_time_and_posts_in_portions() -> None:
    ticks, poster = itertools.count(), taker()
    stream = [at(n) for n in range(2_000)]
    list(replay(stream, poster, speed=None, stop_after=9.0, clock=lambda: next(ticks) / 100))
    sizes = [len(records) for _, records in poster.posts]
    assert max(sizes) == 500
    assert 800 < sum(sizes) < 1_000


def test_an_error_names_a_run_that_does_not_answer() -> None:
    poster = Poster("127.0.0.1", 9, sleep=lambda seconds: None)
    with pytest.raises(SourceError, match="POST /v1/labels was not answered"):
        poster.post("labels", [{}])


@pytest.mark.heavy
def test_the_whole_path(tmp_path: Path, command: Command) -> None:
    demo = ("demo", "--days", "1", "--speed", "max", "--port", "0", "--directory", str(tmp_path))
    done = subprocess.run([*COMMAND, *demo], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "dashboard: http://127.0.0.1:" in done.stderr
    assert "window all" in done.stdout
    report = command("store", "report", "--format", "json", tmp_path / "flights.db")
    assert '"roc_auc"' in report.out
    log = (tmp_path / "run.log").read_text()
    assert "ended after a checkpoint" in log
    # Port 0 is any free one, and no other program's favourite.
    assert "listening at http://127.0.0.1:" in log
    assert "listening at http://127.0.0.1:8642" not in log


@pytest.mark.heavy
def test_a_terminated_demo_takes_its_run_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--days", "2", "--speed", "60", "--directory", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            next(line for line in process.stderr if "dashboard: " in line)
            process.terminate()
            # Ends only when nobody holds the pipes any more, the run included.
            process.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode in (0, 130)
    assert "ended after a checkpoint" in (tmp_path / "run.log").read_text()


@pytest.mark.parametrize("speed", ["0", "fast", "nan"])
def test_a_speed_that_is_none(speed: str, command: Command) -> None:
    refused = command("demo", "--speed", speed)
    assert refused.code == 2
    assert "--speed: expected a number above 0" in refused.err


def test_the_demo_asks_nothing_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    run = pytest.importorskip("demos.run")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    run.offer_dashboard()
    assert all(word in run.NEXT for word in ("streameval demo", "YOUR.csv", "docs/start.md"))
