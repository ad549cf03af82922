"""The evaluators and windows that settings describe, and the metrics that are kept and shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from streameval.errors import ConfigError, StateError, StreamevalError, shown
from streameval.evaluator.comparison import Comparison, Evaluation, load_any
from streameval.evaluator.evaluator import Evaluator, load
from streameval.evaluator.fairness import FAIRNESS, KEPT_METRIC
from streameval.evaluator.predictions import Predictions
from streameval.metrics.registry import USUAL_METRICS, find, task_metrics
from streameval.records.spec import Spec
from streameval.records.wording import KEYS
from streameval.service.config.settings import (
    DEFAULT_MAX_SCORES,
    EXACT,
    KEYS_OF_ANY_WINDOW,
    RUN_METRICS,
    AlertSettings,
    Duration,
    JoinSettings,
    PredictedMetric,
    RunSettings,
    WindowSettings,
    interval_level,
)
from streameval.tasks.registry import TASKS
from streameval.uncertainty.drift import DRIFTS
from streameval.uncertainty.expected import EXPECTED, state_read
from streameval.windows.kinds import KINDS, window_spec
from streameval.windows.window import WindowKind, WindowSpec

_MOST_MAIN = 6

_Loaded = TypeVar("_Loaded", bound=Evaluation)

KEPT = "kept"
"""The key of what windows keep in a :func:`fingerprint`."""

PREDICTED = "predictions"
"""The key of the options of the predictions of each window."""


def spec_of(settings: RunSettings, window: WindowSettings | None = None) -> Spec:
    """What a run evaluates, of the first of its models and in one of its windows; unchecked."""
    chosen, fields = settings.evaluator, settings.fields
    kept = retention_of(settings, window or WindowSettings(name="all"))
    names = kept_metrics(settings)
    return Spec(
        y_true=fields.y_true or "",
        y_pred=_of_one_model(fields.y_pred),
        score=_of_one_model(fields.score),
        proba=fields.proba,
        weight=fields.weight,
        time=fields.time or fields.label.time,
        time_unit=fields.time_unit,
        task=chosen.task,
        labels=None if chosen.labels is None else tuple(chosen.labels),
        metrics=None if names is None else tuple(names),
        window=None if window is None else window_spec_of(window, settings.join),
        slices=tuple(tuple(slice_fields(part)) for part in chosen.slices),
        max_slices=chosen.max_slices,
        max_scores=None if kept.max_scores == EXACT else kept.max_scores,
        intervals=kept.interval_sums,
        probabilities=chosen.probabilities,
        more={
            "bins": chosen.bins,
            "labels": chosen.labels,
            "time_unit": "us",  # of the event times in the arguments of its evaluator
            **{name: getattr(chosen, name) for name in TASKS[chosen.task].options},
        },
        wording=KEYS,
    )


def _of_one_model(paths: str | dict[str, str] | None) -> str | None:
    return next(iter(paths.values()), None) if isinstance(paths, dict) else paths


def evaluator_of(settings: RunSettings, window: WindowSettings) -> Evaluator:
    """A new evaluator of one model for a window; its event times are microseconds."""
    spec = spec_of(settings, window)
    return Evaluator(spec.kind, **spec.arguments)


class RetentionOptions(msgspec.Struct, frozen=True):
    """What a window keeps beside the counts that its metrics need."""

    max_scores: int | Literal["exact"] = EXACT
    interval_sums: bool = False


def retention_of(settings: RunSettings, window: WindowSettings) -> RetentionOptions:
    """What a new window keeps: by its own keys, those of ``[evaluator]``, and the defaults."""
    # Pairs of scores are kept exactly, and so is what a task keeps that has no scores.
    scored = {"score", "proba"} & TASKS[settings.evaluator.task].fields.keys()
    usual = DEFAULT_MAX_SCORES if scored and not settings.evaluator.paired_scores else EXACT
    most = window.max_scores or settings.evaluator.max_scores or usual
    sums = window.interval_sums
    if sums is None:
        sums = interval_level(settings) is not None
        sums = sums or any(alert.when != "value" for alert in settings.alert)
    return RetentionOptions(most, sums)


def with_stored_defaults(
    settings: RunSettings, stored: Mapping[str, RetentionOptions]
) -> RunSettings:
    """The settings with what each window keeps filled in: as stored, unless they say it."""
    windows = []
    for window in settings.window:
        was = stored.get(window.name)
        if was is not None:
            given = window.max_scores or settings.evaluator.max_scores
            sums = window.interval_sums
            window = msgspec.structs.replace(
                window,
                max_scores=given or was.max_scores,
                interval_sums=was.interval_sums if sums is None else sums,
            )
        kept = retention_of(settings, window)
        windows.append(msgspec.structs.replace(window, **msgspec.structs.asdict(kept)))
    return msgspec.structs.replace(settings, window=windows)


def comparison_of(evaluator: Evaluator, settings: RunSettings) -> Comparison:
    """A new comparison of a run's models, each set up as this evaluator."""
    models = settings.evaluator.models
    assert models is not None
    options = evaluator.options
    del options["temporal"]
    options["window"] = window_spec(options["window"])
    return Comparison(models, **options, paired_scores=settings.evaluator.paired_scores)


