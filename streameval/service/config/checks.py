"""Checks of a configuration beyond types: what belongs together, and what exists."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
        _check_name(f"alert[{n}].name", alert.name, seen, "alert")
        _AlertCheck(settings, n).check()


class _AlertCheck:
    """Raises InputError for the first key of an alert that a run cannot have."""

    def __init__(self, settings: RunSettings, n: int) -> None:
        self.settings, self.alert = settings, settings.alert[n]
        self.key = f"alert[{n}]"
        self.about = f"{self.key}.metric = {shown(self.alert.metric)}"
        self.predicted = PredictedMetric.of(self.alert.metric)
        self.task = TASKS[settings.evaluator.task]

    def check(self) -> None:
        alert, key = self.alert, self.key
        if alert.metric in RUN_METRICS:
            self._check_run_metric()
        else:
            if alert.metric in FAIRNESS:
                self._check_fairness()
            if self.predicted is None:
                for metric in kept_for(self.settings, alert):
                    check_metric(spec_of(self.settings), metric, f"{key}.metric")
            if alert.per is not None:
                raise self._requires("per", f'{key}.metric = "{VOLUME}"')
        if (alert.below is None) == (alert.above is None):
            got = "neither" if alert.below is None else "both"
            raise InputError(key, expected="below or above", got=got)
        for name, bound in (("below", alert.below), ("above", alert.above)):
            if bound is not None and not math.isfinite(bound):
                raise InputError(f"{key}.{name}", expected="a finite number", got=str(bound))
        windows = [window.name for window in self.settings.window]
        if alert.window is not None and alert.window not in windows:
            raise self._unknown("window", f"one of {', '.join(windows)}", alert.window, windows)
        self.window = window_of_alert(self.settings, alert)
        if self.predicted is not None:
            self._check_predicted(*self.predicted)
        if alert.slice == "any":
            self._check_any_slice()
        elif alert.metric not in FAIRNESS:
            self._check_slice()
        self._check_model()
        self._check_when()
        self._check_comparison()

    def _requires(self, name: str, other: str, remedy: str = "") -> OptionError:
        return OptionError.requires(f"{self.key}.{name}", other, remedy=remedy)

    def _conflict(self, name: str, other: str, remedy: str = "") -> OptionError:
        return OptionError.conflicts(f"{self.key}.{name}", other, remedy=remedy)

    def _unknown(self, name: str, expected: str, got: str, known: Sequence[str]) -> InputError:
        remedy = did_you_mean(got, known)
        return InputError(f"{self.key}.{name}", expected=expected, got=shown(got), remedy=remedy)

    def _never_anytime(self, more: str = "") -> OptionError:
        why = f"{self.about}, for which there is no interval that holds at every look"
        return self._conflict("when", why, f'set when = "certain"{more}')

    def _check_left_out(self, whys: Mapping[str, str]) -> None:
        """Raise OptionError for a key that the metric does not have, for these reasons."""
        for name, why in whys.items():
            if getattr(self.alert, name) is not None:
                raise self._conflict(name, f"{self.about}, which {why}", f"leave {name} out")

    def _check_run_metric(self) -> None:
        alert, is_count = self.alert, self.alert.metric in (LAG, VOLUME)
        if alert.metric == LABEL_COVERAGE and self.settings.join is None:
            raise self._requires("metric", "[join]", "without it every record holds its label")
        names = ("window", "slice", "against", "reference", "model")
        self._check_left_out({n: "is of the whole run" for n in names if getattr(alert, n)})
        if alert.per is not None and alert.metric not in (VOLUME, QUARANTINE):
            raise self._requires("per", f'{self.key}.metric = "{VOLUME}"')
        if alert.when == "anytime" or (alert.when == "certain" and is_count):
            why = "which is no share" if is_count else "which is of late only"
            raise self._conflict("when", f"{self.about}, {why}", 'set when = "value"')

    def _check_fairness(self) -> None:
        alert = self.alert
        if self.task.positive is None:
            raise OptionError.requires(self.about, 'evaluator.task = "binary"')
        if alert.slice == "any" or groups_of_alert(self.settings, alert) is None:
            kinds = ["+".join(slice_fields(part)) for part in self.settings.evaluator.slices]
            raise InputError(
                f"{self.key}.slice",
                expected="the key whose values are the groups, one of evaluator.slices "
                f"({', '.join(kinds) or 'none'})",
                got=shown(alert.slice) if alert.slice else "nothing",
                remedy=f"write slice = {shown(kinds[0])}"
                if kinds
                else "add it to evaluator.slices",
            )
        self._check_left_out(dict.fromkeys(("against", "reference", "model"), "compares groups"))
        if alert.when == "anytime":
            raise self._never_anytime()

    def _check_predicted(self, kind: str, of: str) -> None:
        """Raise InputError for a metric of predictions without labels that a run does not have."""
        settings, alert, about = self.settings, self.alert, self.about
        if not predicted_windows(settings):
            raise OptionError.requires(about, "[join] with predictions = true")
        alone = kind == "predictions"
        compared = "is of predictions alone" if alone else "is compared with [reference]"
        whys = {"against": compared, "reference": compared, "model": "is of the first model"}
        self._check_left_out(whys)
        path, now = settings.reference.state, predictions_of(settings, self.window)
        if alone:
            task = str(self.task.unlabelled)
            names = [row.name for row in shown_metrics(task) if row.name != "support"]
            needs_scores = of in names and find(of, task).needs_scores
        else:
            names = list(DRIFTS if kind == "drift" else EXPECTED)
            needs_scores = kind == "expected" or (of in DRIFTS and DRIFTS[of].input == "scores")
        if of not in names:
            expected = f"{shown(kind + '.')} and one of {', '.join(names)}"
            known = [f"{kind}.{name}" for name in names]
            raise self._unknown("metric", expected, alert.metric, known)
        if needs_scores and not spec_of(settings).has_scores:
            field = "score" if self.task.positive is not None else "proba"
            raise OptionError.requires(about, f"fields.{field}")
        if alone:
            return
        if path is None and kind_of_settings(self.window).name != "panes":
            raise OptionError.requires(
                f"{about} of window {shown(self.window.name)}, which has no panes,",
                "reference.state",
                remedy="or name a [[window]] with a length",
            )
        other = (
            evaluator_of(settings, self.window)
            if path is None
            else reference_of(open_predicted_reference(settings, path))
        )
        whole = path is None or other.options["window"]["kind"] == "cumulative"
        if alert.when == "anytime" and not whole:
            of_window = "reference.state, which is of a window"
            raise self._conflict("when", of_window, 'set when = "certain"')
        try:
            (drift_between if kind == "drift" else expected_of)(now.total, other.total, of)
        except MetricError as error:
            raise InputError(
                f"{self.key}.metric",
                expected="a metric that the run and its reference have",
                got=shown(alert.metric),
                remedy=str(error),
            ) from None
        except InputError as error:
            if path is not None:  # the panes of a run have no events yet
                raise error.of("reference.state", remedy=f"for {about}") from None

    def _check_model(self) -> None:
        alert, key, models = self.alert, self.key, self.settings.evaluator.models
        if alert.model is None:
            return
        if models is None:
            raise self._requires("model", "evaluator.models")
        if alert.model not in models[1:]:
            expected = f"one of {', '.join(models[1:])}, which is compared with {models[0]}"
            raise self._unknown("model", expected, alert.model, models[1:])
        for name in ("against", "reference"):
            if getattr(alert, name) is not None:
                raise self._conflict("model", f"{key}.{name}", "give one of them")
        if alert.slice == "any":
            raise self._conflict("model", f'{key}.slice = "any"', "name a slice")
        if alert.when == "value":
            return
        metric, window = find(alert.metric, self.settings.evaluator.task), self.window
        if kind_of_settings(window).name == "fading":
            raise self._conflict(
                "when",
                f"{key}.window, as the weights of {shown(window.name)} are not whole: no test of "
                "pairs is known for them",
                'set when = "value", or name another window',
            )
        if alert.when == "anytime" and not PAIRED_METHODS["anytime"].serves(metric):
            raise self._conflict(
                "when",
                f"{self.about}, for whose difference no interval holds at every look",
                'set when = "certain"; accuracy and error_rate have one',
            )
        if needs_pairs(metric):
            if is_bootstrapped(metric):
                raise self._conflict(
                    "when",
                    f"{self.about}, whose difference is resampled from all scores, which a run "
                    "does not do",
                    'set when = "value"; roc_auc has a formula',
                )
            if not self.settings.evaluator.paired_scores:
                given = f"when = {shown(alert.when)} with {shown(alert.metric)}"
                raise self._requires(given, "evaluator.paired_scores = true")

    def _check_when(self) -> None:
        alert, key = self.alert, self.key
        if alert.level is not None:
            if alert.when == "value":
                raise self._requires("level", f'{key}.when = "certain" or "anytime"')
            checked_level(alert.level, f"{key}.level")
        if alert.when == "value" or alert.metric in (*RUN_METRICS, *FAIRNESS):
            return
        certain, anytime, others = self._certainty()
        drift = self.predicted is not None and self.predicted.kind == "drift"
        if not certain and alert.model is None:
            lacks = "p-value" if drift else "interval"
            raise self._conflict(
                "when", f"{self.about}, which has no {lacks}", 'set when = "value"'
            )
        if drift and alert.when == "certain" and alert.above is None:
            raise self._conflict(
                'when = "certain"',
                f"{key}.below, as no p-value says that predictions have not drifted",
                'set above, or when = "value"',
            )
        if alert.when != "anytime":
            return
        if alert.model is None and not anytime:
            raise self._never_anytime(f"; {others} have one")
        if kind_of_settings(self.window).name != "cumulative":
            windows = self.settings.window
            whole = [one.name for one in windows if kind_of_settings(one).name == "cumulative"]
            remedy = (
                f"set window = {shown(whole[0])}" if whole else 'add [[window]] with name = "all"'
            )
            raise self._conflict(
                "when",
                f"{key}.window, as {shown(self.window.name)} forgets events: no interval holds at "
                "every look at a window that moves",
                f'{remedy} and no other key, which counts all events, or when = "certain"',
            )

    def _certainty(self) -> tuple[bool, bool, str]:
        """Whether the metric can be certain, and anytime; and metrics of its kind that can both."""
        task, metric = self.settings.evaluator.task, self.predicted
        if metric is not None and metric.kind == "drift":
            row, others = DRIFTS[metric.name], "drift.ks and drift.cramers_v"
            return row.has_p_value, "anytime" in row.methods, others
        if metric is None:
            family, others = find(self.alert.metric, task).family, "accuracy and roc_auc"
        else:
            others = "drift.ks and predictions.positive_rate"
            if metric.kind == "expected":
                return True, False, others
            family = find(metric.name, str(self.task.unlabelled)).family
        return family != "none", family in METHODS["anytime"].families, others

    def _check_comparison(self) -> None:
        alert, key, window = self.alert, self.key, self.window
        if alert.against is not None and alert.reference is not None:
            raise self._conflict("against", f"{key}.reference", "give one of them")
        for name in ("against", "reference"):
            if getattr(alert, name) is None:
                continue
            for word, value in (("when", "anytime"), ("slice", "any")):
                if getattr(alert, word) == value:
                    raise self._conflict(name, f'{key}.{word} = "{value}"')
        if alert.against is not None:
            spec = window_spec_of(window, self.settings.join)
            if not isinstance(spec, Panes):
                raise self._requires(
                    "against",
                    f"{key}.window of panes, got {shown(window.name)}",
                    "name a [[window]] with a length",
                )
            if spec.retain_us < 2 * spec.length_us:
                raise self._requires(
                    "against",
                    f"a window that keeps its panes for twice its length, and {shown(window.name)} "
                    f"keeps them for {duration_text(spec.retain_us)}",
                    f'set its retain = "{duration_text(2 * spec.length_us)}" or more',
                )
        if alert.reference is not None:
            try:
                open_reference(self.settings, alert.reference).report([alert.metric])
            except (StateError, MetricError) as error:
                raise InputError(
                    f"{key}.reference",
                    expected=f"a state file that has {alert.metric} as the run means it",
                    got=str(error),
                    remedy="streameval store export writes one",
                ) from None

    def _check_any_slice(self) -> None:
        given = 'slice = "any"'
        if not self.settings.evaluator.slices:
            raise self._requires(given, "evaluator.slices")
        if self.alert.when != "certain":
            remedy = "of many slices some are beyond any bound by chance"
            raise self._requires(given, f'{self.key}.when = "certain"', remedy)
        if self.predicted is not None:
            return
        if self.settings.intervals is False:
            raise self._requires(given, "intervals, which are false")
        if find(self.alert.metric, self.settings.evaluator.task).family == "bootstrap":
            raise self._conflict(
                given,
                f"{self.about}, whose interval has no formula and is not computed for every slice",
            )

    def _check_slice(self) -> None:
        alert = self.alert
        kinds = [slice_fields(part) for part in self.settings.evaluator.slices]
        given = [alert.slice] if isinstance(alert.slice, str) else list(alert.slice)
        unknown = isinstance(alert.slice, str) or not any(set(kind) == set(given) for kind in kinds)
        if alert.slice and unknown:
            listed = ", ".join("+".join(kind) for kind in kinds)
            raise InputError(
                f"{self.key}.slice",
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
