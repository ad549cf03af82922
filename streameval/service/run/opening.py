"""Opens a store, or a unit of it, under the settings of a run, to which it is converted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from functools import partial
from typing import TypeAlias

from streameval.errors import ConfigError
from streameval.events.time import wall_time
from streameval.service.closing import closed_on_error
from streameval.service.config.evaluators import fingerprint, with_stored_defaults
from streameval.service.config.settings import RunSettings
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.join.label_join import open_join
from streameval.service.run.unit import Unit
from streameval.service.store.dialect import ONE_UNIT, Connection
from streameval.service.store.kept_settings import (
    check_generation,
    keep_settings,
    keep_window_order,
)
from streameval.service.store.store import Store, each_unit, open_store, read_store
from streameval.service.upkeep.settings_migration import (
    SettingsMigration,
    migration_of,
    stored_retention,
)

log = logging.getLogger("streameval.run")

_LONGEST_RECORD = 1 << 20

Drop: TypeAlias = Callable[[Mapping[str, str]], Collection[str]]
"""From what the settings no longer have (name -> what would be lost) to the names that may be
dropped."""


def open_settled(
    settings: RunSettings,
    drop: Drop,
    unit: str = ONE_UNIT,
    worker: str | None = None,
    sibling: Store | None = None,
    generation: int = 0,
) -> tuple[RunSettings, Store]:
    """A store or one of its units, open for writing; and the settings with its defaults."""
    store = open_store(
        settings.store,
        fingerprint(settings),
        migrate=partial(_migrate, settings, drop, generation),
        unit=unit,
        worker=worker,
        sibling=sibling,
    )
    with closed_on_error(store):
        check_generation(store, generation)
        settings = with_stored_defaults(settings, stored_retention(store.meta()))
        keep_window_order(store, [window.name for window in settings.window])
        keep_settings(store, settings, generation)
    return settings, store


def open_unit(
    drop: Drop,
    settings: RunSettings,
    unit: str = ONE_UNIT,
    worker: str | None = None,
    sibling: Store | None = None,
    *,
    generation: int = 0,
) -> Unit:
    """A store, or one of its units, claimed for a worker, restored and open for writing.

    ``sibling`` is the store of another unit of the worker, whose connection is shared;
    ``generation`` the generation of the settings, 0 without a group. Raises ConfigError where the
    store refuses the settings, SupersededError where the group has newer ones, and StoreError.
    """
    settings, store = open_settled(settings, drop, unit, worker, sibling, generation)
    with closed_on_error(store):
        join = open_join(settings, store, time.monotonic, wall_time)
        longest = 0 if settings.http is None else settings.http.max_line_bytes
        decoder = RecordDecoder(
            settings.fields, settings.evaluator, join is not None, max(_LONGEST_RECORD, longest)
        )
        return Unit(settings, store, decoder, join=join)


def check_units(settings: RunSettings, drop: Drop) -> None:
    """Raise ConfigError where a unit of a shared store cannot be brought to these settings."""
    with closing(read_store(settings.store)) as store, store.reading() as connection:
        for _ in each_unit(store):
            _migration(store.path, connection, settings, drop)


def _migration(
    path: str, connection: Connection, settings: RunSettings, drop: Drop
) -> SettingsMigration:
    """The effect of the settings on a store; raises ConfigError where it is not confirmed."""
    found = migration_of(path, connection, settings, time.time_ns() // 1_000)
    kept = found.drops.keys() - set(drop(found.drops)) if found.drops else ()
    if kept:
        what = " and ".join(found.drops[name] for name in sorted(kept))
        options = " ".join(f"--drop {name}" for name in sorted(kept))
        raise ConfigError(f"{path}: {what} would be dropped; to confirm, add {options}")
    return found


def _migrate(settings: RunSettings, drop: Drop, generation: int, store: Store) -> Mapping[str, str]:
    """Bring a store to the settings, and return their fingerprint there."""
    # A worker with newer settings claims the unit before it converts it, so this one either sees
    # these settings or writes nothing.
    check_generation(store, generation)
    with store.reading() as connection:
        found = _migration(store.path, connection, settings, drop)
    if found.changed:
        found.apply(store)
    for line in found.lines:
        log.info("%s: %s", store.path, line)
    for text in found.drops.values():
        log.info("%s: dropped: %s", store.path, text)
    return fingerprint(found.settings)