def open_evaluators(settings: RunSettings) -> dict[str, Evaluation]:
    """What a run counts in, new, by its name in a store; raises ConfigError.

    An evaluator or comparison for each window, and then the windows' predictions.
    """
    found: dict[str, Evaluation] = {}
    try:
        for window in settings.window:
            one = evaluator_of(settings, window)
            several = settings.evaluator.models is not None
            found[window.name] = comparison_of(one, settings) if several else one
        for name, predicted in predicted_windows(settings).items():
            found[name] = predictions_of(settings, predicted.window)
        return found
    except StreamevalError as error:
        raise ConfigError(f"evaluator: {error}") from None


class PredictedWindow(NamedTuple):
    """A window whose predictions are counted before their labels, and the model they are of."""

    window: WindowSettings
    model: str
    """Empty where the run has one."""


def predicted_windows(settings: RunSettings) -> dict[str, PredictedWindow]:
    """The windows whose predictions are counted before their labels, by their names in a store."""
    if settings.join is None or not settings.join.predictions:
        return {}
    if TASKS[settings.evaluator.task].unlabelled is None:
        return {}
    return {
        predictions_name(window.name, model): PredictedWindow(window, model)
        for window in settings.window
        for model in settings.evaluator.models or [""]
    }


def predictions_name(window: str, model: str = "") -> str:
    """The name, in a store, of the predictions of a window and a model."""
    name = f"{window}:predictions"  # that of a window has no colon
    return f"{name}:{model}" if model else name


def predictions_of(settings: RunSettings, window: WindowSettings) -> Predictions:
    """New predictions of one model for a window, with all that metrics of predictions need."""
    spec = spec_of(settings, window)
    return Predictions(spec.kind, **{**spec.arguments, "metrics": None})


def open_reference(settings: RunSettings, path: str) -> Evaluator:
    """The evaluator of a state file that alerts compare with; StateError if its metrics differ."""
    return _opened(settings, path, load)


def open_predicted_reference(settings: RunSettings, path: str) -> Evaluation:
    """What predictions are compared with, out of a state file of any kind; as above."""
    return _opened(settings, path, load_any)


@lru_cache(maxsize=4)
def _read(read: Callable[[str], Any], path: str, *version: int) -> Any:
    return read(path)


def _opened(settings: RunSettings, path: str, read: Callable[[str], _Loaded]) -> _Loaded:
    """The state of a file, read once by the checks, snapshots and alerts of a run."""
    try:
        about = os.stat(path)
    except OSError:
        reference = read(path)  # which says why
    else:
        reference = _read(read, path, about.st_ino, about.st_size, about.st_mtime_ns)
    mine = evaluator_of(settings, WindowSettings(name="all")).options
    theirs = reference.options
    for key in ("task", "positive", "threshold", "bins", "labels"):
        if mine.get(key) != theirs.get(key) and not (key == "labels" and mine.get(key) is None):
            raise StateError(
                f"{path}: expected a state of {key} {shown(mine.get(key))}, as the run's, "
                f"got {shown(theirs.get(key))}"
            )
    return reference


def kind_of_settings(window: WindowSettings) -> WindowKind:
    """The kind of window whose first key is given; all events where there is none."""
    return next(iter([*given_kinds(window), *KINDS.values()]))


def window_of_alert(settings: RunSettings, alert: AlertSettings) -> WindowSettings:
    """The window that an alert watches: the first, unless it names one."""
    windows = {window.name: window for window in settings.window}
    return settings.window[0] if alert.window is None else windows[alert.window]


def given_kinds(window: WindowSettings) -> list[WindowKind]:
    """The kinds of window whose first key is given: one at most, in a valid window."""
    given = window_keys(window)
    return [kind for kind in KINDS.values() if {key.name for key in kind.keys[:1]} & given.keys()]


def window_keys(window: WindowSettings) -> dict[str, Any]:
    """The keys of a ``[[window]]`` that are given and say which events count."""
    given = msgspec.structs.asdict(window)
    return {
        key: value
        for key, value in given.items()
        if value is not None and key not in KEYS_OF_ANY_WINDOW
    }


def window_spec_of(window: WindowSettings, join: JoinSettings | None) -> WindowSpec:
    """The window that a ``[[window]]`` names."""
    kind, given = kind_of_settings(window), window_keys(window)
    if kind.waits:
        # Unless it is given, a pane accepts events for as long as a label is waited for; without a
        # join, for the window's own length, because partitions of a topic are not read in step.
        wait = given[kind.keys[0].name] if join is None else join.wait
        given.setdefault(kind.waits, wait)
    spec: WindowSpec = kind.spec(**given)
    return spec


def window_spec_text(window: WindowSettings) -> str:
    """The window in words."""
    return kind_of_settings(window).label(window_keys(window))


