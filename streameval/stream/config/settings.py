"""The settings of a run: the tables and keys of its configuration file, typed.

Durations are texts such as ``"5m"``; field paths are written as for files
(``"meta.score"``). How a file becomes settings is in :mod:`streameval.stream.config.load`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from streameval.stream.batch import SourceSettings
from streameval.stream.sources.files import FilesSettings
from streameval.stream.sources.inbox import HttpSettings
from streameval.stream.sources.kafka import KafkaSettings
from streameval.windows.kinds import KINDS

__all__ = [
    "AlertSettings",
    "Duration",
    "DurationOrZero",
    "CheckpointSettings",
    "EvaluatorSettings",
    "FieldSettings",
    "FilesSettings",
    "HttpSettings",
    "JoinSettings",
    "KafkaSettings",
    "LABEL_COVERAGE",
    "LONGEST_AHEAD",
    "LabelFieldSettings",
    "QuarantineSettings",
    "RunSettings",
    "ServeSettings",
    "WebhookSettings",
    "WindowSettings",
]


LABEL_COVERAGE = "label_coverage"
"""The name by which an alert watches the share of mature predictions that have a label."""

LONGEST_AHEAD = "1d"
"""How far ahead of the clock a record's time may be where ``fields.ahead`` is not set."""


Duration: TypeAlias = Annotated[str, "duration"]
DurationOrZero: TypeAlias = Annotated[str, "duration or zero"]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
PositiveCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class EvaluatorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The task, metrics and slices; as the arguments of :class:`streameval.Evaluator`."""

    task: Literal["binary", "multiclass"] = "binary"
    positive: str | int | bool = True
    threshold: float = 0.5
    labels: list[str | int] | None = None
    metrics: list[str] | None = None
    """Metrics that are published; None is the task's usual list."""
    bins: int = 10
    slices: list[str | list[str]] = []
    max_slices: int = 10_000


class _NamedWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A window that is kept and published under a name of its own.

    The other keys are those of :data:`streameval.windows.kinds.KINDS`, each None unless given:
    the first key of a kind selects it, and without one all events count.
    """

    name: str


if TYPE_CHECKING:
    WindowSettings = _NamedWindow
else:
    _KEY_TYPES = {"duration": Duration, "duration or zero": DurationOrZero, "count": PositiveCount}
    WindowSettings = msgspec.defstruct(
        "WindowSettings",
        [
            (key.name, _KEY_TYPES[key.type] | None, None)
            for kind in KINDS.values()
            for key in kind.keys
        ],
        bases=(_NamedWindow,),
        module=__name__,
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )


class LabelFieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Paths of the fields in a label's record; None: as in a prediction's record."""

    id: str | None = None
    y_true: str | None = None
    time: str | None = None


class FieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dotted paths of a record's fields."""

    id: str | None = None
    """Needed for the join."""
    y_true: str | None = "y_true"
    y_pred: str | None = None
    score: str | None = None
    proba: str | None = None
    weight: str | None = None
    time: str | None = None
    """None: the broker's or the inbox's time stamp, or for files the time of reading."""
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    ahead: DurationOrZero | None = None
    """A time further ahead of the clock than this is a fault: it would make all others late.
    None: a day, or what :func:`streameval.stream.config.evaluators.ahead_limit` allows."""
    slices: dict[str, str] = {}
    """From a slice's key to its path, where the two differ."""
    label: LabelFieldSettings = LabelFieldSettings()


class JoinSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How predictions and labels are joined."""

    wait: Duration = "24h"
    """Largest difference in time between a prediction and a label that is counted."""
    remember: DurationOrZero | None = None
    """For how long after ``wait`` duplicates and corrections are recognised; None is ``wait``."""
    hot: PositiveCount = 500_000
    """Most entries that are held in memory; the rest is on disk."""


class CheckpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When counts become durable and visible."""

    every: Duration = "1s"
    events: PositiveCount = 50_000


class QuarantineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much is kept of records that cannot be counted."""

    keep: Count = 10_000
    max_bytes: Count = 4096


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The address of the pages, the API and the metrics."""

    enabled: bool = True
    listen: str = "127.0.0.1:8642"
    token: str | None = None
    """``env:NAME`` or ``file:PATH``; needed for any address but loopback."""
    max_slices_exposed: Count = 200
    """Most slices (by support) in ``/metrics``."""
    ready_lag: Count = 100_000
    ready_checkpoint_age: Duration = "30s"


class AlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A bound on a metric."""

    name: str
    metric: str
    below: float | None = None
    above: float | None = None
    window: str | None = None
    """None is the first window."""
    slice: dict[str, str | int] = {}
    min_support: PositiveCount = 1
    for_: DurationOrZero = msgspec.field(default="0s", name="for")


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where alerts are posted to."""

    url: str
    token: str | None = None
    timeout: Duration = "5s"
    retries: Count = 5


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole configuration."""

    store: str = "streameval.db"
    evaluator: EvaluatorSettings = EvaluatorSettings()
    window: list[WindowSettings] = msgspec.field(
        default_factory=lambda: [WindowSettings(name="all")]
    )
    fields: FieldSettings = FieldSettings()
    # A source is one row here and one module in streameval.stream.sources.
    files: FilesSettings | None = None
    http: HttpSettings | None = None
    kafka: KafkaSettings | None = None
    join: JoinSettings | None = None
    """None: every record holds its label, and no id is kept."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    serve: ServeSettings = ServeSettings()
    alert: list[AlertSettings] = []
    webhook: WebhookSettings | None = None

    @property
    def sources(self) -> dict[str, SourceSettings]:
        """The tables of the sources that records are read from, by name.

        >>> list(RunSettings(http=HttpSettings()).sources)
        ['http']
        """
        tables = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: one for name, one in tables.items() if isinstance(one, SourceSettings)}
