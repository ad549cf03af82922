"""The sources that a configuration names, opened where the last checkpoint left them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from streameval.stream.batch import Opening, Position, Source
from streameval.stream.config.secrets import secret
from streameval.stream.config.settings import RunSettings
from streameval.stream.store import inbox_of

__all__ = ["ending", "open_sources"]


def open_sources(
    settings: RunSettings,
    positions: Mapping[str, Position],
    resolve: Callable[[str, str], str] = secret,
) -> list[Source]:
    """Every source of a run; the caller closes them.

    Args:
        settings: The run's.
        positions: Where each partition is to be read on.
        resolve: From ``env:NAME`` or ``file:PATH``, and the key it is the value of, to the secret.

    Raises:
        ConfigError, SourceError, StoreError: One of them cannot be opened; none is open then.
        MissingExtraError: The client of one is not installed.
    """
    timed = settings.join is not None or any(
        window.length is not None or window.half_life is not None for window in settings.window
    )
    opening = Opening(
        positions, resolve, settings.fields.time is None and timed, inbox_of(settings.store)
    )
    opened: list[Source] = []
    try:
        for source in settings.sources.values():
            opened += source.open(opening)
    except BaseException:
        for one in opened:
            one.close()
        raise
    return opened


def ending(settings: RunSettings) -> RunSettings:
    """The settings with sources that end when all has been read."""
    tables = {name: source.ending() for name, source in settings.sources.items()}
    return msgspec.structs.replace(settings, **tables)
