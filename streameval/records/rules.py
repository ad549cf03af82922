"""The rules between the options of a Spec, as data; each front end writes them in its own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from streameval.errors import InputError, MetricError, OptionError, StreamevalError, shown
from streameval.events.time import TIME_UNITS
from streameval.metrics.registry import find
from streameval.records.spec import Spec
from streameval.records.wording import Wording
from streameval.tasks.registry import TASKS, one_of_tasks, task_names
from streameval.windows.kinds import kind_of
from streameval.windows.last import LAST


class Rule(NamedTuple):
    """A rule between options, and its error as it is written."""

    name: str
    broken: Callable[..., object]
    """Of a Spec, or of a Spec and a metric; a text is the ``{given}`` of the error."""
    error: str
    """``{name}`` is an option in the words of the front end, ``{name:VALUE}`` one with a value."""


RULES = (
    Rule(
        "a known task",
        lambda spec: spec.kind not in task_names() and shown(spec.kind),
        f"{{task}}: expected {one_of_tasks()}, got {{given}}",
    ),
    *(
        Rule(
            f"{name} of numbers",
            lambda spec, name=name: (
                getattr(spec, name) is not None and not {"score", "proba"} & {*spec.task_fields}
            ),
            f"{{{name}}} conflicts with {{this_task}}",
        )
        for name in ("score", "proba", "labels", "threshold", "max_scores")
    ),
    Rule(
        "score of the task",
        lambda spec: spec.has("score") and "score" not in spec.task_fields,
        "{score} conflicts with {this_task}",
    ),
    Rule(
        "a predicted value",
        lambda spec: not spec.has("y_pred") and "proba" not in spec.task_fields,
        "{this_task} requires {y_pred}; name the field that holds the prediction",
    ),
    Rule(
        "true labels of the task",
        lambda spec: spec.y_true is None and TASKS[spec.kind].unlabelled is None,
        "{this_task} requires {y_true}; predictions without it are those of labels",
    ),
    Rule(
        "separator of label sets",
        lambda spec: spec.label_separator is not None and "labels" not in spec.task_fields.values(),
        "{label_separator} requires {multilabel}",
    ),
    Rule(
        "threshold of each label",
        lambda spec: (
            isinstance(spec.threshold, Mapping)
            and "labels" not in spec.task_fields.values()
            and shown(spec.threshold)
        ),
        "{threshold}: expected a number, got {given}; one for each label requires {multilabel}",
    ),
    Rule(
        "a prediction",
        lambda spec: not (spec.has("y_pred") or spec.has_scores),
        "evaluate: expected {y_pred}, {score} or {proba}, got none of them; name the field that "
        "holds the prediction",
    ),
    Rule(
        "proba or score",
        lambda spec: spec.score is not None and spec.proba is not None,
        "{proba} conflicts with {score}",
    ),
    Rule(
        "threshold of label sets",
        lambda spec: (
            spec.threshold is not None
            and "labels" in spec.task_fields.values()
            and spec.proba is None
        ),
        "{threshold} requires {proba}",
    ),
    Rule(
        "threshold needs scores",
        lambda spec: (
            spec.threshold is not None
            and not (spec.has("score") or (spec.has_threshold and spec.proba is not None))
        ),
        "{threshold} requires {score}, or {proba} in a binary task",
    ),
    Rule(
        "two labels",
        lambda spec: (
            spec.binary
            and spec.labels is not None
            and len(spec.labels) != 2
            and ", ".join(map(str, spec.labels))
        ),
        "{labels}: expected two labels in a binary task, got {given}",
    ),
    Rule(
        "negative or labels",
        lambda spec: spec.negative is not None and spec.labels is not None,
        "{negative} conflicts with {labels}",
    ),
    Rule(
        "another negative",
        lambda spec: (
            spec.negative is not None
            and str(spec.negative) == str(spec.positive)
            and shown(spec.negative)
        ),
        "{negative}: expected another label than the positive one, got {given}",
    ),
    Rule(
        "utc needs time",
        lambda spec: spec.utc and spec.time is None,
        "{utc} requires {time}; add {time:FIELD}",
    ),
    *(
        Rule(
            f"{name} of the task",
            lambda spec, name=name: not spec.binary and getattr(spec, name) is not None,
            f"{{{name}}} conflicts with {{this_task}}",
        )
        for name in ("positive", "negative")
    ),
    Rule(
        "probabilities of several classes",
        lambda spec: not spec.probabilities and spec.binary,
        "{no_probabilities} requires {multiclass}; binary scores may be any numbers: name their "
        "field with {score}",
    ),
    Rule(
        "probabilities of the task",
        lambda spec: not spec.probabilities and spec.task_fields["y_true"] != "label",
        "{no_probabilities} requires {multiclass}",
    ),
    Rule(
        "no probabilities without proba",
        lambda spec: not spec.probabilities and spec.proba is None,
        "{no_probabilities} requires {proba}; add {proba:FIELD,FIELD}",
    ),
    Rule(
        "no probabilities without labels",
        lambda spec: not spec.probabilities and spec.labels is None,
        "{no_probabilities} requires {labels}; add {labels:LABEL,LABEL}",
    ),
    Rule(
        "a window of parts",
        lambda spec: spec.window is not None and not spec.timed and shown(spec.window),
        "{window}: expected None, or Panes or Fading of event time, got {given}, whose events "
        'depend on an order that parts do not share; use streameval.Panes("1h") with time=',
    ),
    Rule(
        "window needs time",
        lambda spec: spec.timed and spec.time is None,
        "{window} requires {time}; add {time:FIELD}, the field of the event's time",
    ),
    Rule(
        "time needs window",
        lambda spec: spec.time is not None and not spec.timed,
        "{time} requires a {window} of event time; add {timed_windows}, or leave {time} out",
    ),
    Rule(
        "max_scores needs scores",
        lambda spec: spec.max_scores is not None and not spec.has_scores,
        "{max_scores} requires {score} or {proba}",
    ),
    Rule(
        "max_scores or the last events",
        lambda spec: spec.max_scores is not None and kind_of(spec.window) is LAST,
        "{max_scores} conflicts with {last_window}; leave {max_scores} out: the window keeps its "
        "events anyhow",
    ),
    Rule(
        "time_unit needs time",
        lambda spec: spec.time_unit is not None and spec.time is None,
        "{time_unit} requires {time}; add {time:FIELD}",
    ),
    Rule(
        "a known time_unit",
        lambda spec: spec.time_unit not in (None, *TIME_UNITS) and shown(spec.time_unit),
        "{time_unit}: expected s, ms, us or ns, got {given}",
    ),
    Rule(
        "unit or the last events",
        lambda spec: spec.unit is not None and kind_of(spec.window) is LAST,
        "{unit} conflicts with {last_window}; use {panes_window}, or no {window}",
    ),
)

METRIC_RULES = (
    Rule(
        "metric of counts",
        lambda spec, metric: metric.ordered,
        "{place}: expected a metric of counts, got {given}; it is about the order of events, "
        "which partitions do not keep",
    ),
    Rule(
        "binary metric of scores",
        lambda spec, metric: metric.needs_scores and spec.binary and not spec.has_scores,
        "{metric} needs scores: name their field with {score}",
    ),
    Rule(
        "metric of scores",
        lambda spec, metric: metric.needs_scores and not spec.binary and not spec.has_scores,
        "{metric} needs probabilities: name their field with {proba}",
    ),
    Rule(
        "metric of a unit",
        lambda spec, metric: metric.ordered and spec.unit is not None,
        "{unit} conflicts with {metric}, which is about the order of events",
    ),
    Rule(
        "metric of a window",
        lambda spec, metric: (
            metric.ordered and spec.window is not None and not spec.window.keeps_order
        ),
        "{metric} is about the order of events, which this window does not keep: use "
        "{ordered_window}, or no {window}",
    ),
)
"""The rules of each metric that is named."""

UNKNOWN = Rule(
    "metric of the task",
    lambda spec: True,
    "{place}: expected a metric of a {kind} task, got {given}; {reason}",
)

_OF_ONE_FRONT = {"a known task", "a window of parts", "metric of counts", "metric of the task"}


def check_spec(spec: Spec) -> Spec:
    """The same Spec; raises InputError or MetricError, in the words of its front end."""
    for rule in RULES:
        if _holds(rule, spec.wording) and (given := rule.broken(spec)):
            raise _error(rule, spec, given=given)
    for n, name in enumerate((*(spec.metrics or ()), *spec.also_kept)):
        check_metric(spec, name, f"{spec.wording.where('metrics')}[{n}]")
    return spec


def check_metric(spec: Spec, name: str, place: str) -> None:
    """Raise InputError or MetricError for a metric that cannot be computed from the fields."""
    try:
        metric = find(name, spec.measured)
    except MetricError as error:
        if not _holds(UNKNOWN, spec.wording):
            raise
        raise _error(UNKNOWN, spec, given=shown(name), reason=error, place=place) from None
    for rule in METRIC_RULES:
        if _holds(rule, spec.wording) and rule.broken(spec, metric):
            raise _error(rule, spec, metric=name, given=shown(name), place=place)


def _holds(rule: Rule, wording: Wording) -> bool:
    """Whether a rule is one of the front end."""
    if wording.others is None:
        return rule.name not in _OF_ONE_FRONT
    return rule.name in wording.texts or rule.name in wording.others


class _Option(NamedTuple):
    """An option in the text of a rule."""

    wording: Wording
    name: str

    def __format__(self, value: str) -> str:
        return self.wording.option(self.name, value)


class _Words(dict[str, Any]):
    """The words of a rule's text: what is given, and any option by its name."""

    def __init__(self, wording: Wording, **given: Any) -> None:
        multilabel = wording.option("task", wording.text("multilabel"))
        named = {"multiclass": "a multi-class task", "multilabel": multilabel}
        super().__init__({**named, **wording.forms, **given})
        self._wording = wording

    def __missing__(self, name: str) -> _Option:
        return _Option(self._wording, name)


_RELATION = re.compile(r"(: expected | requires | conflicts with )")


def _error(rule: Rule, spec: Spec, **given: Any) -> StreamevalError:
    wording = spec.wording
    this_task = wording.option("task", wording.text(spec.kind))
    words = _Words(wording, kind=spec.kind, this_task=this_task, **given)
    text = wording.texts.get(rule.name, rule.error)
    # The text is split before a value of the caller is in it.
    text, _, remedy = text.partition("; ")
    remedy = remedy.format_map(words)
    option, *parts = _RELATION.split(text, maxsplit=1)
    if not parts:
        return MetricError(text.format_map(words))
    option, (relation, other) = option.format_map(words), parts
    if relation == ": expected ":
        expected, _, got = (part.format_map(words) for part in other.partition(", got "))
        return InputError(option.removesuffix("="), expected=expected, got=got, remedy=remedy)
    known: Any = relation.strip()
    return OptionError(option, known, other.format_map(words), remedy=remedy)
