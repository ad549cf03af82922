"""The settings of a run: the tables and keys of its configuration file, typed.

Durations are texts such as ``"5m"``; field paths are written as for files
(``"meta.score"``). A table's ``template`` explains its keys; it is the table's part of the file
that ``streameval init`` writes. A file becomes settings in :mod:`streameval.service.config.load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import msgspec

from streameval.service.sources.files import FilesSettings
from streameval.service.sources.inbox import HttpSettings
from streameval.service.sources.kafka import KafkaSettings
from streameval.service.sources.raw import SourceSettings
from streameval.tasks.registry import task_names
from streameval.windows.kinds import KINDS

LABEL_COVERAGE = "label_coverage"
LAG = "lag"
VOLUME = "volume"
QUARANTINE = "quarantine"
RUN_METRICS: Mapping[str, str] = {
    LABEL_COVERAGE: "the share of mature predictions that have a label",
    LAG: "what is left to read, in all partitions",
    VOLUME: "the number of records that were read lately",
    QUARANTINE: "the share of the records read lately that could not be counted",
}
"""What alerts watch besides metrics: numbers of the run, not of a window or slice."""

LATELY = "5m"
"""The span of the clock that volume and quarantine are about where ``alert.per`` is not set."""

LONGEST_AHEAD = "1d"
"""How far ahead of the clock a record's time may be where ``fields.ahead`` is not set."""


Duration: TypeAlias = Annotated[str, "duration"]
DurationOrZero: TypeAlias = Annotated[str, "duration or zero"]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
PositiveCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
ScoreLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1024)] | Literal["exact"]

EXACT: Literal["exact"] = "exact"
"""The value of ``max_scores`` with which all scores are kept."""

DEFAULT_MAX_SCORES = 65_536
"""The limit of distinct scores of a new window whose settings have none."""


if TYPE_CHECKING:
    TaskChoice: TypeAlias = str
else:
    TaskChoice = Literal[task_names()]


class EvaluatorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The task, metrics and slices; as the arguments of :class:`streameval.Evaluator`."""

    task: TaskChoice = "binary"
    positive: str | int | bool = True
    threshold: float = 0.5
    labels: list[str | int] | None = None
    metrics: list[str] | None = None
    bins: int = 10
    probabilities: bool = True
    """Whether ``fields.proba`` holds probabilities; else any scores of each of ``labels``."""
    slices: list[str | list[str]] = []
    max_slices: int = 10_000
    max_scores: ScoreLimit | None = None
    """None: :data:`DEFAULT_MAX_SCORES` in a new window, and what a stored one was begun with."""
    models: list[str] | None = None
    """Names of the models that are compared, the reference first; None: there is one."""
    paired_scores: bool = False

    template: ClassVar[str] = """\
[evaluator]
# "binary" or "multiclass".
task = "binary"
# The label that counts as positive; true and 1 are one. Where it is text, name
# both labels below.
positive = true
# A score from here on is predicted positive.
threshold = 0.5
# All labels there are; others are refused.
#labels = [0, 1]
# The metrics that are kept and shown, as `streameval metrics` lists them; off,
# the usual ones are shown, and all can be queried.
#metrics = ["accuracy", "precision", "recall", "f1", "roc_auc", "log_loss"]
# Bins of the calibration curve.
#bins = 10
# false: fields.proba names an object of any scores, of each of labels.
#probabilities = true
# Fields to evaluate by as well. A list of fields is a combination of them.
#slices = ["country", ["country", "model"]]
# Largest number of slices; further ones are counted as "(other)".
#max_slices = 10000
# Most distinct scores that each window, pane and slice keeps; further ones are joined, and
# metrics of the ranking are shown with certain bounds. "exact": all are kept, and the
# memory grows with them.
#max_scores = 65536
# Several models of the same events: models = ["champion", "challenger"], the first is
# the reference; in [fields] score = { champion = "s1", challenger = "s2" }. With
# paired_scores = true the difference in roc_auc has an interval, and memory grows with
# the distinct pairs of scores.
"""


class _NamedWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A window that is kept and published under a name of its own.

    The other keys are those of :data:`streameval.windows.kinds.KINDS`, each None unless given:
    the first key of a kind selects it, and without one all events count.
    """

    name: str
    max_scores: ScoreLimit | None = None
    """None: that of ``[evaluator]``."""
    interval_sums: bool | None = None
    """Whether the sums are kept that intervals need where these do not follow from the counts.
    None: in a new window of a run with intervals, and in a stored one as it was begun."""

    template: ClassVar[str] = "\n".join(
        [
            *(kind.template for kind in KINDS.values() if kind.template),
            """\
# Keys of any window: its own max_scores, and whether the sums are kept that intervals need
# where scores are joined, weights are not whole, or events fade (off: in a run with
# intervals).
#max_scores = "exact"
#interval_sums = true
""",
        ]
    )


