"""The settings of a run: the tables and keys of its configuration file, typed and described.

A key's description and example are in its annotation, and a table's in its docstring: the file
that ``streameval init`` writes, the reference of keys and the JSON schema for editors are made of
them. A file becomes settings in :mod:`streameval.service.config.load`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from streameval.errors import InputError
from streameval.events.time import duration
from streameval.service.config.address import Address
from streameval.service.config.source_settings import (
    FilesSettings,
    HttpSettings,
    KafkaSettings,
    SourceSettings,
    about,
)
from streameval.tasks.registry import task_names
from streameval.uncertainty.interval import DEFAULT_LEVEL
from streameval.windows.kinds import KINDS

LABEL_COVERAGE = "label_coverage"
LAG = "lag"
VOLUME = "volume"
QUARANTINE = "quarantine"
RUN_METRICS = (LABEL_COVERAGE, LAG, VOLUME, QUARANTINE)
"""Operational metrics that alerts watch: numbers of the run, not of a window or slice."""


class PredictedMetric(NamedTuple):
    """A metric of predictions without labels that an alert watches, as ``drift.ks``."""

    kind: str
    """``"drift"``, ``"expected"`` or ``"predictions"``."""
    name: str
    """A drift measure, a metric that is expected, or one of predictions alone."""

    @classmethod
    def of(cls, metric: str) -> PredictedMetric | None:
        """The parts of an alert's metric; None where it is another one."""
        kind, dot, name = metric.partition(".")
        if dot and kind in ("drift", "expected", "predictions"):
            return cls(kind, name)
        return None


class Duration(str):
    """A duration above 0 as the configuration has it, ``"5m"``, with its length."""

    __slots__ = ("us",)
    us: int
    """Microseconds."""

    def __new__(cls, text: str) -> Self:
        """Parse a text; raises InputError."""
        try:
            us = duration(text, zero=cls is DurationOrZero)
        except InputError as error:
            expected = "a duration such as 90s, 5m, 1h or 7d"
            raise InputError("duration", expected=expected, got=error.got) from None
        found = super().__new__(cls, text)
        found.us = us
        return found

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.us / 1_000_000


class DurationOrZero(Duration):
    """A duration that may be 0."""

    __slots__ = ()


def parsed(kind: type, value: object) -> Any:
    """A value of a type that msgspec does not have; raises InputError, or TypeError for no text."""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return kind(value)


def lasting(text: str) -> Any:
    """The default of a key that is a duration."""
    return msgspec.field(default_factory=lambda: Duration(text))


LATELY = Duration("5m")
"""The span of the clock that volume and quarantine are about where ``alert.per`` is not set."""

LONGEST_AHEAD = Duration("1d")
"""How far ahead of the clock a record's time may be where ``fields.ahead`` is not set."""

Count: TypeAlias = Annotated[int, Meta(ge=0)]
PositiveCount: TypeAlias = Annotated[int, Meta(ge=1)]
ScoreLimit: TypeAlias = Annotated[int, Meta(ge=1024)] | Literal["exact"]

EXACT: Literal["exact"] = "exact"
"""The value of ``max_scores`` with which all scores are kept."""

DEFAULT_MAX_SCORES = 65_536
"""The limit of distinct scores of a new window whose settings have none."""

_SLICES: list[object] = ["country", ["country", "model"]]
_METRICS = ["accuracy", "precision", "recall", "f1", "roc_auc", "log_loss"]

if TYPE_CHECKING:
    TaskChoice: TypeAlias = str
else:
    TaskChoice = Literal[task_names()]


class EvaluatorSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is evaluated: the task, the metrics and the slices."""

    task: Annotated[TaskChoice, about("`binary`, `multiclass`, `multilabel` or `regression`.")] = (
        "binary"
    )
    positive: Annotated[
        str | int | bool,
        about("""Binary: the positive label; `true` and `1` are one label. Text requires `labels`.
        """),
    ] = True
    threshold: Annotated[
        float | dict[str, float],
        about("""Binary: an event without `y_pred` is predicted positive if its score is at least
        this. Multi-label: it is predicted to have each label whose score is; or a table from each
        label to its own."""),
    ] = 0.5
    labels: Annotated[
        list[str | int] | None,
        about("The complete list of labels; others are refused.", [0, 1]),
    ] = None
    metrics: Annotated[
        list[str] | None,
        about(
            """Metrics that are kept and shown, as `streameval metrics` lists them. Not set: the
            usual ones are shown, and all can be queried.""",
            _METRICS,
        ),
    ] = None
    bins: Annotated[int, about("Bins of the calibration curve.")] = 10
    probabilities: Annotated[
        bool,
        about("""Multi-class: `false` where `fields.proba` holds any scores, one of each of
        `labels`, instead of probabilities."""),
    ] = True
    slices: Annotated[
        list[str | list[str]],
        about("Fields to evaluate by as well; a list of fields is a combination.", _SLICES),
    ] = []
    max_slices: Annotated[
        int,
        about('The largest number of slices; events of further ones are counted as "(other)".'),
    ] = 10_000
    max_scores: Annotated[
        ScoreLimit | None,
        about(
            """The most distinct scores that each window, pane and slice keeps, at least 1024;
            further ones are joined, and metrics of the ranking have certain bounds. `"exact"`:
            all are kept, and memory grows with them. Not set: 65536 in a new window; a stored
            one keeps what it was begun with.""",
            DEFAULT_MAX_SCORES,
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        about("""Names of the models that are compared on the same events, the reference first:
        `models = ["champion", "challenger"]`, with
        `score = { champion = "s1", challenger = "s2" }` in `[fields]`."""),
    ] = None
    paired_scores: Annotated[
        bool,
        about("""With `paired_scores = true` the scores of all models of an event are kept together,
        so that the difference in `roc_auc` has an interval; memory grows with the distinct pairs.
        Requires `models`."""),
    ] = False


class _NamedWindow(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which events count: one [[window]] for each, kept and published under its name."""

    name: Annotated[str, about("The window's name: letters, digits, - _ and .", "all")]
    max_scores: Annotated[
        ScoreLimit | None,
        about("As `evaluator.max_scores`, for this window alone.", EXACT),
    ] = None
    interval_sums: Annotated[
        bool | None,
        about(
            """Whether the sums are kept that intervals need where scores are joined, weights are
            not whole, or events fade. Not set: in a new window of a run with intervals; a stored
            one stays as it was begun.""",
            True,
        ),
    ] = None


KEYS_OF_ANY_WINDOW = _NamedWindow.__struct_fields__
"""The keys of a ``[[window]]`` that do not say which events count. Every other key is one of
:data:`streameval.windows.kinds.KINDS`: the first key of a kind selects it."""

if TYPE_CHECKING:
    WindowSettings = _NamedWindow
else:
    _KEY_TYPES = {"duration": Duration, "duration or zero": DurationOrZero, "count": PositiveCount}
    WindowSettings = msgspec.defstruct(
        "WindowSettings",
        [
            (
                key.name,
                Annotated[_KEY_TYPES[key.type] | None, about(key.about, key.example)],
                None,
            )
            for kind in KINDS.values()
            for key in kind.keys
        ],
        bases=(_NamedWindow,),
        namespace={"__doc__": _NamedWindow.__doc__},
        module=__name__,
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )


class LabelFieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of a label's own record, where they differ from a prediction's."""

    id: Annotated[
        str | None, about("The id in a label's record, if not at `fields.id`.", "prediction_id")
    ] = None
    y_true: Annotated[
        str | None, about("The label in a label's record, if not at `fields.y_true`.", "truth")
    ] = None
    time: Annotated[
        str | None, about("The time in a label's record, if not at `fields.time`.", "labelled_at")
    ] = None
    final: Annotated[
        str | UnsetType,
        about(
            """Multi-label: with `final = "final"` labels arrive one by one, and the set of an id
            counts with the record in which it is true."""
        ),
    ] = UNSET

    @property
    def paths(self) -> dict[str, str]:
        """Path of each field that is set, by its key."""
        found = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: path for name, path in found.items() if isinstance(path, str)}


class FieldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of a record, which is a JSON object: a dot goes one level down, "meta.score"."""

    id: Annotated[
        str | None,
        about("The id that a label and its prediction share. Required by the join.", "id"),
    ] = None
    y_true: Annotated[
        str | None,
        about("The true label; of a multi-label task a list of labels, of a regression a number."),
    ] = "y_true"
    y_pred: Annotated[
        str | dict[str, str] | None,
        about(
            """The predicted label, or as `y_true` by its task; of several models a table from each
            of them to its field. Not set: it follows from `score` or `proba`.""",
            "y_pred",
        ),
    ] = None
    score: Annotated[
        str | dict[str, str] | None,
        about(
            """Binary: the score of the positive label, any number; of several models a table.
            Multi-label: an object from label to score.""",
            "score",
        ),
    ] = None
    proba: Annotated[
        str | None,
        about('Instead of `score`: `proba = "proba"` names an object from label to probability.'),
    ] = None
    weight: Annotated[
        str | None,
        about("A weight of 0 or more. A record of weight 0 counts for nothing.", "weight"),
    ] = None
    time: Annotated[
        str | None,
        about(
            """The event time: ISO 8601 with an offset, or a number. Not set: when Kafka or the
            inbox received the record; for files when it is read.""",
            "time",
        ),
    ] = None
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None,
        about("The unit of times that are numbers, since 1970: `s`, `ms`, `us` or `ns`.", "ms"),
    ] = None
    ahead: Annotated[
        DurationOrZero | None,
        about(
            """A record whose time is further ahead of the clock than this is bad, because it would
            make all others late. At most half of `join.wait`, and the pane or half-life of each
            window. Not set: that maximum, but at most a day.""",
            "5m",
        ),
    ] = None
    slices: Annotated[
        dict[str, str],
        about(
            "The fields of the keys of `evaluator.slices`, if they differ from the keys.",
            {"country": "meta.country"},
        ),
    ] = {}
    label: LabelFieldSettings = LabelFieldSettings()

    @property
    def paths(self) -> dict[str, str]:
        """Path of each field that is set, by its column, which is ``score:MODEL`` of a model."""
        found: dict[str, str] = {}
        for name in ("id", "y_true", "y_pred", "score", "proba", "weight", "time"):
            given = getattr(self, name)
            of_models = given if isinstance(given, dict) else {}
            found |= {f"{name}:{model}": path for model, path in of_models.items()}
            if isinstance(given, str):
                found[name] = given
        return found


class JoinSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Labels that arrive later. Without [join], only records that hold their label count."""

    wait: Annotated[
        Duration,
        about("A label counts if its time differs from its prediction's by at most this."),
    ] = lasting("24h")
    remember: Annotated[
        DurationOrZero | None,
        about(
            "How long after that duplicates and corrections are recognised. Not set: `wait`.",
            "24h",
        ),
    ] = None
    hot: Annotated[
        PositiveCount, about("The largest number of entries in memory; the others are on disk.")
    ] = 500_000
    predictions: Annotated[
        bool,
        about("""Whether each prediction is also counted when it is read, before its label: for
        volume, drift and expected metrics of a binary or multi-class task."""),
    ] = True
    examples: Annotated[
        Count | UnsetType,
        about(
            """With `examples = 5` the ids of some events of each cell of the confusion matrix are
            kept and shown: the 5 newest, and the 5 most confident errors. Not set or 0: no ids.""",
            5,
        ),
    ] = UNSET


class ReferenceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What predictions without labels are compared with, and expected metrics are taken from."""

    state: Annotated[
        str | None,
        about("""`state = "last-month.state"`: the file of a saved state, with labelled events for
        expected metrics."""),
    ] = None
    panes: Annotated[
        PositiveCount | None,
        about(
            """Without `state`: so many of the oldest panes whose labels have come. Not set: a third
            of the window's panes, at most 24.""",
            24,
        ),
    ] = None


class CheckpointSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When counts become durable and visible: at a checkpoint."""

    every: Annotated[Duration, about("The interval of checkpoints.")] = lasting("1s")
    events: Annotated[
        PositiveCount, about("A checkpoint is due earlier after this number of events.")
    ] = 50_000


class QuarantineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Records that cannot be counted, kept as in a dead-letter queue."""

    keep: Annotated[Count, about("How many bad records are kept; all are counted.")] = 10_000
    max_bytes: Annotated[Count, about("How much of each is kept.")] = 4096


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Pages, the API and /metrics."""

    enabled: Annotated[bool, about("Whether pages, the API and `/metrics` are served.")] = True
    listen: Annotated[
        Address,
        about("""Host and port; port 0 is any free one. Any address but loopback requires `token`.
        """),
    ] = msgspec.field(default_factory=lambda: Address("127.0.0.1:8642"))
    token: Annotated[
        str | None,
        about(
            """The token that requests send as `Authorization: Bearer`; at least 16 characters.
            `env:NAME` or `file:PATH`.""",
            "env:STREAMEVAL_TOKEN",
        ),
    ] = None
    max_slices_exposed: Annotated[
        Count, about("The largest number of slices in `/metrics`, those of most support.")
    ] = 200
    ready_lag: Annotated[
        Count, about("`/caughtup` answers 503 while more records than this wait to be read.")
    ] = 100_000
    ready_checkpoint_age: Annotated[
        Duration, about("`/caughtup` answers 503 while the last checkpoint is older than this.")
    ] = lasting("30s")
    live_age: Annotated[
        Duration, about("`/livez` answers 503 when the run has made no step for this time.")
    ] = lasting("2m")
    probes: Annotated[
        Address | None,
        about(
            """A further address, which answers `/livez` and `/readyz` alone, without the token,
            also where `enabled` is false.""",
            "0.0.0.0:8643",
        ),
    ] = None
    read_every: Annotated[Duration, about("How often `streameval serve` reads the store.")] = (
        lasting("1s")
    )


class AlertSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Alerts: one [[alert]] for each bound on a metric."""

    name: Annotated[str, about("The alert's name: letters, digits, - _ and .", "f1-low")]
    metric: Annotated[
        str,
        about(
            """The metric that is watched; or a number of the whole run, which takes no window and
            no slice: `label_coverage` (requires `[join]`), `lag`, `volume` (records read: below 1
            is silence) or `quarantine` (the share of records that could not be counted); or one
            of fairness, as `demographic_parity_difference`, whose `slice` is a key; or one of
            predictions before their labels (requires `[join]`): `drift.ks` and other measures,
            `expected.f1` and other metrics, `predictions.positive_rate` and the like.""",
            "f1",
        ),
    ]
    below: Annotated[float | None, about("The alert fires below this.", 0.8)] = None
    above: Annotated[
        float | None, about("Instead of `below`: with `above = 0.2` it fires above that.")
    ] = None
    when: Annotated[
        Literal["value", "certain", "anytime"],
        about(
            """What is compared with the bound: `"value"`; `"certain"`, the whole confidence
            interval, so that noise seldom fires (of `drift.*` its value, and its p-value with 1 -
            `level`); `"anytime"`, a confidence sequence, which holds at every look, so that false
            alarms over the whole life of the alert stay under 1 - `level` (a window of all events
            only).""",
            "certain",
        ),
    ] = "value"
    level: Annotated[
        float | None,
        about(f"The level of that interval. Not set: `intervals`, or {DEFAULT_LEVEL}.", 0.99),
    ] = None
    against: Annotated[
        Literal["previous"] | None,
        about("""`against = "previous"`: the bound is of the difference to the same window one
        length earlier."""),
    ] = None
    reference: Annotated[
        str | None,
        about("""`reference = "last-month.state"`: the bound is of the difference to the value of a
        state file."""),
    ] = None
    model: Annotated[
        str | None,
        about("""Of several models, `model = "challenger"`: the bound is of this model's metric less
        that of the first one."""),
    ] = None
    window: Annotated[str | None, about("The window. Not set: the first.", "hour")] = None
    slice: Annotated[
        dict[str, str | int] | str,
        about(
            """The slice. Empty: all events. `"any"`: each slice of the window, with a correction
            for their number. Of a metric of fairness: the key of `evaluator.slices` whose values
            are the groups, as `slice = "sex"`.""",
            {"country": "PT"},
        ),
    ] = {}
    min_support: Annotated[
        PositiveCount, about("With less support than this the alert is `undefined`.", 1000)
    ] = 1
    for_: Annotated[DurationOrZero, about("How long the bound has to be crossed.", "10m")] = (
        msgspec.field(default_factory=lambda: DurationOrZero("0s"), name="for")
    )
    per: Annotated[
        Duration | None,
        about("""The span of the clock that `volume` and `quarantine` are about, as `per = "10m"`.
        Not set: 5m."""),
    ] = None


class WebhookSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The address that alerts are posted to."""

    url: Annotated[
        str,
        about("The address; or `env:NAME` or `file:PATH`.", "https://hooks.example.com/streameval"),
    ]
    token: Annotated[
        str | None,
        about(
            "Sent as `Authorization: Bearer`. `env:NAME` or `file:PATH`.",
            "file:/run/secrets/webhook",
        ),
    ] = None
    timeout: Annotated[Duration, about("The longest wait for a response.")] = lasting("5s")
    retries: Annotated[
        Count, about("How often a failed post is repeated, after 1, 2, 4 … seconds.")
    ] = 5


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole configuration."""

    store: Annotated[
        str,
        about("""The SQLite file of the run, with the inbox of posted records beside it; or the
        address `postgresql://…` of a database, `env:NAME` or `file:PATH`."""),
    ] = "streameval.db"
    intervals: Annotated[
        float | bool,
        about("""The level of the confidence intervals that are published with the metrics; `false`:
        none."""),
    ] = DEFAULT_LEVEL
    evaluator: EvaluatorSettings = EvaluatorSettings()
    window: list[WindowSettings] = msgspec.field(
        default_factory=lambda: [WindowSettings(name="all")]
    )
    fields: FieldSettings = FieldSettings()
    # A source is one row here, one struct, and one row of streameval.service.sources.OPENERS.
    files: FilesSettings | None = None
    http: HttpSettings | None = None
    kafka: KafkaSettings | None = None
    join: JoinSettings | None = None
    reference: ReferenceSettings = ReferenceSettings()
    checkpoint: CheckpointSettings = CheckpointSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    serve: ServeSettings = ServeSettings()
    alert: list[AlertSettings] = []
    webhook: WebhookSettings | None = None

    @property
    def sources(self) -> dict[str, SourceSettings]:
        """The tables of the sources that records are read from, by name."""
        tables = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: one for name, one in tables.items() if isinstance(one, SourceSettings)}

    @property
    def is_group(self) -> bool:
        """Whether many workers share one evaluation."""
        return self.kafka is not None and self.kafka.assignment == "group"


def level_of_alert(alert: AlertSettings, settings: RunSettings) -> float:
    """The level of the interval that an alert looks at."""
    return alert.level or interval_level(settings) or DEFAULT_LEVEL


def interval_level(settings: RunSettings) -> float | None:
    """The level of the published intervals; None: there are none."""
    return None if settings.intervals is False else float(settings.intervals)
