"""Worked examples from the literature, with the values that follow from them.

Confusions have the true classes in rows. Values are fractions where the
example allows, else decimals with the tolerance of their case. `about` says
where the printed source differs from what is written here, and why.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

F = Fraction
EXACT = 1e-12


@dataclass(frozen=True)
class LabelCase:
    """Events by label: a confusion, or the two columns, and metrics of it.

    `values` are metrics by registry name; `per_class` lists a family's values
    in the order of `labels`; `positive` is the class of the plain names.
    """

    name: str
    source: str
    labels: tuple[Any, ...]
    confusion: tuple[tuple[int, ...], ...]
    values: dict[str, Fraction | float] = field(default_factory=dict)
    per_class: dict[str, tuple[Fraction | int, ...]] = field(default_factory=dict)
    columns: tuple[tuple[Any, ...], tuple[Any, ...]] | None = None
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
        columns=((0, 1, 2, 2, 0), (0, 0, 2, 1, 0)),
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
        columns=((1, 1, 0, 1, 1, 0, 0, 1, 1, 0), (0, 1, 0, 1, 0, 0, 1, 1, 0, 0)),
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
