"""Three streams of labelled predictions, each of an online model that learns as it predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from river import datasets, linear_model, naive_bayes, preprocessing

from streameval.demo.flights import departures, pipeline


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
        if shares:  # an untrained model has no class
            yield {"label": label, "proba": shares}


def flights(advance: Callable[[], None] = lambda: None) -> Iterator[dict[str, Any]]:
    """327,346 flights, late or not, each predicted at departure and learnt from afterwards.

    Diverted flights are omitted.

    Args:
        advance: Called after each flight, for a progress bar.

    Yields:
        Records of ``predictions.jsonl``.
    """
    model = pipeline()
    for flight in departures():
        if flight.late is None:
            continue
        score = model.predict_proba_one(flight.features).get(True, 0.5)
        model.learn_one(flight.features, flight.late)
        advance()
        yield {
            "departed": flight.departed.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "carrier": flight.features["carrier"],
            "origin": flight.features["origin"],
            "late": flight.late,
            "score": round(score, 6),
        }
