"""The worked examples: each of their values, by every code path."""

from __future__ import annotations

import numpy as np
import pytest

from streameval import metrics
from streameval.states.confusion import ConfusionCounts
from streameval.states.moments import ScoreMoments
from streameval.states.score_index import ScoreIndex
from tests.support import golden_cases as golden

LABEL_VALUES = [(case, name) for case in golden.LABEL_CASES for name in case.values]
CLASS_VALUES = [(case, name) for case in golden.LABEL_CASES for name in case.per_class]
SCORE_VALUES = [(case, name) for case in golden.SCORE_CASES for name in case.values]


def name_of(value):
    return value if isinstance(value, str) else value.name.replace(" ", "-")


def index_of(case: golden.ScoreCase) -> ScoreIndex:
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
    case = next(case for case in golden.LABEL_CASES if case.name == "ten labels")
    counts = ConfusionCounts.from_matrix(case.confusion, case.labels)
    assert counts.binary(1) == (3, 1, 3, 3)
    assert metrics.support(counts, positive=1) == 6


@pytest.mark.parametrize(("case", "name"), SCORE_VALUES, ids=name_of)
def test_score_values(case, name):
    value = metrics.compute(name, index_of(case))
    assert value == pytest.approx(float(case.values[name]), rel=0, abs=case.tolerance)


def test_moments_of_two_gaussians():
    moments = ScoreMoments()
    for score in golden.TWO_GAUSSIANS.positives:
        moments.update(True, score)
    moments.update_many(
        [False] * len(golden.TWO_GAUSSIANS.negatives), golden.TWO_GAUSSIANS.negatives
    )
    fitted = metrics.binormal_model(moments)
    assert fitted._asdict() == pytest.approx(golden.TWO_GAUSSIANS_MOMENTS, abs=1e-4)


@pytest.mark.parametrize("threshold", golden.TWO_GAUSSIANS_RATES)
def test_rates_of_the_two_gaussians_model(threshold):
    model = metrics.BinormalModel(**golden.TWO_GAUSSIANS_MODEL)
    fpr, tpr = golden.TWO_GAUSSIANS_RATES[threshold]
    assert model.fpr(threshold) == pytest.approx(fpr, abs=1e-4)
    assert model.tpr(threshold) == pytest.approx(tpr, abs=1e-4)


def test_threshold_table_of_eight_scores():
    wanted = golden.EIGHT_SCORES_TABLE
    table = metrics.threshold_table(index_of(golden.EIGHT_SCORES), wanted["threshold"])
    for column in ("threshold", "tp", "fp"):
        assert getattr(table, column).tolist() == list(wanted[column])


def test_trapezoids_of_tied_scores():
    curve = metrics.roc_curve(index_of(golden.TIED_SCORES), drop_intermediate=False)
    areas = np.diff(curve.fpr) * (curve.tpr[1:] + curve.tpr[:-1]) / 2
    expected = [float(area) for area in golden.TIED_SCORES_TRAPEZOIDS]
    assert areas[areas > 0].tolist() == pytest.approx(expected, abs=1e-12)