KEYS_OF_ANY_WINDOW = frozenset(_NamedWindow.__struct_fields__)
"""The keys of a ``[[window]]`` that do not say which events count."""

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
    y_true: str | None = "y_true"
    y_pred: str | dict[str, str] | None = None
    """Of several models a table from each of them to its field; so is ``score``."""
    score: str | dict[str, str] | None = None
    proba: str | None = None
    weight: str | None = None
    time: str | None = None
    time_unit: Literal["s", "ms", "us", "ns"] | None = None
    ahead: DurationOrZero | None = None
    slices: dict[str, str] = {}
    label: LabelFieldSettings = LabelFieldSettings()

    @property
    def paths(self) -> dict[str, str]:
        """Path of each field that is set, by its column; that of a model is ``score:MODEL``.

        >>> FieldSettings(y_true="label", score={"old": "s1", "new": "s2"}).paths
        {'y_true': 'label', 'score:old': 's1', 'score:new': 's2'}
        """
        found: dict[str, str] = {}
        for name in ("id", "y_true", "y_pred", "score", "proba", "weight", "time"):
            given = getattr(self, name)
            of_models = given if isinstance(given, dict) else {}
            found |= {f"{name}:{model}": path for model, path in of_models.items()}
            if isinstance(given, str):
                found[name] = given
        return found

    template: ClassVar[str] = """\
# A record is a JSON object. A dot in a path goes one level down: "meta.score".

[fields]
# What a label and its prediction share; needed for the join.
id = "id"
# The true label.
y_true = "y_true"
# The positive label's score, any number. In its place, proba = "proba" names an
# object from label to probability.
score = "score"
# The predicted label; off, it follows from score or proba.
#y_pred = "y_pred"
# A weight: a number of 0 or more. An event of weight 0 counts for nothing.
#weight = "weight"
# When it happened: ISO 8601 with an offset, or a number. Off, it is when Kafka or
# the inbox took the record; for files, when it is read.
#time = "time"
# What numbers count since 1970: "s", "ms", "us" or "ns".
#time_unit = "ms"
# A record whose time is further ahead of the clock is bad, because it would make
# all others late: at most half of join.wait, and a pane or half-life of each window;
# off, as much as that, and a day at most.
#ahead = "5m"

# Where the keys of slices are found, if not under their own names.
#[fields.slices]
#country = "meta.country"

# Where a label's own record has its fields, if not in the same places.
#[fields.label]
#id = "prediction_id"
#y_true = "truth"
#time = "labelled_at"
"""


class JoinSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How predictions and labels are joined."""

    wait: Duration = "24h"
    remember: DurationOrZero | None = None
    hot: PositiveCount = 500_000

    template: ClassVar[str] = """\
# Without [join], only records that hold their label count.

[join]
# A label counts if it is at most so much younger, or older, than its prediction.
wait = "24h"
# For how long after that duplicates and corrections are recognised; off, as wait.
#remember = "24h"
# Most entries in memory; the rest is on disk.
#hot = 500000
"""


class CheckpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When counts become durable and visible."""

    every: Duration = "1s"
    events: PositiveCount = 50_000

    template: ClassVar[str] = """\
# When what was counted becomes durable and visible: so often, or after so many
# events if that is sooner.
[checkpoint]
#every = "1s"
#events = 50000
"""


class QuarantineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much is kept of records that cannot be counted."""

    keep: Count = 10_000
    max_bytes: Count = 4096

    template: ClassVar[str] = """\
