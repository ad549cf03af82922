"""The settings of a run in its store: for readers without the file, and for a group of workers.

The settings of a group have a *generation*, the number of its changes of settings. A worker
that is started brings a change if no worker had these settings before, or if its own file had
others when it was last started. Otherwise earlier settings are a leftover: the file of a worker
that is restarted in the middle of a rolling update.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

import msgspec

from streameval.errors import StoreError
from streameval.service.config.evaluators import fingerprint
from streameval.service.config.load import resolved, settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.store.dialect import SET_META, decoded
from streameval.service.store.postgres import LockedTables, PostgresStore, open_unclaimed
from streameval.service.store.store import Store

SETTINGS = "run.settings"
"""The key in ``meta`` of the settings, as the text of a configuration."""

_WINDOW_ORDER = "windows"
"""The key in ``meta`` with the names of the windows in the order of the settings. What the counts
depend on does not include it: windows may be reordered, and their counts stay."""

_GENERATION = "run.generation"
"""The key in ``meta`` of the generation of the settings that a unit of a group was opened with."""

_GROUP = "group.settings"
_GROUP_UNIT = "settings"
"""The unit of a shared store with the settings of its group; no worker claims it."""

_Found = TypeVar("_Found")

_FILES = 1000
"""Files that are remembered: containers have new names at each start."""


def keep_settings(store: Store, settings: RunSettings, generation: int = 0) -> None:
    """Write the settings of a run to its store where it has others; raises StoreError."""
    # Without secrets: the address of the store may hold a password, and the webhook is one.
    public = msgspec.structs.replace(
        settings,
        store=RunSettings().store,
        webhook=None,
        serve=msgspec.structs.replace(settings.serve, token=None),
    )
    _keep(
        store, {SETTINGS: resolved(public)} | ({_GENERATION: str(generation)} if generation else {})
    )


def keep_window_order(store: Store, names: Sequence[str]) -> None:
    """Write the order of the windows to a store, where it has another one; raises StoreError."""
    _keep(store, {_WINDOW_ORDER: msgspec.json.encode(names).decode()})


def _keep(store: Store, properties: Mapping[str, str]) -> None:
    meta = store.meta()
    if any(meta.get(key) != text for key, text in properties.items()):
        with store.transaction():
            for key, text in properties.items():
                store.set_meta(key, text)


def _generation_of(meta: Mapping[str, str]) -> int:
    """The generation of the settings that a unit has; 0 without a group."""
    text = meta.get(_GENERATION, "")
    return int(text) if text.isdecimal() else 0


def newest_first(metas: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The units of a store, from their properties: those of the newest settings first."""
    # A unit that was claimed a moment ago has no settings yet; it is among the last.
    return sorted(
        metas, key=lambda unit: (-_generation_of(metas[unit]), SETTINGS not in metas[unit])
    )


def in_window_order(found: Mapping[str, _Found], meta: Mapping[str, str]) -> dict[str, _Found]:
    """Values by window, its predictions behind it, in the order of the settings, then by name."""
    try:
        order = msgspec.json.decode(meta.get(_WINDOW_ORDER, "[]"), type=list[str])
    except msgspec.MsgspecError:
        order = []
    place = {name: n for n, name in enumerate(order)}
    names = sorted(found, key=lambda name: (place.get(name.partition(":")[0], len(place)), name))
    return {name: found[name] for name in names}


def unconverted_text(units: Sequence[str]) -> str:
    """The note that units have yet to be converted."""
    names = ", ".join(units)
    return (
        f"the partitions {names} have earlier settings until a worker opens them, and are shown as "
        "under the newest"
    )


def kept_settings(path: str, meta: Mapping[str, str], overrides: Sequence[str] = ()) -> RunSettings:
    """The settings that a store holds."""
    text = meta.get(SETTINGS)
    if text is None:
        raise StoreError(
            f"{path}: holds no settings, because an older release wrote it; give the "
            "configuration of its run with --config"
        )
    # What exists where the run is, as its files, need not exist here.
    return settings_from_text(text, path, overrides, check=lambda settings: None)


class SupersededError(StoreError):
    """The group of a worker has newer settings; nothing is wrong, and the worker ends."""


class GroupSettings(msgspec.Struct):
    """The settings that a group has had, by a mark of each; the last ones are the group's."""

    marks: list[str] = []
    files: dict[str, str] = {}
    """From each file of settings to the mark that it had when a worker was last started with it."""

    @property
    def generation(self) -> int:
        """The number of changes, from 1 on; 0 before the first worker."""
        return len(self.marks)

    def adopt(self, mark: str, file: str, *, returns: bool = False) -> bool:
        """Whether the settings of a worker are the group's, already or from now on."""
        before = self.files.pop(file, None)
        self.files[file] = mark
        for other in list(self.files)[:-_FILES]:
            del self.files[other]
        if self.marks[-1:] == [mark]:
            return True
        changes = returns or mark not in self.marks or before not in (None, mark)
        if changes:
            self.marks.append(mark)
        return changes


def _group_settings(text: str | None) -> GroupSettings:
    if text is None:
        return GroupSettings()
    return decoded(text, GroupSettings, "the settings of the group are")


def join_group(
    settings: RunSettings, file: str, *, check: Callable[[], None], confirmed: Callable[[], bool]
) -> int:
    """The generation of a worker's settings, which become its group's where they are a change."""
    values = msgspec.json.encode(fingerprint(settings), order="sorted")
    mark = hashlib.sha256(values).hexdigest()[:16]
    with closing(open_unclaimed(settings.store, _GROUP_UNIT)) as store:
        group = _group_settings(store.property_of(_GROUP_UNIT, _GROUP))
        known = group.generation
        # A container has another name at each start: it may be all that there is of the group.
        returns = file not in group.files and not store.is_held()
        if not group.adopt(mark, file, returns=returns) and confirmed():
            returns = group.adopt(mark, file, returns=True)
        if group.generation > known:
            check()
    with closing(LockedTables(settings.store, _GROUP_UNIT)) as tables:
        while not tables.locked():
            time.sleep(0.05)
        row = tables.execute("SELECT value FROM meta WHERE key = ?", (_GROUP,)).fetchone()
        group = _group_settings(None if row is None else row[0])
        adopted = group.adopt(mark, file, returns=returns)
        tables.execute(SET_META, (_GROUP, msgspec.json.encode(group).decode()))
    if not adopted:
        raise SupersededError(
            f"{store.path}: the group has newer settings, of generation {group.generation}: this "
            "worker ends without a partition; to return to its settings, add --drop settings"
        )
    return group.generation


def check_generation(store: Store, generation: int) -> None:
    """Raise SupersededError where the group has newer settings than those of a generation."""
    if not generation:
        return
    assert isinstance(store, PostgresStore)
    text = store.property_of(_GROUP_UNIT, _GROUP)
    newest = _group_settings(text).generation
    if newest > generation:
        raise SupersededError(
            f"{store.path}: the group has newer settings, of generation {newest}: this worker has "
            f"those of {generation}, takes no further partition, and ends after a checkpoint"
        )
