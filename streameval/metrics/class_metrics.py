"""How often the predicted label was right, for each class and on average.

TP, FP, FN and TN of a class: TP events are of it and predicted so, FP predicted but not of it, FN
of it but not predicted, TN neither.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal, Protocol, overload

from streameval.errors import MetricError, shown
from streameval.events.values import Label, Weight, canonical_label
from streameval.metrics.averages import (
    Average,
    Rule,
    averaged,
    check_choice,
    mean_of_scaled,
    pooled_counts,
    whole_cells,
    whole_counts,
)
from streameval.metrics.metric import BINARY, PREDICTIONS, Metric
from streameval.metrics.undefined import NO_EVENTS, Undefined, ratio, undefined_value
from streameval.states.confusion import ConfusionCounts
from streameval.states.confusion_parts.confusion_cells import FRACTION_BITS

__all__ = [
    "accuracy",
    "adjusted_balanced_accuracy",
    "balanced_accuracy",
    "error_rate",
    "expected_cost",
    "f1",
    "f1_macro",
    "fbeta",
    "fnr",
    "fowlkes_mallows",
    "fpr",
    "geometric_mean",
    "informedness",
    "jaccard",
    "markedness",
    "negative_likelihood_ratio",
    "npv",
    "positive_likelihood_ratio",
    "precision",
    "precision_macro",
    "prevalence_weighted_precision",
    "prevalence_weighted_recall",
    "recall",
    "recall_macro",
    "positive_rate",
    "specificity",
    "support",
]

_ONE_UNIT = 0.5**FRACTION_BITS


def accuracy(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The share of events whose predicted label is the true one, in [0, 1].

    Undefined before the first event. Cost: O(1).

    >>> accuracy(ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"]))
    0.875
    """
    total = counts.total
    if type(total) is int and total:
        return counts.correct / total
    return ratio(*pooled_counts(counts), NO_EVENTS, undefined)