# Records that cannot be counted: how many are kept, and how much of each.
[quarantine]
#keep = 10000
#max_bytes = 4096
"""


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The address of the pages, the API and the metrics."""

    enabled: bool = True
    listen: str = "127.0.0.1:8642"
    token: str | None = None
    max_slices_exposed: Count = 200
    ready_lag: Count = 100_000
    ready_checkpoint_age: Duration = "30s"
    live_age: Duration = "2m"
    probes: str | None = None
    read_every: Duration = "1s"

    template: ClassVar[str] = """\
[serve]
# Pages, API and /metrics.
#enabled = true
# Host and port; port 0 is any free one. Any address but loopback needs the token.
listen = "127.0.0.1:8642"
# Requests send it as "Authorization: Bearer".
#token = "env:STREAMEVAL_TOKEN"
# Most slices in /metrics, those of most support.
#max_slices_exposed = 200
# /caughtup answers 503 while more records than this wait to be read, or while the last
# checkpoint is older than this.
#ready_lag = 100000
#ready_checkpoint_age = "30s"
# /livez answers 503 when the run has made no step for so long.
#live_age = "2m"
# A further address that answers /livez and /readyz alone, without the token, also where
# enabled is false.
#probes = "0.0.0.0:8643"
# How often streameval serve reads the store.
#read_every = "1s"
"""


class AlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A bound on a metric."""

    name: str
    metric: str
    below: float | None = None
    above: float | None = None
    when: Literal["value", "certain", "anytime"] = "value"
    level: float | None = None
    against: Literal["previous"] | None = None
    reference: str | None = None
    model: str | None = None
    window: str | None = None
    slice: dict[str, str | int] | Literal["any"] = {}
    min_support: PositiveCount = 1
    for_: DurationOrZero = msgspec.field(default="0s", name="for")
    per: Duration | None = None

    template: ClassVar[str] = """\
#[[alert]]
#name = "f1-low"
#metric = "f1"
# It fires below this; above = 0.2 would fire above that.
#below = 0.8
# "value" compares the value; "certain" its whole confidence interval, so that noise
# seldom fires; "anytime" an interval that holds at every look, so that false alarms
# over the whole life of the alert stay under 1 - level (a window of all events only).
#when = "certain"
# Of that interval; off, as intervals.
#level = 0.99
# Off, the first window.
#window = "hour"
# Off, all events; "any": each slice, with a correction for their number.
#slice = { country = "PT" }
# With less support than this the value is not judged.
#min_support = 1000
# For how long it has to be so.
#for = "10m"

# The bound is of the difference to the same window one length earlier. In its place,
# reference = "last-month.state" names a state file to compare with; of several models
# model = "challenger" compares it with the first one.
#[[alert]]
#name = "f1-fell"
#metric = "f1"
#below = -0.02
#window = "hour"
#against = "previous"

# Besides metrics: label_coverage, lag, volume (records read: below = 1 is silence) and
# quarantine (the share of records that could not be counted); the last two of the time
# per, off: 5m.
#[[alert]]
#name = "many-bad"
#metric = "quarantine"
#above = 0.01
#per = "10m"
"""


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where alerts are posted to."""

    url: str
    token: str | None = None
    timeout: Duration = "5s"
    retries: Count = 5

    template: ClassVar[str] = """\
# Where alerts are posted to.
#[webhook]
#url = "https://hooks.example.com/streameval"
# Sent as "Authorization: Bearer".
#token = "file:/run/secrets/webhook"
#timeout = "5s"
# After 1, 2, 4 ... seconds.
#retries = 5
"""


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole configuration."""

    store: str = "streameval.db"
    intervals: float | bool = 0.95
    """The level of the published confidence intervals; False: there are none."""
    evaluator: EvaluatorSettings = EvaluatorSettings()
    window: list[WindowSettings] = msgspec.field(
        default_factory=lambda: [WindowSettings(name="all")]
    )
    fields: FieldSettings = FieldSettings()
    # A source is one row here and one module in streameval.service.sources.
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


def level_of_alert(alert: AlertSettings, settings: RunSettings) -> float:
    """The level of the interval that an alert looks at.

    >>> level_of_alert(AlertSettings(name="a", metric="f1"), RunSettings(intervals=0.9))
    0.9
    """
    return alert.level or interval_level(settings) or 0.95


def interval_level(settings: RunSettings) -> float | None:
    """The level of the published intervals; None: there are none.

    >>> interval_level(RunSettings()), interval_level(RunSettings(intervals=False))
    (0.95, None)
    """
    return None if settings.intervals is False else float(settings.intervals)
