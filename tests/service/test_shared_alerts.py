"""Alerts of a shared store: one process judges, another takes over, each change is posted once."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from streameval.service.alerts.shared import ALERTS_UNIT
from streameval.service.config.evaluators import fingerprint, with_stored_defaults
from streameval.service.config.load import settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.store_reader import StoreReader
from streameval.service.run.unit import Unit
from streameval.service.sources.raw import RawBatch
from streameval.service.store.kept_settings import keep_settings, kept_settings
from streameval.service.store.postgres import LockedTables
from streameval.service.store.store import open_store
from tests.service.test_run_webhook import Receiver
from tests.service.test_workers import CONFIG
from tests.support.postgres_server import Postgres

MORE = """
[quarantine]
keep = 3
[[alert]]
name = "low"
metric = "accuracy"
below = 0.5
[webhook]
url = "{url}"
"""


def count(settings: RunSettings, unit: str, right: bool, start: int) -> None:
    """Ten events of a partition number, by a worker of its own."""
    store = open_store(settings.store, fingerprint(settings), unit=unit, worker=f"worker {unit}")
    with closing(store):
        here = with_stored_defaults(settings, {})
        keep_settings(store, here)
        one = Unit(here, store, RecordDecoder(here.fields, here.evaluator, False, 1000), join=None)
        lines = [b'{"y_true": true, "score": %s}' % (b"0.9" if right else b"0.1")] * 10
        places = range(start, start + 11)
        lines.append(b"{")
        one.collect(RawBatch(f"events/{unit}", "records", lines, places, {"offset": start + 11}))
        one.positions.advance(f"events/{unit}", {"offset": start + 11}, 11, None)
        changes = one.stage([f"events/{unit}"])
        one.write(changes, lambda: True)
        one.committed(changes)


def follower(settings: RunSettings, stack: ExitStack) -> tuple[StoreReader, Publisher]:
    publisher = Publisher()
    reader = StoreReader(settings.store, lambda meta: settings, publisher, judges=True)
    return stack.enter_context(closing(reader)), publisher


def _unsent(settings: RunSettings) -> Any:
    with closing(LockedTables(settings.store, ALERTS_UNIT)) as tables:
        (text,) = tables.execute("SELECT state FROM alerts").fetchone() or ("{}",)
    return json.loads(text)["unsent"]


def state(publisher: Publisher) -> str:
    (alert,) = publisher.current().alerts
    return alert.state


def test_one_process_judges_and_another_goes_on_where_it_ended(
    postgres: Postgres, tmp_path: Path
) -> None:
    hook = Receiver()

    def posted() -> tuple[int, str]:
        body = hook.next()[2]
        return body["number"], body["event"]

    more = MORE.format(url=f"http://{hook.address}/")
    text = CONFIG.format(store=postgres.address("alerts"), more="") + more
    settings = settings_from_text(text)
    with ExitStack() as stack:
        stack.callback(hook.close)
        for unit in "01":
            count(settings, unit, right=False, start=0)
        first, seen = follower(settings, stack)
        second, also_seen = follower(settings, stack)
        first.read()
        second.read()
        assert posted() == (1, "firing")
        data = also_seen.current()
        # The numbers of both workers, merged.
        assert data.checkpoint.events == 20
        assert [one.partition for one in data.partitions] == ["events/0", "events/1"]
        assert (data.quarantine.total, data.quarantine.kept) == (2, 2)
        assert data.partitions[0].lag is None
        # The second one shows what the first has written.
        assert (state(seen), state(also_seen)) == ("firing", "firing")
        assert first._shared._tables is not None
        # That it was posted is written at the next look.
        until = time.monotonic() + 60
        while _unsent(settings):
            assert time.monotonic() < until
            first.read()
        # The first one dies: its session ends, and nothing else.
        first._shared._tables.close()
        count(settings, "1", right=True, start=11)
        count(settings, "0", right=True, start=11)
        second.read()
        assert state(also_seen) == "ok"
        assert second._states.evaluators["all"]["accuracy"] == 0.5
        assert posted() == (2, "resolved")
        # It has lost the lock, and with it the right to write.
        first.read()
        first.read()
        assert state(seen) == "ok"
        # A reader without the configuration has the same states, and never judges.
        reader = StoreReader(settings.store, partial(kept_settings, settings.store), Publisher())
        with closing(reader):
            reader.read()
            assert reader._shared is None
    assert hook.came.empty()
