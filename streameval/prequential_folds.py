"""Test, then train: evaluation of an online model on the stream that it learns from.

One model, several to be compared, or clones of one that share the stream out between
testing and training (Bifet et al. 2015, "Efficient Online Evaluation of Big Data
Stream Classifiers", KDD). Labels may be delayed. River is not imported:
a model is any object with ``predict_one`` or ``predict_proba_one``, and
``learn_one``.
"""

from __future__ import annotations

import heapq
import inspect
import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeAlias

from streameval.errors import InputError, StateError, listed, shown
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.merging import merge
from streameval.evaluator.reports import Tabular, number
from streameval.evaluator.track import Track
from streameval.events.time import duration, event_time, iso_time
from streameval.metrics.registry import USUAL_METRICS
from streameval.metrics.undefined import json_number, reason_of
from streameval.tasks.multilabel import predicted_scores, predicted_set
from streameval.tasks.registry import TASKS

__all__ = ["FoldRow", "PrequentialResult", "Validation", "prequential"]

Validation: TypeAlias = Literal["cross", "split", "bootstrap"]

_VALIDATIONS = ("cross", "split", "bootstrap")


class FoldRow(NamedTuple):
    """A metric over the folds, in both ways of putting them together."""

    metric: str
    pooled: float
    """Of all folds' counts added up, then divided once."""
    mean: float
    """Mean of the folds' own values (of those that are defined)."""
    deviation: float
    """Sample standard deviation of the folds' values; ``nan`` below two."""
    folds: tuple[float, ...]
    reason: str = ""
    """Why the pooled value is undefined."""


@dataclass(frozen=True, slots=True, repr=False)
class PrequentialResult(Tabular):
    """The result of a prequential run.

    Adding the counts of all folds and dividing once (``pooled``) is not the
    same as averaging the folds' metrics (``mean``): where a class is rare the
    mean of F1 values is biased, and the pooled value is not (Forman & Scholz
    2010). Both are shown, under their names.
    """

    evaluator: Any
    """All folds merged; None where their windows cannot be (``Last``). Of several models the
    comparison, whose own reports have their metrics."""
    folds: tuple[Evaluator, ...]
    """One evaluator for each fold; of several models none."""
    models: tuple[Any, ...]
    events: int
    """Events of the stream."""
    unpredicted: int
    """Tests in which the model gave no prediction, as before it has learned anything."""
    validation: str
    track: Track | None = None
    """Metrics by the number of tests, where ``track=`` was given."""

    def rows(self, metrics: Iterable[str] | None = None) -> list[FoldRow]:
        """The metrics over the folds; the task's main ones unless named."""
        if not self.folds:
            return []
        if metrics is None:
            known = {row.metric for row in self.folds[0].report()}
            usual = USUAL_METRICS["folds", self.folds[0].task]
            metrics = [name for name in usual if name in known]
        return [self._row(name) for name in metrics]

    def _columns(self) -> Mapping[str, Sequence[Any]]:
        if isinstance(self.evaluator, Comparison):
            return self.evaluator.report()._columns()
        rows = self.rows()
        names = [name for name in FoldRow._fields if name != "folds"]
        return {name: [getattr(row, name) for row in rows] for name in names}

    def _row(self, name: str) -> FoldRow:
        values = tuple(float(fold[name]) for fold in self.folds)
        defined = [value for value in values if not math.isnan(value)]
        merged = self.evaluator if isinstance(self.evaluator, Evaluator) else None
        pooled: float = math.nan if merged is None else merged[name]
        reason = "these windows cannot be merged" if merged is None else reason_of(pooled)
        return FoldRow(
            name,
            float(pooled),
            statistics.fmean(defined) if defined else math.nan,
            statistics.stdev(defined) if len(defined) > 1 else math.nan,
            values,
            reason,
        )

    def to_dict(self, metrics: Iterable[str] | None = None) -> dict[str, Any]:
        """Plain data for JSON."""
        run = {"events": self.events, "unpredicted": self.unpredicted}
        if isinstance(self.evaluator, Comparison):
            return {**run, **self.evaluator.report(metrics).to_dict()}
        return {
            "validation": self.validation,
            **run,
            "folds": len(self.folds),
            "metrics": {
                row.metric: {
                    "pooled": json_number(row.pooled),
                    "mean": json_number(row.mean),
                    "standard_deviation": json_number(row.deviation),
                    "folds": [json_number(value) for value in row.folds],
                    **({"reason": row.reason} if row.reason else {}),
                }
                for row in self.rows(metrics)
            },
        }

    def _cells(self, *, short: bool = False) -> tuple[list[str], list[list[str]]]:
        if isinstance(self.evaluator, Comparison):
            return self.evaluator.report()._cells(short=short)
        rows = self.rows()
        if len(self.folds) == 1:
            return ["metric", "value"], [[row.metric, number(row.pooled)] for row in rows]
        header = ["metric", "pooled", "mean of folds", "± sd"]
        return header, [
            [row.metric, number(row.pooled), number(row.mean), f"{row.deviation:.2g}"]
            for row in rows
        ]

    def __str__(self) -> str:
        table = Tabular.__str__(self)
        if len(self.folds) <= 1:
            return table
        return (
            f"{table}\npooled: the {len(self.folds)} folds' counts added, then divided once; "
            "mean of folds: each fold's value, averaged"
        )


