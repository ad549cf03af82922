"""Sources of records: files, posts and Kafka topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streameval.service.config.source_settings import (
    FilesSettings,
    HttpSettings,
    KafkaSettings,
    SourceSettings,
)
from streameval.service.sources.files import open_files
from streameval.service.sources.inbox import open_inbox
from streameval.service.sources.interleaving import interleaved
from streameval.service.sources.raw import Source, SourceContext


def open_kafka(settings: KafkaSettings, context: SourceContext) -> Source:
    """One source; two topics are read by a consumer each."""
    # Imported only when it is used: the client is an extra.
    from streameval.service.sources.kafka_consumer import sources_by_topic

    return interleaved(
        sources_by_topic(settings, context.positions, secret=context.resolve, stamps=context.stamps)
    )


OPENERS: dict[type, Callable[[Any, SourceContext], Source]] = {
    FilesSettings: open_files,
    HttpSettings: open_inbox,
    KafkaSettings: open_kafka,
}
"""The function that opens a source, by the type of its table in the configuration."""


def open_source(settings: SourceSettings, context: SourceContext) -> Source:
    """The source that a table describes; nothing is open after an error."""
    return OPENERS[type(settings)](settings, context)
