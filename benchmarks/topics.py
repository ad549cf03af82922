"""Topics to measure with: filled fast, and read by the shortest loop there is."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

__all__ = ["bare_loop", "fill"]

_CALL = 1_000


class _Record(msgspec.Struct, gc=False):
    id: str
    score: float = 0.0
    y_true: bool = False


def fill(bootstrap: str, topic: str, records: Iterable[bytes], partition: int = 0) -> int:
    """Produce records to one partition; how many they were."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "enable.idempotence": False,
        }
    )
    count = 0
    for record in records:
        while True:
            try:
                producer.produce(topic, record, partition=partition)
                break
            except BufferError:
                producer.poll(0.05)
        count += 1
    assert producer.flush(120) == 0
    return count


def bare_loop(bootstrap: str, topic: str, records: int) -> float:
    """Seconds to consume and decode so many records, and to do nothing with them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bare",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    decode = msgspec.json.Decoder(_Record).decode
    # The first messages come after the connection; it is not what is measured.
    seen = len(consumer.consume(_CALL, 10))
    begun = time.perf_counter()
    start = seen
    while seen < records:
        values = [decode(message.value()) for message in consumer.consume(_CALL, 0.1)]
        seen += len(values)
    seconds = time.perf_counter() - begun
    consumer.close()
    return seconds * records / (records - start)
