"""Two small streams that River ships: one of two classes, one of seven."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import datasets, linear_model, naive_bayes, preprocessing


def phishing() -> Iterator[dict[str, Any]]:
    """1,250 web pages, phishing or not, with the score of a logistic regression."""
    model = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    for features, label in datasets.Phishing():
        score = model.predict_proba_one(features).get(True, 0.5)
        model.learn_one(features, label)
        yield {"phishing": label, "score": score}


def image_segments() -> Iterator[dict[str, Any]]:
    """2,310 image patches of seven classes, with a probability for each class."""
    scaler = preprocessing.StandardScaler()
    model = scaler | naive_bayes.GaussianNB()
    for features, label in datasets.ImageSegments():
        shares = model.predict_proba_one(features)
        model.learn_one(features, label)
        if shares:  # before its first lesson the model knows no class
            yield {"label": label, "proba": shares}
