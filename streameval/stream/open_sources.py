"""The sources that a configuration names, opened where the last checkpoint left them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from streameval.stream.batch import Position, Source
from streameval.stream.secret_values import secret
from streameval.stream.settings import KafkaSettings, RunSettings
from streameval.stream.sources.files import FilesSource
from streameval.stream.sources.inbox import Inbox, InboxSource
from streameval.stream.sources.predictions_first import PredictionsFirst

__all__ = ["open_sources"]


def open_sources(
    settings: RunSettings,
    positions: Mapping[str, Position],
    inbox: Inbox | None,
    resolve: Callable[[str, str], str] = secret,
) -> list[Source]:
    """Every source of a run; to be closed by the caller.

    Args:
        settings: The run's.
        positions: Where each partition is to be read on.
        inbox: Where posts arrive; None without ``[http]``.
        resolve: What ``env:`` and ``file:`` stand for, by value and key.

    Raises:
        ConfigError, SourceError: One of them cannot be opened; none is open then.
        MissingExtraError: Kafka is wanted, and its client is not installed.
    """
    opened: list[Source] = []
    try:
        if settings.files is not None:
            opened.append(FilesSource(settings.files, positions))
        if inbox is not None:
            opened.append(InboxSource(inbox, positions))
        if settings.kafka is not None:
            # Imported only where it is wanted: its client is an extra.
            from streameval.stream.sources.kafka import KafkaSource

            stamps = settings.fields.time is None and _needs_time(settings)
            topics = []
            for one in _topics(settings.kafka):
                topics.append(KafkaSource(one, positions, secret=resolve, stamps=stamps))
                opened.append(topics[-1])
            if len(topics) == 2:
                opened[-2:] = [PredictionsFirst(*topics)]
    except BaseException:
        for source in opened:
            source.close()
        raise
    return opened


def _topics(settings: KafkaSettings) -> list[KafkaSettings]:
    """One or two, each of one topic."""
    if settings.predictions is None or settings.labels is None:
        return [settings]
    return [replace(settings, labels=None), replace(settings, predictions=None)]


def _needs_time(settings: RunSettings) -> bool:
    """Whether anything goes by the time of events."""
    timeless = all(window.length is None and window.half_life is None for window in settings.window)
    return settings.join is not None or not timeless
