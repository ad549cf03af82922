"""Opens Kafka as a source.

The client is an extra, so the modules that use it are imported when the source opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.service.config.source_settings import KafkaSettings
from streameval.service.sources.interleaving import interleaved
from streameval.service.sources.raw import Opening, Source

if TYPE_CHECKING:
    from streameval.service.sources.kafka_group import HeldUnits, KafkaGroup


def open_group(
    settings: KafkaSettings, units: HeldUnits, opening: Opening, owner: str
) -> KafkaGroup:
    """The source of a worker that the group of the evaluation ``owner`` assigns partitions to."""
    from streameval.service.sources.kafka_group import KafkaGroup

    return KafkaGroup(settings, units, secret=opening.resolve, stamps=opening.stamps, owner=owner)


def open_kafka(settings: KafkaSettings, opening: Opening) -> list[Source]:
    """One source; two topics are read by a consumer each."""
    from streameval.service.sources.kafka_consumer import sources_by_topic

    return [
        interleaved(
            sources_by_topic(
                settings, opening.positions, secret=opening.resolve, stamps=opening.stamps
            )
        )
    ]