def step_of(window: WindowSettings) -> dict[str, Duration]:
    """The key of the step by which a window advances, with its value; empty without steps."""
    given = window_keys(window)
    names = [name for name in kind_of_settings(window).steps if name in given]
    return {name: given[name] for name in names[:1]}


class AheadLimit(NamedTuple):
    """The largest ``fields.ahead`` that a key of the configuration allows."""

    ahead_us: int
    key: str
    value: str


def ahead_limit(settings: RunSettings) -> AheadLimit | None:
    """How far ahead of the clock a record's time may be; None: the settings set no limit."""
    # Half of join.wait, and of each window its pane or half-life: so a record ahead of the clock
    # moves a window by one pane or half-life at most.
    limits = []
    if settings.join is not None:
        wait = settings.join.wait
        limits.append(AheadLimit(wait.us // 2, "join.wait", wait))
    for n, window in enumerate(settings.window):
        for name, span in step_of(window).items():
            limits.append(AheadLimit(span.us, f"window[{n}].{name}", span))
    return min(limits, default=None)


def groups_of_alert(settings: RunSettings, alert: AlertSettings) -> list[str] | None:
    """The keys whose values are the groups of an alert on fairness; None: there are no such."""
    kinds = {"+".join(kind): kind for kind in map(slice_fields, settings.evaluator.slices)}
    return kinds.get(alert.slice) if isinstance(alert.slice, str) else None


def kept_for(settings: RunSettings, alert: AlertSettings) -> list[str]:
    """The metrics for which an evaluator keeps what an alert reads of events with labels."""
    if alert.metric in RUN_METRICS:
        return []
    if alert.metric in FAIRNESS:
        return [KEPT_METRIC]
    predicted = PredictedMetric.of(alert.metric)
    if predicted is None:
        return [alert.metric]
    kind, name = predicted
    task = settings.evaluator.task
    if kind == "expected" and name in EXPECTED:
        state = state_read(name, binary=TASKS[task].positive is not None)
        of_scores = next(row.name for row in task_metrics(task) if row.states == (state,))
        return [name, of_scores]  # what came is compared with what was expected
    if kind == "drift" and name in DRIFTS and settings.reference.state is None:
        return ["roc_auc" if DRIFTS[name].input == "scores" else KEPT_METRIC]
    return []


def kept_metrics(settings: RunSettings) -> list[str] | None:
    """The metrics that evaluators are built for: the published and the alerts'; None: all."""
    names = settings.evaluator.metrics
    if names is None:
        return None
    return sorted({*names, *(name for one in settings.alert for name in kept_for(settings, one))})


def main_metrics(settings: RunSettings) -> list[str]:
    """The metrics that every slice is shown with: six of the kept or usual ones, and alerts'."""
    task = settings.evaluator.task
    names = settings.evaluator.metrics
    if names is None:
        scores = spec_of(settings).has_scores
        usual = USUAL_METRICS["slices", task]
        names = [name for name in usual if scores or not find(name, task).needs_scores]
    watched = [
        alert.metric
        for alert in settings.alert
        if alert.slice and alert.metric in kept_for(settings, alert)
    ]
    return list(dict.fromkeys([*names[:_MOST_MAIN], *watched]))


def slice_fields(part: str | list[str]) -> list[str]:
    """The keys of one of ``evaluator.slices``: a key, or those of a combination."""
    return [part] if isinstance(part, str) else part


def fingerprint(settings: RunSettings) -> dict[str, str]:
    """The settings that a store's counts depend on: key -> value as JSON."""
    given = settings.evaluator
    values: dict[str, Any] = {
        "evaluator.task": given.task,
        "evaluator.labels": given.labels,
        # With the metrics of alerts: states depend on what is kept, not on what is shown.
        "evaluator.metrics": kept_metrics(settings),
        "evaluator.bins": given.bins,
        "evaluator.slices": given.slices,
        "evaluator.max_slices": given.max_slices,
    }
    if given.models is not None:
        values["evaluator.models"] = given.models
        values["evaluator.paired_scores"] = given.paired_scores
    if not given.probabilities:
        values["evaluator.probabilities"] = False
    for name in TASKS[given.task].options:
        values[f"evaluator.{name}"] = getattr(given, name)
    fields = settings.fields
    values |= {
        "window": {
            window.name: window_spec_of(window, settings.join).to_options()
            for window in settings.window
        },
        KEPT: {window.name: retention_of(settings, window) for window in settings.window},
        "join": settings.join is not None,
        # The path of a field may change; whether there is one decides what is counted.
        "fields.y_pred": fields.y_pred is not None,
        "fields.scores": "proba" if fields.proba else "score" if fields.score else None,
        "fields.weight": fields.weight is not None,
    }
    predicted = {
        name: predictions_of(settings, window).options
        for name, (window, _) in predicted_windows(settings).items()
    }
    if predicted:
        values[PREDICTED] = predicted
    return {
        key: msgspec.json.encode(value, order="sorted").decode() for key, value in values.items()
    }