class _Pending(NamedTuple):
    """A prediction waiting for its label, ordered by the time of the label."""

    due: int
    number: int
    x: Any
    y: Any
    tests: tuple[tuple[int, Any], ...]
    training: tuple[tuple[int, int], ...]


def prequential(
    model: Any,
    stream: Iterable[tuple[Any, Any]],
    evaluator: Evaluator | Comparison,
    *,
    delay: int | str | timedelta | None = None,
    moment: str | Callable[[Any], object] | None = None,
    time_unit: str | None = None,
    slices: Sequence[str] | Callable[[Any], Mapping[str, object]] | None = None,
    folds: int = 1,
    validation: Validation = "cross",
    seed: int = 0,
    advance: Callable[[], None] | None = None,
    progress: bool = False,
    track: int | None = None,
) -> PrequentialResult:
    """Predict each event, evaluate the prediction once its label is there, then learn.

    The numbers are those of River's ``evaluate.progressive_val_score``. Of equal
    probabilities the predicted label is the first in the model's mapping, as in
    River's ``predict_one``; a binary evaluator of another threshold than 0.5
    predicts by that threshold, which River has not.

    Args:
        model: Has ``learn_one(x, y)`` and ``predict_proba_one(x)`` or
            ``predict_one(x)``; with ``folds``, also ``clone()``. Any River
            classifier, regressor, multi-label classifier or pipeline. It is trained in place
            (its clones are, where there are folds). Several models are a mapping from the
            names of a comparison to them: each predicts every event and learns from it.
        stream: Pairs of features and label, in order.
        evaluator: Where predictions are counted. With folds it stays as it
            is, and each fold gets an empty one set up in the same way. Several
            models require a :class:`~streameval.Comparison`; it counts the events for
            which all of them have a prediction, by their labels only where one of
            them gives no probabilities.
        delay: When labels arrive: after so many further events, or after a
            duration (``"2h"``), by ``moment``. None: at once. Labels still
            outstanding at the end of the stream are all delivered then.
            A duration means the same in River. A number of events does not:
            River counts positions in the stream, so that its 1 is at once and
            its ``delay=3`` is 2 here.
        moment: The event's time: a key of the features, or a function of
            them. Passed on as ``event_time``.
        time_unit: Unit of numeric moments: ``"s"``, ``"ms"``, ….
        slices: Keys of the features, or a function of them, passed on as
            ``slices``.
        folds: How many models run side by side.
        validation: How they share the stream. ``"cross"``: an event tests one
            model (drawn at random) and trains the others. ``"split"``: it
            trains one and tests the others. ``"bootstrap"``: it trains each
            model with a weight drawn from Poisson(1), and tests those that
            drew 0.
        seed: Of the draws.
        advance: Called after each event, for a progress bar of one's own.
        progress: Show a progress bar on the standard error, to the end where the stream has
            a length.
        track: Read the main metrics after every so many tests; the result's ``track`` is their
            table. For one evaluator without folds.

    Returns:
        The evaluators, merged and separately, and the trained models.

    Raises:
        InputError: A bad option, or a label or prediction that the evaluator
            refuses.

    >>> class Majority:
    ...     def __init__(self):
    ...         self.seen = {}
    ...     def predict_one(self, x):
    ...         return max(self.seen, key=self.seen.get) if self.seen else None
    ...     def learn_one(self, x, y):
    ...         self.seen[y] = self.seen.get(y, 0) + 1
    >>> stream = [({}, label) for label in "aabaa"]
    >>> result = prequential(Majority(), stream, Evaluator(task="multiclass"))
    >>> result.evaluator["accuracy"], result.unpredicted
    (0.75, 1)

    Two models on the same events:

    >>> class Last(Majority):
    ...     def learn_one(self, x, y):
    ...         self.seen = {y: 1}
    >>> models = {"majority": Majority(), "last": Last()}
    >>> result = prequential(models, stream, Comparison(("majority", "last"), "multiclass"))
    >>> print(result.evaluator.difference("accuracy"))
    accuracy of last less majority: -0.25 [-0.7165, 0.3832], p = 1
    """
    # Not by the model's type: a model may be a mapping itself.
    several = isinstance(evaluator, Comparison)
    if isinstance(evaluator, Comparison):
        _check_models(model, evaluator, folds)
    if type(folds) is not int or not 1 <= folds <= 1_000:
        raise InputError("folds", expected="a number of folds from 1 to 1000", got=shown(folds))
    if not isinstance(validation, str) or validation not in _VALIDATIONS:
        raise InputError("validation", expected=" or ".join(_VALIDATIONS), got=shown(validation))
    for one in model.values() if several else (model,):
        _check_model(one, folds)
    if not isinstance(evaluator, (Evaluator, Comparison)):
        raise InputError("evaluator", expected="an Evaluator", got=shown(evaluator))
    if type(seed) is not int:
        raise InputError("seed", expected="a whole number", got=shown(seed))
    if advance is not None and not callable(advance):
        raise InputError("advance", expected="a function or None", got=shown(advance))
    if type(progress) is not bool:
        raise InputError("progress", expected="True or False", got=shown(progress))
    tracked = _track(track, evaluator, folds)
    wait, by_time = _delay(delay, moment)
    when = _reader("moment", moment)
    models: list[Any] = [model] if folds == 1 else [model.clone() for _ in range(folds)]
    evaluators: list[Any] = [evaluator]
    if folds > 1:
        assert isinstance(evaluator, Evaluator)
        evaluators = [evaluator.emptied() for _ in range(folds)]
    run = _Run(models, evaluators, _slicing(slices), when, time_unit, tracked)
    shares = _shares(folds, validation, random.Random(seed))
    waiting: list[_Pending] = []
    events = 0
    for x, y in _pairs(_shown_progress(stream) if progress else stream):
        now = events
        if by_time:
            assert when is not None
            now = event_time(when(x), time_unit, "moment")
        while waiting and waiting[0].due <= now:
            run.learn(heapq.heappop(waiting))
        tested, training = next(shares)
        tests = tuple((fold, run.predict(fold, x)) for fold in tested)
        pending = _Pending(now + wait, events, x, y, tests, training)
        if wait:
            heapq.heappush(waiting, pending)
        else:
            run.learn(pending)
        events += 1
        if advance is not None:
            advance()
    while waiting:
        run.learn(heapq.heappop(waiting))
    return PrequentialResult(
        _pooled(evaluators),
        () if several else tuple(evaluators),
        tuple(model.values()) if several else tuple(models),
        events,
        run.unpredicted,
        validation if folds > 1 else "prequential",
        tracked,
    )


