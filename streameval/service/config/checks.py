"""Checks of a configuration beyond types: what belongs together, and what exists."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import NamedTuple

from streameval.errors import (
    ConfigError,
    InputError,
    MetricError,
    OptionError,
    StateError,
    did_you_mean,
    shown,
)
from streameval.evaluator.comparison import checked_models, reference_of
from streameval.evaluator.fairness import FAIRNESS
from streameval.evaluator.predictions import drift_between, expected_of
from streameval.events.time import duration_text
from streameval.metrics.registry import find, shown_metrics
from streameval.records.json_records import split_path
from streameval.records.rules import check_metric, check_spec
from streameval.service.config.address import is_postgres, parse_address
from streameval.service.config.evaluators import (
    ahead_limit,
    evaluator_of,
    given_kinds,
    groups_of_alert,
    kept_for,
    kind_of_settings,
    open_predicted_reference,
    open_reference,
    predicted_windows,
    predictions_of,
    slice_fields,
    spec_of,
    window_keys,
    window_of_alert,
    window_spec_of,
)
from streameval.service.config.record_fields import record_fields
from streameval.service.config.secrets import is_reference, is_web_address
from streameval.service.config.settings import (
    EXACT,
    LABEL_COVERAGE,
    LAG,
    QUARANTINE,
    RUN_METRICS,
    VOLUME,
    AlertSettings,
    PredictedMetric,
    ReferenceSettings,
    RunSettings,
    WindowSettings,
)
from streameval.tasks.registry import TASKS
from streameval.uncertainty.drift import DRIFTS
from streameval.uncertainty.expected import EXPECTED
from streameval.uncertainty.interval import checked_level
from streameval.uncertainty.methods import METHODS
from streameval.uncertainty.paired import PAIRED_METHODS, is_bootstrapped, needs_pairs
from streameval.windows.kinds import KINDS
from streameval.windows.panes import Panes

_OF_MODELS = ("y_pred", "score")
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


def check_settings(settings: RunSettings) -> None:
    """Raise InputError for the first key that these settings cannot be run with."""
    for check in (
        _check_paths,
        check_store_key,
        _check_intervals,
        _check_models,
        _check_fields,
        _check_evaluator,
        _check_windows,
        _check_ahead,
        _check_sources,
        _check_join,
        _check_reference,
        check_workers,
        _check_alerts,
        _check_serve,
        _check_webhook,
    ):
        check(settings)


def _check_paths(settings: RunSettings) -> None:
    fields = settings.fields
    paths = {f"fields.{name.replace(':', '.')}": path for name, path in fields.paths.items()}
    paths |= {f"fields.label.{name}": path for name, path in fields.label.paths.items()}
    paths |= {f"fields.slices.{name}": path for name, path in fields.slices.items()}
    for key, path in paths.items():
        try:
            if path is not None:
                split_path(path)
        except InputError as error:
            raise InputError(key, expected=error.expected, got=shown(path)) from None


def _check_reference(settings: RunSettings) -> None:
    reference = settings.reference
    if reference == ReferenceSettings():
        return
    if not predicted_windows(settings):
        raise OptionError.requires("reference", "[join] with predictions = true")
    if reference.state is not None:
        try:
            open_predicted_reference(settings, reference.state)
        except StateError as error:
            raise InputError(
                "reference.state",
                expected="a state file of the run's task and labels",
                got=str(error),
                remedy="streameval store export writes one",
            ) from None


def check_store_key(settings: RunSettings) -> None:
    """Raise InputError for a store that these settings cannot be run with."""
    if not settings.store:
        raise InputError(
            "store", expected="the path of a file, or postgresql://…", got="an empty text"
        )
    shared = is_postgres(settings.store)
    if shared:
        parse_address(settings.store)
    http = settings.http
    if http is not None and shared and http.inbox is None:
        raise OptionError.requires(
            'store = "postgresql://…" with [http]',
            "http.inbox",
            remedy="name a directory on a disk that stays, where posts wait to be counted",
        )
    known = shared or is_reference(settings.store)
    if http is not None and http.inbox is not None and not known:
        raise OptionError.conflicts(
            "http.inbox",
            "a store in a file, which has its inbox beside it",
            remedy="leave http.inbox out",
        )


def check_store_path(path: str) -> None:
    """Raise ConfigError for a path where no store can be created."""
    if is_postgres(path):
        return
    whole = os.path.abspath(path)
    directory = os.path.dirname(whole)
    if os.path.isdir(whole):
        raise ConfigError(f"store: expected the path of a file, got the directory {path}")
    if not os.path.isdir(directory):
        raise ConfigError(
            f"store: expected a file in a directory that is there, got {path}; "
            f"make {directory} first, or name another path"
        )


def _check_intervals(settings: RunSettings) -> None:
    if settings.intervals is False:
        return
    try:
        checked_level(settings.intervals)
    except InputError as error:
        raise InputError(
            "intervals",
            expected=f"{error.expected}, or false",
            got="true" if settings.intervals is True else error.got,
            remedy=error.remedy.replace("pass", "set intervals ="),
        ) from None


def _check_models(settings: RunSettings) -> None:
    fields, models = settings.fields, settings.evaluator.models
    if models is None:
        if settings.evaluator.paired_scores:
            raise OptionError.requires("evaluator.paired_scores", "evaluator.models")
        for name in _OF_MODELS:
            if isinstance(getattr(fields, name), dict):
                raise OptionError.requires(
                    f"fields.{name} as a table",
                    "evaluator.models",
                    remedy=f"list its models there, or set {name} to the path of one field",
                )
        return
    try:
        checked_models(models)
    except InputError as error:
        raise InputError("evaluator.models", expected=error.expected, got=error.got) from None
    seen: set[str] = set()
    for n, model in enumerate(models):
        _check_name(f"evaluator.models[{n}]", model, seen, "model")
    limits = {"evaluator": settings.evaluator.max_scores}
    limits |= {f"window[{n}]": window.max_scores for n, window in enumerate(settings.window)}
    for table, most in limits.items():
        if settings.evaluator.paired_scores and most not in (None, EXACT):
            raise OptionError.conflicts(
                f"{table}.max_scores",
                "evaluator.paired_scores, with which all pairs are kept",
                remedy="leave one of them out",
            )
    if fields.proba is not None:
        raise OptionError.conflicts(
            "fields.proba", "evaluator.models", remedy="name score or y_pred of each model"
        )
    used: dict[str, str] = {}
    for name in _OF_MODELS:
        given = getattr(fields, name)
        if given is None:
            continue
        if isinstance(given, str) or set(given) != set(models):
            one_each = ", ".join(f'{model} = "{model}_{name}"' for model in models[:2])
            raise InputError(
                f"fields.{name}",
                expected=f"a field for each of the models {', '.join(models)}",
                got=shown(given if isinstance(given, str) else ", ".join(given)),
                remedy=f"write {name} = {{ {one_each}{', …' * (len(models) > 2)} }}",
            )
        for model, path in given.items():
            key = f"fields.{name}.{model}"
            if used.setdefault(path, key) != key:
                raise InputError(key, expected="another field", got=f"that of {used[path]}")


def _check_fields(settings: RunSettings) -> None:
    fields, spec = settings.fields, spec_of(settings)
    check_spec(replace(spec, metrics=None))
    if fields.y_true is None and (settings.join is None or fields.label.y_true is None):
        raise InputError("fields.y_true", expected="where a record has its label", got="nothing")
    if settings.join is None:
        for name in fields.label.paths:
            raise OptionError.requires(f"fields.label.{name}", "[join]")
    task = TASKS[settings.evaluator.task]
    if fields.label.final and task.truth != "label sets":
        raise OptionError.conflicts(
            "fields.label.final",
            f'evaluator.task = "{task.name}", of which an event has one label',
            remedy="leave it out",
        )
    sliced = [name for part in settings.evaluator.slices for name in slice_fields(part)]
    for name in fields.slices:
        if name not in sliced:
            raise InputError(
                f"fields.slices.{name}",
                expected="a key that evaluator.slices names",
                got=f"{shown(name)}, which it does not",
                remedy=did_you_mean(name, sliced),
            )
    try:
        record_fields(fields, settings.evaluator, settings.join is not None)
    except InputError as error:
        raise InputError(
            "fields", expected=f"{error.expected} at {shown(error.field)}", got=error.got
        ) from None


def _check_ahead(settings: RunSettings) -> None:
    """Raise InputError for a ``fields.ahead`` with which one record makes all others late."""
    limit, ahead = ahead_limit(settings), settings.fields.ahead
    if limit is not None and ahead is not None and ahead.us > limit.ahead_us:
        most = duration_text(limit.ahead_us)
        raise OptionError.conflicts(
            "fields.ahead",
            f"{limit.key} = {shown(limit.value)}, which allows at most {most}, got {ahead}: a "
            "record further ahead would make all others late",
            remedy=f'set ahead = "{most}" or less, or leave it out',
        )


def _check_sources(settings: RunSettings) -> None:
    there: set[str] = set()
    found: dict[str, str] = {}
    for table, source in settings.sources.items():
        names = source.names()
        there.update(names)
        if hasattr(source, "records"):  # its keys say what its records are
            if not names:
                raise InputError(
                    table, expected="records, or predictions and labels", got="none of them"
                )
            for kind in names:
                found.setdefault(kind, f"{table}.{kind}")
                if kind != "records" and "records" in names:
                    raise OptionError.conflicts(
                        f"{table}.{kind}", f"{table}.records", remedy="give one of them"
                    )
        source.check(table)
    for kind, other in (("predictions", "labels"), ("labels", "predictions")):
        if kind in found and settings.join is None:
            raise OptionError.requires(
                found[kind], "[join]", remedy='add [join] with wait = "24h", and fields.id'
            )
        if kind in found and other not in there:
            raise OptionError.requires(found[kind], f"{other}, from this source or another")


def _check_join(settings: RunSettings) -> None:
    if settings.join is None:
        return
    task = TASKS[settings.evaluator.task]
    if settings.join.examples and task.truth not in ("two classes", "classes"):
        raise OptionError.conflicts(
            "join.examples",
            f'evaluator.task = "{task.name}", which has no confusion matrix',
            remedy="leave examples out",
        )
    if settings.fields.id is None:
        raise InputError(
            "fields.id",
            expected="the field of the id by which records are joined",
            got="nothing",
            remedy='add id = "id" under [fields]',
        )


def check_workers(settings: RunSettings) -> None:
    """Raise InputError for what many workers of one evaluation cannot share."""
    if not settings.is_group:
        return
    key = 'kafka.assignment = "group"'
    if not is_postgres(settings.store) and not is_reference(settings.store):
        raise OptionError.requires(
            key,
            'store = "postgresql://…"',
            remedy="a file cannot be shared by many workers",
        )
    for other in settings.sources.keys() - {"kafka"}:
        raise OptionError.conflicts(
            f"[{other}]", key, remedy="a group assigns partitions of Kafka only: run it by itself"
        )
    discovers = TASKS[settings.evaluator.task].truth in ("classes", "label sets")
    if discovers and settings.evaluator.labels is None:
        raise OptionError.requires(
            key,
            "evaluator.labels",
            remedy="otherwise the first label of each partition would decide whether its labels "
            "are text or numbers",
        )


def _check_evaluator(settings: RunSettings) -> None:
    chosen = settings.evaluator
    binary = TASKS[chosen.task].positive is not None
    if binary and isinstance(chosen.positive, str) and chosen.labels is None:
        raise InputError(
            "evaluator.labels",
            expected=f"both labels, as the positive one is the text {shown(chosen.positive)}",
            got="nothing",
            remedy="otherwise the first other label of a record would become the negative one",
        )
    spec = spec_of(settings)
    for n, name in enumerate(chosen.metrics or []):
        check_metric(spec, name, f"evaluator.metrics[{n}]")
    if chosen.metrics is not None and not chosen.metrics:
        raise InputError("evaluator.metrics", expected="names of metrics", got="an empty list")
    try:
        evaluator_of(settings, WindowSettings(name="all"))
    except InputError as error:
        key = error.field if error.position is None else f"{error.field}[{error.position}]"
        raise InputError(f"evaluator.{key}", expected=error.expected, got=error.got) from None


def _check_windows(settings: RunSettings) -> None:
    if not settings.window:
        raise InputError("window", expected="at least one [[window]]", got="none")
    seen: set[str] = set()
    for n, window in enumerate(settings.window):
        key = f"window[{n}]"
        _check_name(f"{key}.name", window.name, seen, "window")
        kind, *others = given_kinds(window) or [kind_of_settings(window)]
        first = next((key.name for key in kind.keys), "")
        if others:
            other = f"{key}.{others[0].keys[0].name}"
            raise OptionError.conflicts(other, f"{key}.{first}", remedy="give one of them")
        given = window_keys(window)
        for name in given.keys() - {own.name for own in kind.keys}:
            needed = next(k.keys[0] for k in KINDS.values() if name in {own.name for own in k.keys})
            raise OptionError.requires(f"{key}.{name}", f"{key}.{needed.name}")
        try:
            window_spec_of(window, settings.join)
        except InputError as error:
            name = error.field.partition("(")[2].rstrip(")")
            remedy = ""
            if name == kind.covers and kind.waits not in given:
                remedy = f"or set the window's {kind.waits}; unless given, it is "
                remedy += f"its {first}" if settings.join is None else "join.wait"
            raise InputError(
                f"{key}.{name}", expected=error.expected, got=error.got, remedy=remedy
            ) from None


def _check_name(key: str, name: str, seen: set[str], kind: str) -> None:
    if not 1 <= len(name) <= 64 or not _NAME_LETTERS.issuperset(name):
        raise InputError(key, expected="1 to 64 letters, digits, - _ or .", got=shown(name))
    if name in seen:
        raise InputError(key, expected=f"a name for each {kind}", got=f"{shown(name)} twice")
    seen.add(name)


def _check_alerts(settings: RunSettings) -> None:
    seen: set[str] = set()
    for n, alert in enumerate(settings.alert):
        key = f"alert[{n}]"
        _check_name(f"{key}.name", alert.name, seen, "alert")
        if alert.metric in RUN_METRICS:
            _check_run_metric(settings, key, alert)
        else:
            if alert.metric in FAIRNESS:
                _check_fairness(settings, key, alert)
            if PredictedMetric.of(alert.metric) is None:
                for metric in kept_for(settings, alert):
                    check_metric(spec_of(settings), metric, f"{key}.metric")
            if alert.per is not None:
                raise OptionError.requires(f"{key}.per", f'{key}.metric = "{VOLUME}"')
        if (alert.below is None) == (alert.above is None):
            got = "neither" if alert.below is None else "both"
            raise InputError(key, expected="below or above", got=got)
        for name in ("below", "above"):
            bound = getattr(alert, name)
            if bound is not None and not math.isfinite(bound):
                raise InputError(f"{key}.{name}", expected="a finite number", got=str(bound))
        windows = [window.name for window in settings.window]
        if alert.window is not None and alert.window not in windows:
            raise InputError(
                f"{key}.window",
                expected=f"one of {', '.join(windows)}",
                got=shown(alert.window),
                remedy=did_you_mean(alert.window, windows),
            )
        predicted = PredictedMetric.of(alert.metric)
        if predicted is not None:
            _check_predicted(settings, key, alert, predicted)
        if alert.slice == "any":
            _check_any_slice(settings, key, alert)
        elif alert.metric not in FAIRNESS:
            _check_alert_slice(settings, f"{key}.slice", alert)
        _check_alert_model(settings, key, alert)
        _check_when(settings, key, alert)
        _check_comparison(settings, key, alert)


def _check_run_metric(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    if alert.metric == LABEL_COVERAGE and settings.join is None:
        raise OptionError.requires(
            f"{key}.metric", "[join]", remedy="without it every record holds its label"
        )
    about = f"{key}.metric = {shown(alert.metric)}"
    for name in ("window", "slice", "against", "reference", "model"):
        if getattr(alert, name):
            raise OptionError.conflicts(
                f"{key}.{name}",
                f"{about}, which is of the whole run",
                remedy=f"leave {name} out",
            )
    if alert.per is not None and alert.metric not in (VOLUME, QUARANTINE):
        raise OptionError.requires(f"{key}.per", f'{key}.metric = "{VOLUME}"')
    if alert.when == "anytime" or (alert.when == "certain" and alert.metric in (LAG, VOLUME)):
        why = "which is no share" if alert.metric in (LAG, VOLUME) else "which is of late only"
        raise OptionError.conflicts(
            f"{key}.when",
            f"{about}, {why}",
            remedy='set when = "value"',
        )


def _check_fairness(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    about = f"{key}.metric = {shown(alert.metric)}"
    if TASKS[settings.evaluator.task].positive is None:
        raise OptionError.requires(about, 'evaluator.task = "binary"')
    if alert.slice == "any" or groups_of_alert(settings, alert) is None:
        kinds = ["+".join(slice_fields(part)) for part in settings.evaluator.slices]
        raise InputError(
            f"{key}.slice",
            expected="the key whose values are the groups, one of evaluator.slices "
            f"({', '.join(kinds) or 'none'})",
            got=shown(alert.slice) if alert.slice else "nothing",
            remedy=f"write slice = {shown(kinds[0])}" if kinds else "add it to evaluator.slices",
        )
    for name in ("against", "reference", "model"):
        if getattr(alert, name) is not None:
            remedy = f"leave {name} out"
            raise OptionError.conflicts(
                f"{key}.{name}", f"{about}, which compares groups", remedy=remedy
            )
    if alert.when == "anytime":
        raise OptionError.conflicts(
            f"{key}.when",
            f"{about}, for which there is no interval that holds at every look",
            remedy='set when = "certain"',
        )


def _check_predicted(
    settings: RunSettings, key: str, alert: AlertSettings, metric: PredictedMetric
) -> None:
    """Raise InputError for a metric of predictions without labels that the run does not have."""
    about = f"{key}.metric = {shown(alert.metric)}"
    if not predicted_windows(settings):
        raise OptionError.requires(about, "[join] with predictions = true")
    compared = "is compared with [reference]"
    if metric.kind == "predictions":
        compared = "is of predictions alone"
    whys = {"against": compared, "reference": compared, "model": "is of the first model"}
    for name, why in whys.items():
        if getattr(alert, name) is not None:
            raise OptionError.conflicts(
                f"{key}.{name}", f"{about}, which {why}", remedy=f"leave {name} out"
            )
    window, path = window_of_alert(settings, alert), settings.reference.state
    now = predictions_of(settings, window)
    kind, of = metric
    if kind == "predictions":
        task = str(TASKS[settings.evaluator.task].unlabelled)
        names = [row.name for row in shown_metrics(task) if row.name != "support"]
        needs_scores = of in names and find(of, task).needs_scores
    else:
        names = list(DRIFTS if kind == "drift" else EXPECTED)
        needs_scores = kind == "expected" or (of in DRIFTS and DRIFTS[of].input == "scores")
    if of not in names:
        raise InputError(
            f"{key}.metric",
            expected=f"{shown(kind + '.')} and one of {', '.join(names)}",
            got=shown(alert.metric),
            remedy=did_you_mean(alert.metric, [f"{kind}.{name}" for name in names]),
        )
    if needs_scores and not spec_of(settings).has_scores:
        field = "score" if TASKS[settings.evaluator.task].positive is not None else "proba"
        raise OptionError.requires(about, f"fields.{field}")
    if kind == "predictions":
        return
    if path is None and kind_of_settings(window).name != "panes":
        raise OptionError.requires(
            f"{about} of window {shown(window.name)}, which has no panes,",
            "reference.state",
            remedy="or name a [[window]] with a length",
        )
    other = (
        evaluator_of(settings, window)
        if path is None
        else reference_of(open_predicted_reference(settings, path))
    )
    whole = path is None or other.options["window"]["kind"] == "cumulative"
    if alert.when == "anytime" and not whole:
        raise OptionError.conflicts(
            f"{key}.when", "reference.state, which is of a window", remedy='set when = "certain"'
        )
    try:
        if kind == "drift":
            drift_between(now.total, other.total, of)
        else:
            expected_of(now.total, other.total, of)
    except MetricError as error:
        raise InputError(
            f"{key}.metric",
            expected="a metric that the run and its reference have",
            got=shown(alert.metric),
            remedy=str(error),
        ) from None
    except InputError as error:
        if path is not None:  # the panes of a run have no events yet
            raise InputError(
                "reference.state", expected=error.expected, got=error.got, remedy=f"for {about}"
            ) from None


def _check_alert_model(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    if alert.model is None:
        return
    models = settings.evaluator.models
    if models is None:
        raise OptionError.requires(f"{key}.model", "evaluator.models")
    if alert.model not in models[1:]:
        raise InputError(
            f"{key}.model",
            expected=f"one of {', '.join(models[1:])}, which is compared with {models[0]}",
            got=shown(alert.model),
            remedy=did_you_mean(alert.model, models[1:]),
        )
    for name in ("against", "reference"):
        if getattr(alert, name) is not None:
            raise OptionError.conflicts(f"{key}.model", f"{key}.{name}", remedy="give one of them")
    if alert.slice == "any":
        raise OptionError.conflicts(f"{key}.model", f'{key}.slice = "any"', remedy="name a slice")
    if alert.when == "value":
        return
    metric, about = find(alert.metric, settings.evaluator.task), f"{key}.metric"
    window = window_of_alert(settings, alert)
    if kind_of_settings(window).name == "fading":
        raise OptionError.conflicts(
            f"{key}.when",
            f"{key}.window, as the weights of {shown(window.name)} are not whole: no test of pairs "
            "is known for them",
            remedy='set when = "value", or name another window',
        )
    anytime = PAIRED_METHODS["anytime"]
    if alert.when == "anytime" and not anytime.serves(metric):
        raise OptionError.conflicts(
            f"{key}.when",
            f"{about} = {shown(alert.metric)}, for whose difference no interval holds at every "
            "look",
            remedy='set when = "certain"; accuracy and error_rate have one',
        )
    if needs_pairs(metric):
        if is_bootstrapped(metric):
            raise OptionError.conflicts(
                f"{key}.when",
                f"{about} = {shown(alert.metric)}, whose difference is resampled from all scores, "
                "which a run does not do",
                remedy='set when = "value"; roc_auc has a formula',
            )
        if not settings.evaluator.paired_scores:
            raise OptionError.requires(
                f"{key}.when = {shown(alert.when)} with {shown(alert.metric)}",
                "evaluator.paired_scores = true",
            )


def _check_when(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    if alert.level is not None:
        if alert.when == "value":
            raise OptionError.requires(f"{key}.level", f'{key}.when = "certain" or "anytime"')
        try:
            checked_level(alert.level)
        except InputError as error:
            raise InputError(
                f"{key}.level", expected=error.expected, got=error.got, remedy=error.remedy
            ) from None
    if alert.when == "value" or alert.metric in (*RUN_METRICS, *FAIRNESS):
        return
    about = f"{key}.metric = {shown(alert.metric)}"
    found, metric = _certainty(settings, alert), PredictedMetric.of(alert.metric)
    drift = metric is not None and metric.kind == "drift"
    if not found.certain and alert.model is None:
        lacks = "p-value" if drift else "interval"
        raise OptionError.conflicts(
            f"{key}.when", f"{about}, which has no {lacks}", remedy='set when = "value"'
        )
    if drift and alert.when == "certain" and alert.above is None:
        raise OptionError.conflicts(
            f'{key}.when = "certain"',
            f"{key}.below, as no p-value says that predictions have not drifted",
            remedy='set above, or when = "value"',
        )
    if alert.when != "anytime":
        return
    if alert.model is None and not found.anytime:
        raise OptionError.conflicts(
            f"{key}.when",
            f"{about}, for which there is no interval that holds at every look",
            remedy=f'set when = "certain"; {found.others} have one',
        )
    window = window_of_alert(settings, alert)
    if kind_of_settings(window).name != "cumulative":
        whole = [one.name for one in settings.window if kind_of_settings(one).name == "cumulative"]
        remedy = f"set window = {shown(whole[0])}" if whole else 'add [[window]] with name = "all"'
        raise OptionError.conflicts(
            f"{key}.when",
            f"{key}.window, as {shown(window.name)} forgets events: no interval holds at every "
            "look at a window that moves",
            remedy=f'{remedy} and no other key, which counts all events, or when = "certain"',
        )


class _Certainty(NamedTuple):
    """Which of ``when`` a metric can have."""

    certain: bool
    anytime: bool
    others: str
    """Metrics of its kind that can have both."""


def _certainty(settings: RunSettings, alert: AlertSettings) -> _Certainty:
    task, metric = settings.evaluator.task, PredictedMetric.of(alert.metric)
    if metric is not None and metric.kind == "drift":
        row = DRIFTS[metric.name]
        return _Certainty(row.has_p_value, "anytime" in row.methods, "drift.ks and drift.cramers_v")
    if metric is not None and metric.kind == "expected":
        return _Certainty(True, False, "drift.ks and predictions.positive_rate")
    name, others = alert.metric, "accuracy and roc_auc"
    if metric is not None:
        name, task = metric.name, str(TASKS[task].unlabelled)
        others = "drift.ks and predictions.positive_rate"
    family = find(name, task).family
    return _Certainty(family != "none", family in METHODS["anytime"].families, others)


def _check_comparison(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    if alert.against is not None and alert.reference is not None:
        raise OptionError.conflicts(f"{key}.against", f"{key}.reference", remedy="give one of them")
    for name in ("against", "reference"):
        if getattr(alert, name) is None:
            continue
        for other in ('when = "anytime"', 'slice = "any"'):
            word, _, value = other.partition(" = ")
            if getattr(alert, word) == value.strip('"'):
                raise OptionError.conflicts(f"{key}.{name}", f"{key}.{other}")
    if alert.against is not None:
        window = window_of_alert(settings, alert)
        spec = window_spec_of(window, settings.join)
        if not isinstance(spec, Panes):
            raise OptionError.requires(
                f"{key}.against",
                f"{key}.window of panes, got {shown(window.name)}",
                remedy="name a [[window]] with a length",
            )
        if spec.retain_us < 2 * spec.length_us:
            raise OptionError.requires(
                f"{key}.against",
                f"a window that keeps its panes for twice its length, and {shown(window.name)} "
                f"keeps them for {duration_text(spec.retain_us)}",
                remedy=f'set its retain = "{duration_text(2 * spec.length_us)}" or more',
            )
    if alert.reference is not None:
        try:
            reference = open_reference(settings, alert.reference)
            reference.report([alert.metric])
        except (StateError, MetricError) as error:
            raise InputError(
                f"{key}.reference",
                expected=f"a state file that has {alert.metric} as the run means it",
                got=str(error),
                remedy="streameval store export writes one",
            ) from None


def _check_any_slice(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    if not settings.evaluator.slices:
        raise OptionError.requires(f'{key}.slice = "any"', "evaluator.slices")
    if alert.when != "certain":
        raise OptionError.requires(
            f'{key}.slice = "any"',
            f'{key}.when = "certain"',
            remedy="of many slices some are beyond any bound by chance",
        )
    if PredictedMetric.of(alert.metric) is not None:
        return
    if settings.intervals is False:
        raise OptionError.requires(f'{key}.slice = "any"', "intervals, which are false")
    if find(alert.metric, settings.evaluator.task).family == "bootstrap":
        raise OptionError.conflicts(
            f'{key}.slice = "any"',
            f"{key}.metric = {shown(alert.metric)}, whose interval has no formula and is not "
            "computed for every slice",
        )


def _check_alert_slice(settings: RunSettings, key: str, alert: AlertSettings) -> None:
    kinds = [slice_fields(part) for part in settings.evaluator.slices]
    given = [alert.slice] if isinstance(alert.slice, str) else list(alert.slice)
    unknown = isinstance(alert.slice, str) or not any(set(kind) == set(given) for kind in kinds)
    if alert.slice and unknown:
        listed = ", ".join("+".join(kind) for kind in kinds)
        raise InputError(
            key,
            expected=f"a value for each key of one of evaluator.slices ({listed or 'none'})",
            got=shown(", ".join(given)),
        )


def _check_serve(settings: RunSettings) -> None:
    serve = settings.serve
    if serve.token is not None and not serve.token:
        raise InputError("serve.token", expected="a token", got="an empty text")
    if settings.http is not None and not serve.enabled:
        raise OptionError.requires("http", "serve.enabled = true")
    if serve.enabled and serve.token is None and not serve.listen.loopback:
        raise InputError(
            "serve.token",
            expected=f"a token, as {serve.listen.host} can be reached from other machines",
            got="nothing",
            remedy='set token = "env:STREAMEVAL_TOKEN", or listen on 127.0.0.1',
        )


def _check_webhook(settings: RunSettings) -> None:
    webhook = settings.webhook
    if webhook is not None and not (is_reference(webhook.url) or is_web_address(webhook.url)):
        raise InputError(
            "webhook.url", expected="an address http://… or https://…", got="another text"
        )
