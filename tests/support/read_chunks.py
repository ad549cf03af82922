"""What a reader of files gives: values by field, lines of records, and the records refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streameval.records.chunk import Chunk, FieldRequest, RecordError
from streameval.records.event_columns import plain_values

LABEL, SCORE = FieldRequest("label", "label"), FieldRequest("score", "number")


class Chunks:
    """All chunks of a file."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self.chunks = list(chunks)

    def __getitem__(self, path: str) -> list[Any]:
        return [value for one in self.chunks for value in plain_values(one.events.columns[path])]

    @property
    def lines(self) -> list[int]:
        return [int(line) for one in self.chunks for line in one.events.places]

    @property
    def bad(self) -> list[RecordError]:
        return [record for one in self.chunks for record in one.bad.first]

    @property
    def refused(self) -> int:
        return sum(one.bad.count for one in self.chunks)
