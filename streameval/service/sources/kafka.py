"""The source Kafka: its table in the configuration, which opens it.

The client is an extra, so what uses it is in a module that is imported when the source opens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streameval.service.sources.kafka_topics import KafkaTopics
from streameval.service.sources.raw import Opening, Source
from streameval.service.sources.turns import PredictionsFirst

if TYPE_CHECKING:
    from streameval.service.sources.kafka_group import HeldUnits, KafkaGroup


class KafkaSettings(KafkaTopics, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Topics; either one of all ``records``, or two."""

    def open_group(self, units: HeldUnits, opening: Opening, owner: str) -> KafkaGroup:
        """The source of a worker that the group assigns partitions to.

        Args:
            units: Opens and closes what it keeps of each partition number.
            opening: As :meth:`open` takes it, without positions.
            owner: The name of the evaluation, which no other one has.
        """
        # Imported only when it is used: its client is an extra.
        from streameval.service.sources.kafka_group import KafkaGroup

        return KafkaGroup(self, units, secret=opening.resolve, stamps=opening.stamps, owner=owner)

    def open(self, opening: Opening) -> list[Source]:
        """One source; two topics are read by a consumer each."""
        # Imported only when it is used: its client is an extra.
        from streameval.service.sources.kafka_consumer import KafkaSource

        opened: list[Source] = []
        try:
            for one in self.by_topic():
                opened.append(
                    KafkaSource(
                        one, opening.positions, secret=opening.resolve, stamps=opening.stamps
                    )
                )
        except BaseException:
            for source in opened:
                source.close()
            raise
        return opened if len(opened) == 1 else [PredictionsFirst(*opened)]