def error_rate(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The share of events whose predicted label is not the true one, in [0, 1]: 1 − accuracy.

    Undefined before the first event. Cost: O(1).

    >>> error_rate(ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"]))
    0.125
    """
    total = counts.total
    if type(total) is int and total:
        return (total - counts.correct) / total
    correct, total = pooled_counts(counts)
    return ratio(total - correct, total, NO_EVENTS, undefined)


_MACRO_DOCSTRING = """The mean {name} of the classes: ``{name}(counts, average="macro")``.

In [0, 1]; undefined before the first event. `undefined` is the value of each class that
{without}; by default the mean leaves them out. Cost: O(1) for each class touched since the
last read.

>>> {name}_macro(ConfusionCounts.from_matrix([[1, 1], [0, 1]], ["cat", "dog"]))
{value}
"""


def _macro_mean(name: str, classes: str, without: str, value: float) -> Callable[..., float]:
    """The mean of a ratio whose sum and number of terms are attributes of :class:`LabelSums`."""

    def mean(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
        sums = counts.sums
        defined: int = getattr(sums, classes)
        if not defined:
            # Some class is true and some class predicted as soon as there is an event.
            return undefined_value(NO_EVENTS, undefined)
        scaled: int | float = getattr(sums, name)
        if undefined is None:
            return scaled / defined * _ONE_UNIT
        left = len(counts.labels) - defined
        # Never None, as some class has a value.
        return mean_of_scaled(scaled, defined, left, undefined)  # type: ignore[return-value]

    text = _MACRO_DOCSTRING.format(name=name, without=without, value=value)
    made: Callable[..., float] = _named(mean, f"{name}_macro", text)
    return made


def _named(function: Any, name: str, text: str) -> Any:
    """A function made from a row, as if it had been written in this module."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


precision_macro = _macro_mean("precision", "with_predicted", "was never predicted", 0.75)
recall_macro = _macro_mean("recall", "with_true", "no event has", 0.75)
f1_macro = _macro_mean("f1", "active", "no event has or was predicted", 0.6666666666666666)


# The table. Of a class with c correct, t true and p predicted of s events:
# TP = c, FP = p − c, FN = t − c, TN = s − t − p + c.

PRECISION = Rule(
    name="precision",
    title="Precision, or positive predictive value",
    definition="share of the events predicted positive that are: TP / (TP + FP)",
    parts=lambda c, t, p, s: (c, p),
    share=True,
    needs=("predicted",),
    example="average=None -> {'cat': 0.6, 'dog': 0.8}",
    source="scikit-learn's ``precision_score``",
    synonyms=("ppv", "positive_predictive_value"),
    # With one label an event, a false positive of one class is a false
    # negative of another: pooled, these are the share predicted right, or wrong.
    fast={"macro": precision_macro, "micro": accuracy},
)
RECALL = Rule(
    name="recall",
    title="Recall, or sensitivity, true positive rate, hit rate, coverage",
    definition="share of the positive events predicted so: TP / (TP + FN)",
    parts=lambda c, t, p, s: (c, t),
    share=True,
    needs=("true",),
    example='positive="cat" -> 0.75',
    note="Its weighted average is the accuracy, bit for bit.",
    source="scikit-learn's ``recall_score``",
    synonyms=("coverage", "hit_rate", "sensitivity", "tpr", "true_positive_rate"),
    # A class's support cancels its denominator.
    fast={"macro": recall_macro, "micro": accuracy, "weighted": accuracy},
)
F1 = Rule(
    name="f1",
    title="F1 measure",
    definition="harmonic mean of precision and recall: 2 TP / (2 TP + FP + FN)",
    parts=lambda c, t, p, s: (2 * c, t + p),
    needs=("either",),
    example='positive="cat" -> 0.6666666666666666',
    source="scikit-learn's ``f1_score``",
    synonyms=("f_measure", "dice", "dice_coefficient", "f_score"),
    fast={"macro": f1_macro, "micro": accuracy},
)
JACCARD = Rule(
    name="jaccard",
    title="Jaccard index, or intersection over union",
    definition="share of the events positive or predicted so that are both: TP / (TP + FP + FN)",
    parts=lambda c, t, p, s: (c, t + p - c),
    share=True,
    needs=("either",),
    example="average=None -> {'cat': 0.5, 'dog': 0.5714285714285714}",
    source="scikit-learn's ``jaccard_score``; Jaccard (1912)",
    synonyms=("iou", "jaccard_index", "csi", "critical_success_index"),
)
FOWLKES_MALLOWS = Rule(
    name="fowlkes_mallows",
    title="Fowlkes–Mallows index, or G-measure",
    definition="geometric mean of precision and recall",
    parts=lambda c, t, p, s: (c * c, t * p),
    needs=("predicted", "true"),
    root=True,
    example='positive="cat" -> 0.6708203932499369',
    note="It lies between F1 and the arithmetic mean of precision and recall.",
    source="Fowlkes & Mallows (1983)",
    synonyms=("g_measure", "fm", "fowlkes_mallows_index"),
)
SPECIFICITY = Rule(
    name="specificity",
    title="Specificity, or true negative rate",
    definition="share of the negative events predicted so: TN / (TN + FP)",
    parts=lambda c, t, p, s: (s - t - p + c, s - t),
    share=True,
    needs=("others true",),
    example='positive="dog" -> 0.75',
    source="Altman & Bland (1994), Diagnostic tests 1",
    synonyms=("tnr", "selectivity", "true_negative_rate"),
)
FPR = Rule(
    name="fpr",
    title="False positive rate, or false alarm rate",
    definition="share of the negative events predicted positive: FP / (FP + TN)",
    parts=lambda c, t, p, s: (p - c, s - t),
    share=True,
    needs=("others true",),
    example='positive="dog" -> 0.25',
    direction="down",
    note="1 − specificity.",
    source="Fawcett (2006), An introduction to ROC analysis",
    synonyms=("fallout", "fall_out", "false_positive_rate", "false_alarm_rate"),
)
FNR = Rule(
    name="fnr",
    title="False negative rate, or miss rate",
    definition="share of the positive events predicted negative: FN / (FN + TP)",
    parts=lambda c, t, p, s: (t - c, t),
    share=True,
    needs=("true",),
    example='positive="cat" -> 0.25',
    direction="down",
    note="1 − recall.",
    source="Fawcett (2006), An introduction to ROC analysis",
    synonyms=("miss_rate", "false_negative_rate"),
    fast={"micro": error_rate, "weighted": error_rate},
)
NPV = Rule(
    name="npv",
    title="Negative predictive value",
    definition="share of the events predicted negative that are: TN / (TN + FN)",
    parts=lambda c, t, p, s: (s - t - p + c, s - p),
    share=True,
    needs=("others predicted",),
    example='positive="cat" -> 0.8',
    source="Altman & Bland (1994), Diagnostic tests 2",
)
POSITIVE_RATE = Rule(
    name="positive_rate",
    title="Positive rate, or selection rate, detection prevalence",
    definition="share of all events that is predicted positive: (TP + FP) / all",
    parts=lambda c, t, p, s: (p, s),
    share=True,
    needs=("all",),
    example='positive="cat" -> 0.5',
    direction="none",
    note="Demographic parity compares it between groups.",
    source="Fairlearn's ``selection_rate``",
    synonyms=(
        "selection_rate",
        "alert_rate",
        "positive_prediction_rate",
        "detection_prevalence",
        "predicted_positive_rate",
    ),
)
INFORMEDNESS = Rule(
    name="informedness",
    title="Informedness, or Youden's J",
    definition="recall + specificity - 1 (Youden's J)",
    parts=lambda c, t, p, s: (c * (s - t - p + c) - (p - c) * (t - c), t * (s - t)),
    needs=("true", "others true"),
    example='positive="cat" -> 0.4166666666666667',
    low=-1.0,
    note="0 for predictions that do not depend on the true class.",
    source="Youden (1950), Index for rating diagnostic tests; Powers (2011)",
    synonyms=("youden", "youden_j", "youdens_j", "bookmaker_informedness"),
)
MARKEDNESS = Rule(
    name="markedness",
    title="Markedness",
    definition="precision + npv - 1",
    parts=lambda c, t, p, s: (c * (s - t - p + c) - (p - c) * (t - c), p * (s - p)),
    needs=("predicted", "others predicted"),
    example='positive="cat" -> 0.4',
    low=-1.0,
    note="Informedness with truth and prediction exchanged.",
    source="Powers (2011), Evaluation: from precision, recall and F-measure",
)
POSITIVE_LIKELIHOOD_RATIO = Rule(
    name="positive_likelihood_ratio",
    title="Positive likelihood ratio, LR+",
    definition="recall / fpr",
    parts=lambda c, t, p, s: (c * (s - t), t * (p - c)),
    needs=("true", "others true", "false positives"),
    example='positive="cat" -> 2.25',
    high=math.inf,
    note="How many times likelier a positive event is predicted positive than a negative one.",
    source="Deeks & Altman (2004), Diagnostic tests 4: likelihood ratios",
)
NEGATIVE_LIKELIHOOD_RATIO = Rule(
    name="negative_likelihood_ratio",
    title="Negative likelihood ratio, LR−",
    definition="fnr / specificity",
    parts=lambda c, t, p, s: ((t - c) * (s - t), t * (s - t - p + c)),
    needs=("true", "others true", "true negatives"),
    example='positive="cat" -> 0.375',
    high=math.inf,
    direction="down",
    note="How many times likelier a positive event is predicted negative than a negative one.",
    source="Deeks & Altman (2004), Diagnostic tests 4: likelihood ratios",
)


@functools.lru_cache
def _fbeta_rule(beta: float = 1.0) -> Rule:
    """The rule of F-beta, exact for the float that `beta` is; its limits at both ends."""
    if not beta or math.isinf(beta):
        limit = RECALL if beta else PRECISION
        return FBETA._replace(parts=limit.parts, needs=limit.needs)
    top, bottom = (Fraction(float(beta)) ** 2).as_integer_ratio()
    # (1+β²)TP / ((1+β²)TP + β²FN + FP) with TP + FN = t and TP + FP = p.
    return FBETA._replace(parts=lambda c, t, p, s: ((top + bottom) * c, top * t + bottom * p))


# The classes that have a value do not depend on a beta between the limits.
FBETA = Rule(
    name="fbeta",
    title="F-beta measure",
    definition="F-measure in which recall counts beta times as much (1 unless given)",
    parts=F1.parts,
    needs=("either",),
    example='beta=2, positive="cat" -> 0.7142857142857143',
    note="(1 + β²)·TP / ((1 + β²)·TP + β²·FN + FP); `beta` above 1 favours recall. Its limits are\n"
    "the precision at 0 and the recall at infinity.",
    source="scikit-learn's ``fbeta_score``; van Rijsbergen (1979)",
    synonyms=("f_beta",),
    given=_fbeta_rule,
)

_DOCSTRING = """{title}.

    {definition}

One class is positive, all others together are negative.
{note}
Args:
    counts: The events.
    {params}average: ``"binary"``, the value of the class `positive`;
        ``"macro"``, the mean over the classes; ``"micro"``, the value of
        their counts added up; ``"weighted"``, the mean weighted by how often
        each is true; None, a dictionary of every class's own value.
    positive: The class, for ``"binary"``.
    labels: The classes that an average is of, or that None returns, in this
        order; None: all. Other classes still count as the rest. A class
        that was never seen has no events.
    undefined: A number in place of a value whose denominator is 0. A mean
        leaves classes without a value out unless it is given;
        :func:`~streameval.metrics.registry.left_out` names them.

Returns:
    A number in [{low}, {high}, or a dictionary of them. Undefined for a class
    that is {undefined_for}.

Raises:
    MetricError: No `positive` with ``"binary"``, `labels` with it, or an unknown
        average{raises}.

Cost:
    O(1) for one class and micro, O(classes) else.

Source:
    {source}.

>>> counts = ConfusionCounts.from_matrix([[3, 1], [2, 4]], ["cat", "dog"])
>>> {name}(counts, {options})
{value}
"""


def _docstring(rule: Rule, params: str = "", raises: str = "") -> str:
    options, value = rule.example.split(" -> ")
    return _DOCSTRING.format(
        name=rule.name,
        title=rule.title,
        definition=rule.definition,
        note=f"\n{rule.note}\n" if rule.note else "",
        low=f"{rule.low:g}".replace("-", "−"),
        high="∞)" if math.isinf(rule.high) else f"{rule.high:g}]",
        undefined_for=rule.undefined_for,
        source=rule.source,
        params=params,
        raises=raises,
        options=options,
        value=value,
    )


class ClassMetric(Protocol):
    """A metric of one class: a number, or with ``average=None`` one for each class."""

    rule: Rule

    @property
    def __name__(self) -> str: ...

    @overload
    def __call__(
        self,
        counts: ConfusionCounts,
        *,
        average: Average = "binary",
        positive: Label | None = None,
        labels: Iterable[object] | None = None,
        undefined: float | None = None,
        **own: float,
    ) -> float: ...

    @overload
    def __call__(
        self, counts: ConfusionCounts, *, average: None, **options: Any
    ) -> dict[Label, float]: ...


def _of_rule(rule: Rule, **texts: str) -> Callable[[Callable[..., Any]], ClassMetric]:
    """Gives a function the name and docstring of its row of the table; examples are doctests."""

    def named(function: Any) -> ClassMetric:
        function.rule = rule
        made: ClassMetric = _named(function, rule.name, _docstring(rule, **texts))
        return made

    return named


def class_metric(rule: Rule) -> ClassMetric:
    """The function of a row of the table."""
    fast_macro = rule.fast.get("macro")

    @_of_rule(rule)
    def metric(
        counts: ConfusionCounts,
        *,
        average: Average | None = "binary",
        positive: Label | None = None,
        labels: Iterable[object] | None = None,
        undefined: float | None = None,
    ) -> float | dict[Label, float]:
        if fast_macro is not None and average == "macro" and labels is None:
            return fast_macro(counts, undefined=undefined)
        return averaged(rule, counts, average, positive, undefined, labels)

    return metric


precision = class_metric(PRECISION)
recall = class_metric(RECALL)
f1 = class_metric(F1)
jaccard = class_metric(JACCARD)
fowlkes_mallows = class_metric(FOWLKES_MALLOWS)
specificity = class_metric(SPECIFICITY)
fpr = class_metric(FPR)
fnr = class_metric(FNR)
npv = class_metric(NPV)
positive_rate = class_metric(POSITIVE_RATE)
informedness = class_metric(INFORMEDNESS)
markedness = class_metric(MARKEDNESS)
positive_likelihood_ratio = class_metric(POSITIVE_LIKELIHOOD_RATIO)
negative_likelihood_ratio = class_metric(NEGATIVE_LIKELIHOOD_RATIO)


def checked_beta(beta: Any) -> float:
    """The parameter of F-beta; raises MetricError for what is no number from 0."""
    if not isinstance(beta, Real) or isinstance(beta, bool) or not float(beta) >= 0:
        raise MetricError(f"beta: expected a number of at least 0, got {shown(beta)}")
    return float(beta)


@_of_rule(
    FBETA,
    params="beta: A number of at least 0: above 1 favours recall, below 1 precision.\n    ",
    raises=",\n        or another `beta`",
)
def fbeta(
    counts: ConfusionCounts,
    *,
    beta: float = 1.0,
    average: Average | None = "binary",
    positive: Label | None = None,
    labels: Iterable[object] | None = None,
    undefined: float | None = None,
) -> float | dict[Label, float]:
    return averaged(_fbeta_rule(checked_beta(beta)), counts, average, positive, undefined, labels)


@overload
def support(
    counts: ConfusionCounts, *, positive: Label | None = None, undefined: float | None = None
) -> float: ...


@overload
def support(
    counts: ConfusionCounts, *, average: None, positive: Label | None = None, undefined: Any = None
) -> dict[Label, Weight]: ...


def support(
    counts: ConfusionCounts,
    *,
    average: Literal["binary"] | None = "binary",
    positive: Label | None = None,
    undefined: float | None = None,
) -> float | dict[Label, Weight]:
    """The weight of the events that are truly a class, or of all events.

    Of the class `positive`, or of all together; with ``average=None`` a dictionary of each class's
    own. A number of at least 0, always defined. Raises MetricError for another average, as a
    support has no mean over classes. Cost: O(1); O(classes) for each class's own.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [0, 4]], ["cat", "dog"])
    >>> support(counts, positive="cat"), support(counts), support(counts, average=None)
    (4.0, 8.0, {'cat': 4, 'dog': 4})
    """
    if average is None:
        labels, _, true, _ = counts.per_class()
        return dict(zip(labels, true, strict=True))
    check_choice("average of support", average, ("binary", None))
    return float(counts.total if positive is None else counts.true_count(positive))


def prevalence_weighted_precision(
    counts: ConfusionCounts, *, undefined: float | None = None
) -> float:
    """Correct over predicted, each class weighted by how often it is true: Σ Cᵢᵢtᵢ / Σ pᵢtᵢ.

    The ratio of two weighted sums, where ``precision(average="weighted")`` is the weighted mean
    of ratios. In [0, 1]; undefined while no class is both true of some event and predicted for
    some. Cost: O(classes).

    >>> counts = ConfusionCounts.from_matrix([[1, 1], [0, 2]], ["cat", "dog"])
    >>> prevalence_weighted_precision(counts)
    0.75
    """
    _, correct, true, predicted, total = whole_counts(counts)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    return ratio(
        sum(c * t for c, t in zip(correct, true, strict=True)),
        sum(p * t for p, t in zip(predicted, true, strict=True)),
        "no class that was predicted is true of any event",
        undefined,
    )


def prevalence_weighted_recall(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """Correct over true, each class weighted by how often it is true: Σ Cᵢᵢtᵢ / Σ tᵢ².

    The ratio of two weighted sums; the weighted mean of recalls is the accuracy. In [0, 1];
    undefined before the first event. Cost: O(classes).

    >>> counts = ConfusionCounts.from_matrix([[1, 1], [0, 4]], ["cat", "dog"])
    >>> prevalence_weighted_recall(counts)
    0.9
    """
    _, correct, true, _, _ = whole_counts(counts)
    return ratio(
        sum(c * t for c, t in zip(correct, true, strict=True)),
        sum(t * t for t in true),
        NO_EVENTS,
        undefined,
    )


def balanced_accuracy(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The mean recall of the classes that some event has.

    The accuracy if they were equally frequent. In [0, 1]; undefined before the first event.
    Cost: O(1) for each class touched since the last read.

    >>> balanced_accuracy(ConfusionCounts.from_matrix([[1, 1], [0, 8]], ["cat", "dog"]))
    0.75
    """
    sums = counts.sums
    if sums.with_true:
        return sums.recall / sums.with_true * _ONE_UNIT
    return undefined_value(NO_EVENTS, undefined)


def adjusted_balanced_accuracy(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The balanced accuracy beyond a guess's 1/K, as a share of what is left to 1.

        (B − 1/K) / (1 − 1/K)

    with B the balanced accuracy and K the number of classes that some event has. Guessing, or
    always predicting one class, has B = 1/K. In [−1/(K − 1), 1], so from −1 with two classes; 0
    for guessing. Undefined while all events are of one class. Cost: as :func:`balanced_accuracy`.

    Source: scikit-learn's ``balanced_accuracy_score(adjusted=True)``.

    >>> adjusted_balanced_accuracy(ConfusionCounts.from_matrix([[1, 1], [0, 8]], ["cat", "dog"]))
    0.5
    """
    sums = counts.sums
    classes = sums.with_true
    if classes > 1:
        # In integers while they are: a perfect prediction is 1, and one class always is 0.
        beyond = sums.recall - (1 << FRACTION_BITS)
        return beyond / (classes - 1) * _ONE_UNIT
    if not classes:
        return undefined_value(NO_EVENTS, undefined)
    whole = whole_counts(counts)
    only = next(label for label, true in zip(whole.labels, whole.true, strict=True) if true)
    return undefined_value("every event is truly {}", undefined, only)


def expected_cost(
    counts: ConfusionCounts,
    *,
    costs: Mapping[Any, Mapping[Any, float]] | None = None,
    undefined: float | None = None,
) -> float:
    """The mean cost of an event by its true and its predicted class, Σ C(i, j)·cost(i, j) / s.

    `costs` maps the true class to a mapping from the predicted class to the cost of such an event,
    at least 0. A right prediction that is left out costs 0, and a wrong one has no cost. None: 1
    for each wrong prediction, which is the error rate. Raises MetricError for another mapping. From
    0 up, in the unit of the costs; undefined before the first event. nan with a reason, whatever
    `undefined` is, where an event has a wrong prediction without a cost. Cost: O(cells).

    Source: Elkan (2001), The foundations of cost-sensitive learning.

    >>> counts = ConfusionCounts.from_matrix([[3, 1], [2, 4]], ["ham", "spam"])
    >>> expected_cost(counts, costs={"ham": {"spam": 5}, "spam": {"ham": 1}}), expected_cost(counts)
    (0.7, 0.3)
    """
    if costs is None:
        return error_rate(counts, undefined=undefined)
    table = _cost_table(costs)
    cells = [(true, predicted, weight) for true, predicted, weight in whole_cells(counts) if weight]
    total = sum(weight for _, _, weight in cells)
    paid = Fraction(0)
    for true, predicted, weight in cells:
        cost = table.get((true, predicted))
        if cost is not None:
            paid += weight * cost
        elif true != predicted:
            return Undefined("costs= has no cost of {} predicted {}", true, predicted)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    return float(paid / total)


def _cost_table(costs: object) -> dict[tuple[Label, Label], Fraction]:
    if not isinstance(costs, Mapping) or not all(isinstance(c, Mapping) for c in costs.values()):
        raise MetricError(
            "costs: expected a mapping from the true class to a mapping from the predicted "
            f"class to a cost, got {shown(costs)}"
        )
    table: dict[tuple[Label, Label], Fraction] = {}
    for true, row in costs.items():
        for predicted, cost in row.items():
            pair = canonical_label(true, "costs"), canonical_label(predicted, "costs")
            number = isinstance(cost, Real) and not isinstance(cost, bool)
            if not number or not 0 <= cost < math.inf:
                raise MetricError(f"costs: expected numbers of at least 0, got {shown(cost)}")
            table[pair] = Fraction(float(cost))
    return table


def geometric_mean(counts: ConfusionCounts, *, undefined: float | None = None) -> float:
    """The K-th root of the product of the K classes' recalls, in [0, 1]; 0 if one recall is 0.

    Undefined before the first event, and while a class that was predicted is true of no event.
    Cost: O(classes).

    >>> geometric_mean(ConfusionCounts.from_matrix([[1, 1], [1, 1]], ["cat", "dog"]))
    0.5
    """
    labels, correct, true, _, total = whole_counts(counts)
    if not total:
        return undefined_value(NO_EVENTS, undefined)
    if not all(true):
        return undefined_value("no event is truly {}", undefined, labels[true.index(0)])
    if not all(correct):
        return 0.0
    if len(labels) == 2:
        return math.sqrt(correct[0] * correct[1] / (true[0] * true[1]))
    # The product of many recalls underflows; fsum rounds once, so the result
    # does not depend on the order of the classes.
    logs = math.fsum(math.log(c / t) for c, t in zip(correct, true, strict=True))
    return math.exp(logs / len(labels))


AVERAGES: Mapping[str, str] = {
    "macro": "the mean of the {}' {}",
    "micro": "{1} of the {0}' counts added up",
    "weighted": "the mean of the {}' {}, each weighted by its support",
}


def rule_row(rule: Rule, name: str, **columns: Any) -> Metric:
    """A registry's row of a rule, or of an average of it, with the rule's range."""
    return Metric(
        name=name, low=rule.low, high=rule.high, direction=rule.direction, rule=rule, **columns
    )


_WITH_AVERAGES: list[ClassMetric] = [precision, recall, f1, fbeta, jaccard, fowlkes_mallows]
_WITH_AVERAGES += [specificity, fpr, fnr, npv]
_OF_ONE_CLASS: list[ClassMetric] = [informedness, markedness, positive_rate]
_OF_ONE_CLASS += [positive_likelihood_ratio, negative_likelihood_ratio]


def class_rows(*, averages: bool) -> Iterator[Metric]:
    """The registry's rows of the metrics of a class: its own, and each average's (``f1_macro``)."""
    for function in _WITH_AVERAGES if averages else _OF_ONE_CLASS:
        rule = function.rule
        params = (*(("beta",) if rule is FBETA else ()), "labels")
        row = functools.partial(rule_row, rule, state="confusion")
        yield row(
            rule.name,
            function=function,
            definition=rule.definition,
            tasks=BINARY | PREDICTIONS if rule is POSITIVE_RATE else BINARY,
            params=(*params, "average") if averages else (),
            needs_positive=True,
            synonyms=rule.synonyms,
            family="proportion" if rule.share else "confusion",
        )
        for average, words in AVERAGES.items() if averages else ():
            fast = rule.fast.get(average)
            pooled = average == "micro" or fast in (accuracy, error_rate)
            general = functools.partial(function, average=average)
            yield row(
                f"{rule.name}_{average}",
                function=fast or general,
                general=general if fast else None,
                definition=words.format("classes", rule.name),
                params=params,
                fixed=MappingProxyType({"average": average}),
                average="micro" if pooled else average,
                # Pooled, every rule is a monotone function of the accuracy.
                family="proportion" if pooled else "confusion",
            )
