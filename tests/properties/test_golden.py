"""Worked examples from the literature, and each of the values that follow from them.

Confusions have the true classes in rows. Values are fractions where the example allows, else
decimals with the tolerance of their case. `about` says where the printed source differs from what
is written here, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streameval import metrics
from streameval.states.confusion import ConfusionCounts
from streameval.states.moments import ScoreMoments
from streameval.states.score_index import ScoreIndex

F = Fraction
EXACT = 1e-12


@dataclass(frozen=True)
class LabelCase:
    """A confusion, and metrics of it.

    `values` are metrics by registry name; `per_class` lists a family's values
    in the order of `labels`; `positive` is the class of the plain names.
    """

    name: str
    source: str
    labels: tuple[Any, ...]
    confusion: tuple[tuple[int, ...], ...]
    values: dict[str, Fraction | float] = field(default_factory=dict)
    per_class: dict[str, tuple[Fraction | int, ...]] = field(default_factory=dict)
    positive: Any = None
    tolerance: float = EXACT
    about: str = ""


LABEL_CASES = (
    LabelCase(
        "five events of three classes",
        "Kluska",
        (0, 1, 2),
        ((2, 0, 0), (1, 0, 0), (0, 1, 1)),
        {
            "accuracy": F(3, 5),
            "precision_weighted": F(2, 3),
            "recall_weighted": F(3, 5),
            "f1_weighted": F(44, 75),
        },
        {"precision": (F(2, 3), 0, 1), "recall": (1, 0, F(1, 2))},
    ),
    LabelCase(
        "heart disease",
        "Khalid",
        (0, 1),
        ((50, 10), (5, 100)),
        {
            "accuracy": F(150, 165),
            "error_rate": F(15, 165),
            "recall": F(100, 105),
            "fpr": F(10, 60),
            "fnr": F(5, 105),
            "specificity": F(50, 60),
            "precision": F(100, 110),
            "npv": F(50, 55),
            "f1": F(200, 215),
            "matthews_corrcoef": 0.8017837257372731,
            "cohen_kappa": 0.8,
        },
        positive=1,
    ),
    LabelCase(
        "no-ball, wide or regular",
        "Khalid",
        ("no-ball", "wide-ball", "regular"),
        ((8, 2, 5), (5, 10, 5), (20, 10, 270)),
        {
            "recall_macro": F(29, 45),
            "recall_micro": F(288, 335),
            "precision_micro": F(288, 335),
            "f1_micro": F(288, 335),
            "accuracy": F(288, 335),
            "recall_weighted": F(288, 335),
            "precision_macro": 0.5537518037518038,
            "f1_macro": 0.5801860974274767,
            "precision_weighted": 0.9015313045163792,
            "f1_weighted": 0.8771168786608828,
            "matthews_corrcoef": 0.4374100287300868,
            "cohen_kappa": 0.4230487358006596,
            "kappa_m": -0.3428571428571434,
        },
        {
            "recall": (F(8, 15), F(10, 20), F(270, 300)),
            "precision": (F(8, 33), F(10, 22), F(270, 280)),
        },
        about="the source has the classifier's output in rows: the transpose",
    ),
    LabelCase(
        "ten labels",
        "Classification Assessment",
        (1, 0),
        ((3, 3), (1, 3)),
        {
            "precision": F(3, 4),
            "recall": F(1, 2),
            "f1": F(3, 5),
            "accuracy": F(3, 5),
            "precision_macro": F(5, 8),
            "recall_macro": F(5, 8),
            "f1_macro": F(3, 5),
            "precision_weighted": F(13, 20),
        },
        {"precision": (F(3, 4), F(1, 2)), "recall": (F(1, 2), F(3, 4)), "support": (6, 4)},
        positive=1,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class ScoreCase:
    """Scores of positives and of negatives, and what follows from them."""

    name: str
    source: str
    positives: tuple[float, ...]
    negatives: tuple[float, ...]
    values: dict[str, Fraction | float]
    tolerance: float = EXACT


TWO_GAUSSIANS = ScoreCase(
    "thirteen scores of each class",
    "Kluska",
    (2, 9, 0, 1, 9, 9, 5, 0, 8, 5, 2, 9, 6),
    (-5, 3, 0, -2, -8, -2, -4, 5, -1, 6, -2, 1, -4),
    {"roc_auc": 0.8698224852071006},
    tolerance=1e-4,
)
# The source goes on with the deviations rounded to 3.5 and 3.8.
TWO_GAUSSIANS_MOMENTS = {
    "mean_positive": 5.0,
    "sd_positive": 3.4862,
    "mean_negative": -1.0,
    "sd_negative": 3.8431,
}
TWO_GAUSSIANS_MODEL = {
    "mean_positive": 5.0,
    "sd_positive": 3.5,
    "mean_negative": -1.0,
    "sd_negative": 3.8,
}
TWO_GAUSSIANS_RATES = {0.0: (0.3962, 0.9234), 4.0: (0.0941, 0.6124)}
"""Threshold to (FPR, TPR) of that model, to 1e-4."""

EIGHT_SCORES = ScoreCase(
    "eight scores and a table of thresholds",
    "Evaluation Metrics and Validation Methods",
    (0.8, 0.6, 0.2),
    (0.1, 0.9, 0.7, 0.6, 0.5),
    {"roc_auc": F(1, 2), "average_precision": 0.44285714285714284},
)
# By the rule score >= threshold. The source states the rule, and prints other
# false positives at 0.1 and from 0.3 to 0.9.
EIGHT_SCORES_TABLE = {
    "threshold": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "tp": (3, 3, 3, 2, 2, 2, 2, 1, 1, 0, 0),
    "fp": (5, 5, 4, 4, 4, 4, 3, 2, 1, 1, 0),
}

TIED_SCORES = ScoreCase(
    "a tie of both classes",
    "Classification Assessment",
    (0.9, 0.8, 0.8),
    (0.8, 0.1),
    {"roc_auc": F(5, 6)},
)
TIED_SCORES_TRAPEZOIDS = (F(1, 3), F(1, 2))
"""The areas under the ROC curve between its points, from the left."""

SCORE_CASES = (TWO_GAUSSIANS, EIGHT_SCORES, TIED_SCORES)


LABEL_VALUES = [(case, name) for case in LABEL_CASES for name in case.values]
CLASS_VALUES = [(case, name) for case in LABEL_CASES for name in case.per_class]
SCORE_VALUES = [(case, name) for case in SCORE_CASES for name in case.values]


def name_of(value):
    return value if isinstance(value, str) else value.name.replace(" ", "-")


def index_of(case: ScoreCase) -> ScoreIndex:
    return ScoreIndex(
        [(True, score) for score in case.positives] + [(False, score) for score in case.negatives]
    )


@pytest.mark.parametrize(("case", "name"), LABEL_VALUES, ids=name_of)
def test_label_values(case, name):
    counts = ConfusionCounts.from_matrix(case.confusion, case.labels)
    value = metrics.compute(name, counts, positive=case.positive)
    assert value == pytest.approx(float(case.values[name]), rel=0, abs=case.tolerance)


@pytest.mark.parametrize(("case", "name"), CLASS_VALUES, ids=name_of)
def test_values_of_each_class(case, name):
    counts = ConfusionCounts.from_matrix(case.confusion, case.labels)
    each = getattr(metrics, name)(counts, average=None)
    for label, expected in zip(case.labels, case.per_class[name], strict=True):
        assert each[label] == pytest.approx(float(expected), rel=0, abs=case.tolerance)


def test_ten_labels_as_a_binary_task():
    case = next(case for case in LABEL_CASES if case.name == "ten labels")
    counts = ConfusionCounts.from_matrix(case.confusion, case.labels)
    assert counts.binary(1) == (3, 1, 3, 3)
    assert metrics.support(counts, positive=1) == 6


@pytest.mark.parametrize(("case", "name"), SCORE_VALUES, ids=name_of)
def test_score_values(case, name):
    value = metrics.compute(name, index_of(case))
    assert value == pytest.approx(float(case.values[name]), rel=0, abs=case.tolerance)


def test_moments_of_two_gaussians():
    moments = ScoreMoments()
    for score in TWO_GAUSSIANS.positives:
        moments.update(True, score)
    moments.update_many([False] * len(TWO_GAUSSIANS.negatives), TWO_GAUSSIANS.negatives)
    fitted = metrics.binormal_model(moments)
    assert fitted._asdict() == pytest.approx(TWO_GAUSSIANS_MOMENTS, abs=1e-4)


@pytest.mark.parametrize("threshold", TWO_GAUSSIANS_RATES)
def test_rates_of_the_two_gaussians_model(threshold):
    model = metrics.BinormalModel(**TWO_GAUSSIANS_MODEL)
    fpr, tpr = TWO_GAUSSIANS_RATES[threshold]
    assert model.fpr(threshold) == pytest.approx(fpr, abs=1e-4)
    assert model.tpr(threshold) == pytest.approx(tpr, abs=1e-4)


def test_threshold_table_of_eight_scores():
    wanted = EIGHT_SCORES_TABLE
    table = metrics.threshold_table(index_of(EIGHT_SCORES), wanted["threshold"])
    for column in ("threshold", "tp", "fp"):
        assert getattr(table, column).tolist() == list(wanted[column])


def test_trapezoids_of_tied_scores():
    curve = metrics.roc_curve(index_of(TIED_SCORES), drop_intermediate=False)
    areas = np.diff(curve.fpr) * (curve.tpr[1:] + curve.tpr[:-1]) / 2
    expected = [float(area) for area in TIED_SCORES_TRAPEZOIDS]
    assert areas[areas > 0].tolist() == pytest.approx(expected, abs=1e-12)
