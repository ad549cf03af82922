"""What the configuration says of its input: fields, sources, and the join of two of them."""

from __future__ import annotations

from streameval.errors import InputError, shown
from streameval.event_time import duration, duration_text
from streameval.stream.config_faults import Places, near
from streameval.stream.config_objects import ahead_limit, has_scores, slice_fields
from streameval.stream.records.fields import record_fields
from streameval.stream.settings import RunSettings

__all__ = ["check_ahead", "check_fields", "check_join", "check_sources"]


def check_fields(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for fields that do not make a record of this run."""
    fields, task = settings.fields, settings.evaluator.task
    if fields.y_pred is None and not has_scores(fields):
        raise places.error(
            "fields",
            expected="score, y_pred or proba: where a record has its prediction",
            got="none of them",
            remedy='add score = "score" under [fields]',
        )
    if fields.score is not None and fields.proba is not None:
        raise places.conflicts("fields.proba", "fields.score", remedy="give one of them")
    if fields.score is not None and task == "multiclass":
        raise places.error(
            "fields.score",
            expected="y_pred or proba in a multi-class run",
            got="score",
            remedy='or set evaluator.task = "binary"',
        )
    if fields.y_true is None and (settings.join is None or fields.label.y_true is None):
        raise places.error("fields.y_true", expected="where a record has its label", got="nothing")
    if fields.time_unit is not None and fields.time is None and fields.label.time is None:
        raise places.requires("fields.time_unit", "fields.time")
    apart = fields.label
    if settings.join is None:
        for name in ("id", "y_true", "time"):
            if getattr(apart, name) is not None:
                raise places.requires(f"fields.label.{name}", "[join]")
    sliced = [name for part in settings.evaluator.slices for name in slice_fields(part)]
    for name in fields.slices:
        if name not in sliced:
            raise places.error(
                f"fields.slices.{name}",
                expected="a key that evaluator.slices names",
                got=f"{shown(name)}, which it does not",
                remedy=near(name, sliced),
            )
    try:
        record_fields(fields, settings.evaluator, settings.join is not None)
    except InputError as error:
        raise places.error(
            "fields", expected=f"{error.expected} at {shown(error.field)}", got=error.got
        ) from None


def check_ahead(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for a ``fields.ahead`` that lets one record make all others late."""
    limit, ahead = ahead_limit(settings), settings.fields.ahead
    if limit is not None and ahead is not None and duration(ahead, zero=True) > limit.ahead_us:
        most = duration_text(limit.ahead_us)
        raise places.conflicts(
            "fields.ahead",
            f"{limit.key} = {shown(limit.value)}, which allows at most {most}, got {ahead}: a "
            "record further ahead would make all others late",
            remedy=f'set ahead = "{most}" or less, or leave it out',
        )


def check_sources(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for sources that do not bring what is to be counted."""
    found: dict[str, str] = {}
    for table in ("files", "kafka"):
        source = getattr(settings, table)
        if source is None:
            continue
        given = [kind for kind in ("records", "predictions", "labels") if getattr(source, kind)]
        if not given:
            raise places.error(
                table, expected="records, or predictions and labels", got="none of them"
            )
        if "records" in given and len(given) > 1:
            raise places.conflicts(
                f"{table}.{given[1]}", f"{table}.records", remedy="give one of them"
            )
        for kind in given:
            found.setdefault(kind, f"{table}.{kind}")
    if settings.kafka is not None and "bootstrap.servers" not in settings.kafka.properties:
        raise places.error(
            "kafka.properties",
            expected='"bootstrap.servers", the brokers to ask first',
            got=shown(sorted(settings.kafka.properties)),
        )
    apart = {"predictions": "labels", "labels": "predictions"}
    for kind, other in apart.items():
        if kind in found and settings.join is None:
            raise places.requires(
                found[kind], "[join]", remedy='add [join] with wait = "24h", and fields.id'
            )
        if kind in found and other not in found and settings.http is None:
            raise places.requires(found[kind], f"{other}, from files, kafka or http")


def check_join(settings: RunSettings, places: Places) -> None:
    """Raise ConfigError for a join that has nothing to go by."""
    if settings.join is not None and settings.fields.id is None:
        raise places.error(
            "fields.id",
            expected="where a record has its id, which the join goes by",
            got="nothing",
            remedy='add id = "id" under [fields]',
        )
