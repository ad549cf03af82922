"""The settings of a run in its store, for processes that read the store without the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from streameval.errors import StoreError
from streameval.service.config.load import resolved, settings_from_text
from streameval.service.config.settings import RunSettings
from streameval.service.store.store import Store

SETTINGS = "run.settings"
"""The key in ``meta`` of the settings, as the text of a configuration."""


def keep_settings(store: Store, settings: RunSettings) -> None:
    """Write the settings of a run to its store, without secrets, where it has others.

    Left out are also the address of the store, which may hold a password, and the webhook.

    Raises:
        StoreError: The store cannot be read or written.
    """
    public = msgspec.structs.replace(
        settings,
        store=RunSettings().store,
        webhook=None,
        serve=msgspec.structs.replace(settings.serve, token=None),
    )
    text = resolved(public)
    if store.meta().get(SETTINGS) != text:
        with store.transaction():
            store.set_meta(SETTINGS, text)


def kept_settings(path: str, meta: Mapping[str, str], overrides: Sequence[str] = ()) -> RunSettings:
    """The settings that a store holds.

    Args:
        path: Of the store, for errors.
        meta: The store's properties.
        overrides: ``KEY=VALUE`` each.

    Raises:
        StoreError: It holds none.
        ConfigError: An override is wrong.
    """
    text = meta.get(SETTINGS)
    if text is None:
        raise StoreError(
            f"{path}: holds no settings, because an older release wrote it; give the "
            "configuration of its run with --config"
        )
    # What exists where the run is, as its files, need not exist here.
    return settings_from_text(text, path, overrides, check=lambda settings: None)
