"""The order of the windows, which a store keeps for those who read it without the settings.

What counts rest on does not tell it: windows may be put in another order, and
their counts stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from streameval.stream.config.settings import RunSettings
from streameval.stream.store import Store

__all__ = ["in_window_order", "keep_window_order"]

_KEY = "windows"

_Found = TypeVar("_Found")


def keep_window_order(store: Store, settings: RunSettings) -> None:
    """Note the order of the settings in a store, where it has another one.

    Raises:
        StoreError: The store cannot be read or written.
    """
    order = msgspec.json.encode([window.name for window in settings.window]).decode()
    if store.meta().get(_KEY) != order:
        with store.transaction():
            store.set_meta(_KEY, order)


def in_window_order(found: Mapping[str, _Found], store: Store) -> dict[str, _Found]:
    """What was found for each window, in the order of the last run's settings.

    A store that tells no order, or one that does not have them all, is no
    reason to leave one out: the others follow by name.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        order = msgspec.json.decode(store.meta().get(_KEY, "[]"), type=list[str])
    except msgspec.MsgspecError:
        order = []
    names = dict.fromkeys([*order, *sorted(found)])
    return {name: found[name] for name in names if name in found}