def _track(every: int | None, evaluator: Evaluator | Comparison, folds: int) -> Track | None:
    if every is None:
        return None
    if isinstance(evaluator, Evaluator) and folds == 1:
        return evaluator.track(every)
    raise InputError(
        "track",
        expected="one evaluator without folds",
        got="a Comparison" if isinstance(evaluator, Comparison) else f"folds={folds}",
        remedy="conflicts with folds= and with several models; leave one out",
    )


def _shown_progress(stream: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The stream, with a bar that follows it."""
    from rich.console import Console  # takes 30 ms to load
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("events"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    total = len(stream) if isinstance(stream, Sized) else None
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield from bar.track(stream, total=total)


def _check_models(models: object, comparison: Comparison, folds: int) -> None:
    """Raise InputError where several models are not those of the comparison."""
    if not isinstance(models, Mapping) or set(models) != set(comparison.models):
        raise InputError(
            "model",
            expected=f"a mapping with the models of the comparison, {', '.join(comparison.models)}",
            got=", ".join(map(shown, models)) if isinstance(models, Mapping) else shown(models),
        )
    if folds != 1:
        raise InputError("folds", expected="1 with several models", got=shown(folds))


def _pooled(evaluators: list[Any]) -> Evaluator | Comparison | None:
    if len(evaluators) == 1:
        only: Evaluator | Comparison = evaluators[0]
        return only
    try:
        return merge(evaluators)
    except StateError:
        return None


def _pairs(stream: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    expected = "pairs of features and label"
    try:
        events = iter(stream)
    except TypeError:
        raise InputError("stream", expected=expected, got=shown(stream)) from None
    for position, event in enumerate(events):
        try:
            x, y = event
        except (TypeError, ValueError):
            raise InputError(
                "stream", expected=expected, got=shown(event), position=position
            ) from None
        yield x, y


def _check_model(model: Any, folds: int) -> None:
    lacks = [] if hasattr(model, "learn_one") else ["learn_one"]
    if not hasattr(model, "predict_one") and not hasattr(model, "predict_proba_one"):
        lacks.append("predict_one")
    if folds > 1 and not hasattr(model, "clone"):
        lacks.append("clone")
    if lacks:
        raise InputError(
            "model",
            expected="learn_one(x, y) and predict_one(x) or predict_proba_one(x)"
            + (", and with folds clone()" if folds > 1 else ""),
            got=f"{type(model).__name__} without {' and '.join(lacks)}",
            remedy="the predictions of a model that learns from batches go into "
            "Evaluator.update_many"
            if hasattr(model, "fit")
            else "pass a Comparison to compare several models"
            if type(model) is dict
            else "",
        )


def _delay(delay: int | str | timedelta | None, moment: object) -> tuple[int, bool]:
    """How long a label takes, in events or in microseconds, and whether it is the latter."""
    if delay is None:
        return 0, False
    if isinstance(delay, int) and not isinstance(delay, bool):
        if delay < 0:
            raise InputError("delay", expected="0 events or more", got=shown(delay))
        # Due before the event after the next `delay` ones is predicted.
        return (delay + 1 if delay else 0), False
    if moment is None:
        raise InputError(
            "delay",
            expected="moment= beside a delay by time",
            got="no moment",
            remedy="say where an event's time is: moment='departed'",
        )
    return duration(delay, "delay"), True


def _reader(
    name: str, source: str | Callable[[Any], object] | None
) -> Callable[[Any], object] | None:
    if source is None or callable(source):
        return source
    if not isinstance(source, str):
        raise InputError(name, expected="a key of the features or a function", got=shown(source))

    def read(x: Any) -> object:
        try:
            return x[source]
        except (KeyError, TypeError, IndexError):
            raise InputError(
                name, expected=f"features with {shown(source)}", got=shown(x)
            ) from None

    return read


def _slicing(
    slices: Sequence[str] | Callable[[Any], Mapping[str, object]] | None,
) -> Callable[[Any], Mapping[str, object]] | None:
    if slices is None or callable(slices):
        return slices
    keys = [slices] if isinstance(slices, str) else listed(slices, "slices", "keys or a function")
    if not all(isinstance(key, str) for key in keys):
        raise InputError("slices", expected="keys or a function", got=shown(slices))
    return lambda x: {key: x.get(key) if isinstance(x, Mapping) else x[key] for key in keys}


Shares: TypeAlias = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]
"""Which folds an event tests, and pairs of fold and weight that it trains."""


def _shares(folds: int, validation: str, draw: random.Random) -> Iterator[Shares]:
    all_folds = tuple(range(folds))
    while True:
        if folds == 1:
            yield (0,), ((0, 1),)
        elif validation == "bootstrap":
            weights = [_poisson(draw) for _ in all_folds]
            yield (
                tuple(fold for fold in all_folds if not weights[fold]),
                tuple((fold, weights[fold]) for fold in all_folds if weights[fold]),
            )
        else:
            one = draw.randrange(folds)
            others = tuple(fold for fold in all_folds if fold != one)
            if validation == "cross":
                yield (one,), tuple((fold, 1) for fold in others)
            else:
                yield others, ((one, 1),)


def _poisson(draw: random.Random) -> int:
    """A draw from Poisson(1), by Knuth's product of uniforms."""
    limit = math.exp(-1.0)
    count, product = 0, draw.random()
    while product > limit:
        count += 1
        product *= draw.random()
    return count


@dataclass
class _Run:
    """The models and their evaluators, and how an event's fields are found."""

    models: list[Any]
    evaluators: list[Any]
    slices: Callable[[Any], Mapping[str, object]] | None
    moment: Callable[[Any], object] | None
    time_unit: str | None
    track: Track | None
    unpredicted: int = 0

    def __post_init__(self) -> None:
        self.several = isinstance(self.evaluators[0], Comparison)
        every = list(self._every(self.models[0]))
        # Probabilities where the models have them and the evaluator keeps them.
        self.shares = self.evaluators[0].wants_scores and all(
            hasattr(model, "predict_proba_one") for model in every
        )
        # Of any other threshold the evaluator makes the label out of the score.
        self.names_label = self.evaluators[0].options.get("threshold", 0.5) == 0.5
        self.weighs = "w" in inspect.signature(every[0].learn_one).parameters

    def _every(self, model: Any) -> Iterable[Any]:
        """The models of a comparison, or the one model."""
        return model.values() if self.several else (model,)

    def predict(self, fold: int, x: Any) -> Any:
        """A prediction, or of several models each by its name; None where a model has none."""
        model = self.models[fold]
        if not self.several:
            return self._predict(model, x)
        predictions = {name: self._predict(one, x) for name, one in model.items()}
        missing = any(prediction is None for prediction in predictions.values())
        return None if missing else predictions

    def _predict(self, model: Any, x: Any) -> Any:
        """A label or a mapping of probabilities."""
        if self.shares:
            try:
                return model.predict_proba_one(x) or None
            except NotImplementedError:
                # River's classifiers without probabilities have the method all the same.
                self.shares = False
        return model.predict_one(x)

    def learn(self, pending: _Pending) -> None:
        """Count the predictions of an event whose label has arrived, then train on it."""
        for fold, prediction in pending.tests:
            if prediction is None:
                self.unpredicted += 1
            else:
                self._count(self.evaluators[fold], pending, prediction)
        for fold, weight in pending.training:
            if weight == 1:
                for model in self._every(self.models[fold]):
                    model.learn_one(pending.x, pending.y)
                continue
            learn = self.models[fold].learn_one
            if self.weighs:
                learn(pending.x, pending.y, w=weight)
            else:
                for _ in range(weight):
                    learn(pending.x, pending.y)

    def _count(self, evaluator: Any, pending: _Pending, prediction: Any) -> None:
        fields: dict[str, Any] = {}
        if self.slices is not None:
            fields["slices"] = self.slices(pending.x)
        if self.moment is not None:
            moment = self.moment(pending.x)
            if isinstance(moment, (int, float)) and self.time_unit is not None:
                moment = iso_time(event_time(moment, self.time_unit, "moment"))
            fields["event_time"] = moment
        if not isinstance(evaluator, Comparison):
            evaluator.update(pending.y, **self._arguments(prediction, evaluator), **fields)
            if self.track is not None:
                self.track.tick()
            return
        arguments = {name: self._arguments(one, evaluator) for name, one in prediction.items()}
        kinds = [set(given) for given in arguments.values()]
        if any(kind != kinds[0] for kind in kinds):
            # One model has probabilities and another has none: labels are what all have.
            arguments = {name: {"y_pred": _label(one)} for name, one in prediction.items()}
            kinds = [{"y_pred"}]
        for kind in kinds[0]:
            fields[kind] = {name: given[kind] for name, given in arguments.items()}
        evaluator.update(pending.y, **fields)

    def _arguments(self, prediction: Any, evaluator: Any) -> dict[str, Any]:
        """A prediction as keyword arguments of an update."""
        if not isinstance(prediction, Mapping):
            return {"y_pred": prediction}
        if TASKS[evaluator.task].truth == "label sets":
            if not self.shares:
                return {"y_pred": predicted_set(prediction)}
            given = {"y_pred": predicted_set(prediction)} if self.names_label else {}
            return {**given, "score": predicted_scores(prediction)}
        given = {"y_pred": _label(prediction)} if self.names_label else {}
        if "score" in TASKS[evaluator.task].fields:
            # A class that the model has not met yet has probability 0.
            return {**given, "score": prediction.get(evaluator.labels[1], 0.0)}
        return {**given, "proba": prediction}


def _label(prediction: Any) -> Any:
    """The label that is predicted: as River's predict_one, of equal probabilities the first."""
    if not isinstance(prediction, Mapping):
        return prediction
    return max(prediction, key=lambda name: prediction[name])
