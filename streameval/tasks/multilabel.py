"""Sets of labels: each event has any number of them, and a score of each label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.event import EventBatch, EventFields
from streameval.events.label_rows import LabelRows
from streameval.events.values import (
    MAX_WEIGHT,
    BoolArray,
    IntArray,
    Label,
    array_of,
    canonical_score,
    canonical_weight,
    check_same_kind,
    check_same_length,
    column_array,
    factorised,
    is_missing,
    named_columns,
)
from streameval.tasks.input import Input, InputOptions, ScoreColumns, nothing_given
from streameval.tasks.multiclass import ClassInput
from streameval.tasks.task import FieldKind, Kernel, Task, Truth
from streameval.tasks.written_events import (
    LARGEST,
    column,
    ints,
    label_list,
    read_mappings,
    read_sets,
)

_SET = "the labels of an event: a set, a list, {label: 0 or 1}, or a row of indicators"
_SETS = "a set or list of labels of each event, or a column of indicators of each label"
_FLAGS = "indicators: 0 and 1, or False and True"
_LIKELY = 0.5
"""The threshold of a label that ``threshold=`` does not name; only of discovered labels."""

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_NO_LABELS = (bool, float, np.bool_, np.floating)
"""In a list of labels they are likelier to be indicators."""

_NOTHING = -1
"""In place of a number of labels: the event has no such part."""


class LabelSetInput(ClassInput):
    """Sets of canonical labels, and those predicted from scores that reach their threshold.

    A label that an event leaves out of its scores has score 0; with declared labels each has to
    be there, except in a sparse matrix.
    """

    __slots__ = ("_code", "threshold")
    _known_labels = "labels out of {}"
    _every_score = (
        "a score of each of labels=",
        "give each label a score, or pass a sparse matrix, which leaves out zeros",
    )

    threshold: float | dict[Label, float]  # type: ignore[assignment]
    """The threshold of all labels, or of each."""

    def __init__(self, labels: Iterable[object] | None, threshold: object = _LIKELY) -> None:
        super().__init__(labels)
        self.probabilities = False  # the scores of an event need not sum to 1
        self.score_field = "score"
        self._code = {label: n for n, label in enumerate(self.classes)}
        self.threshold = self._limits(threshold)

    def _limits(self, threshold: object) -> float | dict[Label, float]:
        """From ``threshold=``, or from the pairs that a file has of it; raises InputError."""
        if isinstance(threshold, list):
            with suppress(TypeError, ValueError):  # no pairs: refused as no number
                threshold = dict(threshold)
        limit: float | dict[Label, float]
        if not isinstance(threshold, Mapping):
            least = limit = canonical_score(threshold, "threshold")
        else:
            limit = limits = {
                self._label(name, "threshold"): canonical_score(value, "threshold")
                for name, value in threshold.items()
            }
            missing = [label for label in self.classes if label not in limits]
            if missing:
                raise InputError(
                    "threshold",
                    expected="a threshold of each of labels=, or one number",
                    got=f"none of {shown(missing[0])}",
                )
            least = min(limits.values(), default=_LIKELY)
        if least <= 0 and not self.closed:
            raise InputError(
                "threshold",
                expected="a number above 0, as labels that an event leaves out have score 0",
                got=shown(least),
                remedy="pass labels=[...] to the Evaluator, and a score of each with each event",
            )
        return limit

    @property
    def notes(self) -> dict[str, Any]:
        limits = self.threshold
        if isinstance(limits, dict):
            return {"threshold": [list(pair) for pair in limits.items()]}
        return {"threshold": limits}

    def limit(self, label: Label) -> float:
        """The score from which on a label is predicted."""
        limits = self.threshold
        return limits.get(label, _LIKELY) if isinstance(limits, dict) else limits

    # One event

    def event(
        self, y_true: object, y_pred: object, score: object, proba: object, weight: object
    ) -> EventFields:
        true = self._set(y_true, "y_true")
        predicted = None if y_pred is None else self._set(y_pred, "y_pred")
        if true and predicted:
            check_same_kind(next(iter(true)), next(iter(predicted)), "y_pred")
        scores = None
        if score is not None or proba is not None:
            scores = self._shares(self._scores_given(score, proba), next(iter(true), None))
            if predicted is None:
                predicted = frozenset([at for at in scores if scores[at] >= self.limit(at)])
        elif predicted is None:
            raise nothing_given("y_pred")
        canonical = canonical_weight(weight, zero=True)
        if not self.closed:
            self.stage([*sorted(true | predicted), *(scores or ())])
        if self.part is not None:
            labels, kept = self.part
            predicted, scores = predicted if labels else None, scores if kept else None
        return true, predicted, scores, canonical  # type: ignore[return-value]

    def _scores_given(self, score: object, proba: object) -> object:
        if score is not None and proba is not None:
            raise InputError("proba", expected="score= or proba=", got="both")
        self.score_field = "score" if proba is None else "proba"
        return score if proba is None else proba

    def _set(self, value: Any, field: str, position: int | None = None) -> frozenset[Label]:
        """The labels of one event."""
        kind = type(value)
        if kind is set or kind is frozenset:
            try:
                return frozenset(map(self.known.__getitem__, value))
            except (KeyError, TypeError):
                pass
        elif isinstance(value, Mapping):
            held = [
                (self._label(name, field, position), self._flag(has, field, position, name))
                for name, has in value.items()
            ]
            return self._one_kind([label for label, has in held if has], field, position)
        elif (row := self._indicators(value, field, position)) is not None:
            labels = zip(self.classes, row, strict=True)
            return frozenset(label for label, has in labels if has)
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise self._no_set(value, field, position)
        return self._one_kind([self._label(one, field, position) for one in value], field, position)

    def _one_kind(self, labels: list[Label], field: str, position: int | None) -> frozenset[Label]:
        for label in labels:
            check_same_kind(labels[0], label, field, position)
        return frozenset(labels)

    def _no_set(self, value: object, field: str, position: int | None) -> InputError:
        remedy = "pass {" + shown(value) + "} for the one label"
        if is_missing(value):
            remedy = "this event has no labels yet: leave it out; one without labels has set()"
        return InputError(field, expected=_SET, got=shown(value), position=position, remedy=remedy)

    def _indicators(self, value: Any, field: str, position: int | None) -> list[bool] | None:
        """The flags of a row with one for each declared label; None: the value lists labels."""
        array = value if type(value) in (list, tuple) else array_of(value)
        if array is None or not hasattr(array, "__len__"):
            return None
        row = array if isinstance(array, (list, tuple)) else array.tolist()
        numbers = bool(row) and all(isinstance(one, _NUMBERS) for one in row)
        numeric = isinstance(array, np.ndarray) and array.dtype.kind in "bfiu"
        # Among labels that are texts, numbers are no labels.
        numeric = numeric or (numbers and self.closed and self._named_by_text())
        flags = numbers and all(one in (0, 1) for one in row)
        fits = self.closed and len(row) == len(self.classes)
        # A list of three or more labels cannot be of 0 and 1 only.
        if fits and (numeric or (flags and len(row) > 2)):
            names = zip(self.classes, row, strict=True)
            return [self._flag(one, field, position, name) for name, one in names]
        if not row or not numeric or not (flags or self._named_by_text()):
            return None
        expected = f"a row of {len(self.classes)} indicators, in the order of labels="
        if not self.closed:
            expected = "names of labels, or labels= in the order of the indicators"
        raise InputError(
            field, expected=expected, got=f"{len(row)} values, {shown(row)}", position=position
        )

    def _named_by_text(self) -> bool:
        return isinstance(next(iter(self.known), None), str)

    @staticmethod
    def _flag(value: Any, field: str, position: int | None, label: object) -> bool:
        number = isinstance(value, _NUMBERS)
        if number and value in (0, 1):
            return bool(value)
        got = f"{shown(value)} of {shown(label)}"
        remedy = ""
        if number and 0 < value < 1:
            remedy = "scores are score=, from which threshold= makes the predicted labels"
        raise InputError(field, expected=_FLAGS, got=got, position=position, remedy=remedy)

    def _shares(self, given: object, true: Any) -> dict[Label, float]:
        """The score of each label of one event, from a mapping or a row of all declared ones."""
        field = self.score_field
        if not isinstance(given, Mapping):
            row = list(given) if isinstance(given, (list, tuple)) else array_of(given)
            if row is None or not self.closed or np.ndim(row) != 1:
                expected = "a mapping label -> score"
                if self.closed:
                    expected += f", or {len(self.classes)} scores in the order of labels="
                raise InputError(field, expected=expected, got=shown(given))
            if len(row) != len(self.classes):
                expected = f"{len(self.classes)} scores, in the order of labels="
                raise InputError(field, expected=expected, got=f"{len(row)}")
            given = dict(zip(self.classes, row, strict=True))
        known = self.known
        scores: dict[Label, float] = {}
        for name, value in given.items():
            try:
                label = known[name]
            except (KeyError, TypeError):
                label = self._named(name)
                check_same_kind(next(iter(scores), label) if true is None else true, label, field)
            scores[label] = canonical_score(value, field)
        if len(scores) < len(given):
            raise InputError(field, expected="each label once", got=shown(list(given)))
        if self.closed and len(scores) < len(self.classes):
            raise self._score_missing(scores)
        if self.score_field == "proba":
            for label, score in scores.items():
                if not 0 <= score <= 1:
                    raise self._no_probability(score, label, None)
        return scores

    def _no_probability(self, score: float, label: Label, position: int | None) -> InputError:
        return InputError(
            "proba",
            expected="probabilities from 0 to 1",
            got=f"{shown(score)} of {shown(label)}",
            position=position,
            remedy="pass other scores as score=",
            remedy_code="label_scores",
        )

    # Batches

    def _labels_in(self, batch: EventBatch, names: Any, predicted: bool) -> list[Label]:
        parts = [batch.y_true.codes, batch.y_pred.codes]
        if isinstance(batch.score, LabelRows):
            parts.append(batch.score.codes)
        codes = np.unique(np.concatenate(parts)).tolist()
        return [
            *(batch.labels[code] for code in codes),
            *(batch.score_labels if len(batch) else ()),
        ]

    def _label_column(  # type: ignore[override]
        self, given: Any, field: str, names: dict[Label, int]
    ) -> LabelRows:
        """The sets of many events; ``names`` gains labels that may be new."""
        if hasattr(given, "tocsr"):
            return self._sparse(given, field, flags=True)
        table = given if isinstance(given, Mapping) else None
        if table is None and type(given) not in (list, tuple):
            table = named_columns(given)
        if table is not None:
            return self._of_columns(table, field, names)
        array = given if type(given) in (list, tuple) else array_of(given)
        if isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "bfiu":
            return self._of_matrix(array, field)
        return self._of_sets(_listed(given, array, field), field, names)

    def _of_matrix(self, array: Any, field: str) -> LabelRows:
        if not self.closed or array.shape[1] != len(self.classes):
            expected = f"{len(self.classes)} columns, one for each of labels= in their order"
            remedy = ""
            if not self.closed:
                expected = "a data frame or a mapping, label -> column of indicators"
                remedy = "pass labels= to the Evaluator in the order of the columns of an array"
            got = f"an array of shape {array.shape}"
            raise InputError(field, expected=expected, got=got, remedy=remedy)
        if isinstance(array, np.ma.MaskedArray):
            array = np.ma.filled(array.astype(np.float64), np.nan)
        if array.dtype != np.bool_:
            bad = (array != 0) & (array != 1)
            if bad.any():
                position, at = map(int, np.argwhere(bad)[0])
                self._flag(array[position, at].item(), field, position, self.classes[at])
        return LabelRows.of_indicator(array.astype(np.bool_))

    def _of_columns(
        self, table: Mapping[Any, Any], field: str, names: dict[Label, int]
    ) -> LabelRows:
        """The sets of a data frame, or a mapping, with a column of indicators for each label."""
        columns: dict[int, BoolArray] = {}
        length = None
        for name, given in table.items():
            code = self._code_of(self._column_name(name, field), field, names)
            array = column_array(given, field)
            if array.dtype != np.bool_:
                for position, one in enumerate(array.tolist()):
                    if type(one) not in (bool, int) or one not in (0, 1):
                        self._flag(one, field, position, name)
                array = array.astype(np.bool_)
            length = len(array) if length is None else length
            check_same_length(length, len(array), field)
            columns[code] = array
        if len(columns) < len(table):
            raise InputError(field, expected="each label once", got=shown(list(table)))
        if not columns:
            return LabelRows.of_sets([])
        codes = np.array(sorted(columns), dtype=np.int64)
        rows = LabelRows.of_indicator(np.column_stack([columns[code] for code in codes.tolist()]))
        return LabelRows(rows.starts, codes[rows.codes])

    def _column_name(self, name: object, field: str) -> Label:
        known = self._texts.get(name) if self.closed else None
        return self._label(name, field) if known is None else known

    def _of_sets(self, rows: Sequence[Any], field: str, names: dict[Label, int]) -> LabelRows:
        """The sets of a sequence with a collection of labels for each event."""
        kinds = set(map(type, rows))
        if kinds <= {list, tuple, set, frozenset}:
            flat = list(chain.from_iterable(rows))
            try:
                distinct, codes = factorised(flat)
            except TypeError:  # no label, which is refused below
                distinct, codes = [math.nan], np.zeros(0, dtype=np.int64)
            flags = [isinstance(one, _NUMBERS) and one in (0, 1) for one in distinct]
            others = any(isinstance(one, _NO_LABELS) for one in distinct)
            if not others and not (any(flags) and self._may_have_indicators(rows)):
                return self._of_codes(rows, distinct, codes, field, names)
            width = len(self.classes)
            several = width > 2 or self._named_by_text()
            lists = kinds <= {list, tuple} and all(len(row) == width for row in rows)
            if self.closed and several and lists and all(flags):
                return self._of_matrix(np.array(rows).reshape(len(rows), width), field)
        sets = [self._set(value, field, n) for n, value in enumerate(rows)]
        return LabelRows.of_sets(
            [self._code_of(label, field, names) for label in sorted(found)] for found in sets
        )

    def _may_have_indicators(self, rows: Sequence[Any]) -> bool:
        """Whether a row with 0 or 1 in it may be of indicators, as of one event."""
        width = len(self.classes)
        return self.closed and (self._named_by_text() or any(len(row) == width for row in rows))

    def _of_codes(
        self,
        rows: Sequence[Any],
        distinct: list[Any],
        codes: IntArray,
        field: str,
        names: dict[Label, int],
    ) -> LabelRows:
        """The sets of rows whose labels have been made codes of distinct values."""
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        events = np.repeat(np.arange(len(rows)), lengths)
        mapped = np.zeros(len(distinct), dtype=np.int64)
        for n, value in enumerate(distinct):
            try:
                mapped[n] = self._code_of(self._label(value, field), field, names)
            except InputError as error:
                raise error.at(int(events[np.argmax(codes == n)])) from None
        keys = np.unique(events * len(names) + mapped[codes])
        return LabelRows.of_keys(keys, len(rows), len(names))

    def _sparse(self, given: Any, field: str, *, flags: bool) -> LabelRows:
        """The rows of a sparse matrix of scipy; with the values of its cells if no flags."""
        matrix = given.tocsr()
        if not self.closed or matrix.shape[1] != len(self.classes):
            expected = f"{len(self.classes)} columns, one for each of labels= in their order"
            if not self.closed:
                expected = (
                    "labels= of the Evaluator, in the order of the columns of a sparse matrix"
                )
            raise InputError(field, expected=expected, got=f"a matrix of shape {matrix.shape}")
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        values = np.asarray(matrix.data)
        rows = LabelRows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
        bad = (values != 0) & (values != 1) if flags else ~np.isfinite(values.astype(np.float64))
        if bad.any():
            at = int(np.argmax(bad))
            position, label = int(rows.rows[at]), self.classes[int(rows.codes[at])]
            if flags:
                self._flag(values[at].item(), field, position, label)
            canonical_score(values[at].item(), field, position)
        if flags:
            return rows.kept(values != 0)
        return LabelRows(rows.starts, rows.codes, values.astype(np.float64) + 0.0)

    # Scores of batches

    def _score_columns(
        self, score: object, proba: object, length: int, names: dict[Label, int]
    ) -> ScoreColumns:
        """A matrix and the labels of its columns; or rows with values, and no labels."""
        given: Any = self._scores_given(score, proba)
        rows: LabelRows | None = None
        if hasattr(given, "tocsr"):
            rows = self._sparse(given, self.score_field, flags=False)
            least = min(map(self.limit, self.classes))
            if least <= 0:
                raise InputError(
                    self.score_field,
                    expected="thresholds above 0 beside a sparse matrix, whose zeros are left out",
                    got=f"threshold={shown(least)}",
                    remedy="pass an array",
                )
        elif not self.closed and isinstance(given, Sequence):
            rows = self._of_mappings(given, names)
        if rows is not None:
            check_same_length(length, len(rows), self.score_field)
            if self.score_field == "proba":
                self._check_probabilities(rows.values, rows.rows, rows.codes, tuple(names))
            return ScoreColumns(rows)  # type: ignore[arg-type]
        columns, matrix, _ = self._matrix(given, length)
        for label in columns:
            self._code_of(label, self.score_field, names)
        if self.score_field == "proba":
            bad = np.argwhere((matrix < 0) | (matrix > 1))[:1]
            self._check_probabilities(matrix[bad[:, 0], bad[:, 1]], bad[:, 0], bad[:, 1], columns)
        return ScoreColumns(matrix, columns)

    def _check_probabilities(
        self, values: Any, rows: IntArray, codes: IntArray, labels: Sequence[Label]
    ) -> None:
        bad = (values < 0) | (values > 1)
        if bad.any():
            at = int(np.argmax(bad))
            raise self._no_probability(float(values[at]), labels[int(codes[at])], int(rows[at]))

    def _of_mappings(self, given: Sequence[Any], names: dict[Label, int]) -> LabelRows:
        """Scores of discovered labels: each event names its own."""
        keys: list[dict[int, float]] = []
        code_of: dict[object, int] = {}
        for position, row in enumerate(given):
            if not isinstance(row, Mapping):
                raise InputError(
                    self.score_field,
                    expected="a mapping label -> score of each event",
                    got=shown(row),
                    position=position,
                    remedy="pass labels= to the Evaluator with rows of scores",
                )
            scores: dict[int, float] = {}
            for name, value in row.items():
                if name not in code_of:
                    label = self._label(name, self.score_field, position)
                    code_of[name] = self._code_of(label, self.score_field, names, position)
                scores[code_of[name]] = canonical_score(value, self.score_field, position)
            keys.append(scores)
        rows = LabelRows.of_sets(keys)
        ordered = (scores[code] for scores in keys for code in sorted(scores))
        values = np.fromiter(ordered, dtype=np.float64, count=len(rows.codes))
        return LabelRows(rows.starts, rows.codes, values)

    def _predicted_column(self, given: ScoreColumns, names: dict[Label, int]) -> Any:
        scores: Any = given.score
        columns = tuple(names) if isinstance(scores, LabelRows) else given.labels
        limits = np.array([self.limit(label) for label in columns], dtype=np.float64)
        if isinstance(scores, LabelRows):
            assert scores.values is not None
            rows = scores.kept(scores.values >= limits[scores.codes])
            return LabelRows(rows.starts, rows.codes)
        codes = np.array([names[label] for label in columns], dtype=np.int64)
        order = np.argsort(codes)
        rows = LabelRows.of_indicator((scores >= limits)[:, order])
        return LabelRows(rows.starts, codes[order][rows.codes])


def _listed(given: Any, array: Any, field: str) -> Sequence[Any]:
    """The rows of a column of sets."""
    if isinstance(given, (str, bytes)):
        raise InputError(field, expected=_SETS, got=shown(given))
    if isinstance(given, (list, tuple)):
        return given
    for name in ("to_pylist", "to_list", "tolist"):
        read: Callable[[], list[Any]] | None = getattr(given, name, None)
        if read is not None:
            rows = read()
            if isinstance(rows, list):
                return rows
    if isinstance(array, np.ndarray) and array.ndim:
        return list(array)
    if not isinstance(given, Iterable):
        raise InputError(field, expected=_SETS, got=shown(given))
    return list(given)


class MultilabelTask(Task):
    """States count sets of the user's labels."""

    name = "multilabel"
    adjective = "multi-label"
    compared = "set_comparison"
    truth: ClassVar[Truth] = "label sets"
    kernel: ClassVar[Kernel] = "label sets"
    fields: ClassVar[Mapping[str, FieldKind]] = {
        "y_true": "labels",
        "y_pred": "labels",
        "score": "probabilities",
        "proba": "probabilities",
    }
    options: ClassVar[Mapping[str, tuple[type, ...]]] = {"threshold": (float, int, list)}
    usual: ClassVar[Mapping[str, str]] = {
        "report": "accuracy hamming_loss precision_micro recall_micro f1_macro f1_micro "
        "f1_weighted f1_samples jaccard_samples",
        "slices": "accuracy hamming_loss f1_macro f1_micro f1_samples",
        "folds": "accuracy hamming_loss f1_macro f1_micro f1_samples",
        "representation": "accuracy f1_macro f1_micro f1_samples",
        "single": "f1_micro",
    }

    def input(self, options: InputOptions) -> Input:
        return LabelSetInput(options.labels, options.threshold)

    def label_columns(self, batch: EventBatch) -> tuple[Any, ...]:
        # The labels that are right are found once for all states.
        return batch, batch.y_true.common(batch.y_pred, len(batch.labels))

    def write_events(self, events: Iterable[EventFields]) -> dict[str, Any]:
        """Columns: of each part its number of labels (−1: no such part) and their codes."""
        rows: list[tuple[Any, Any, Any, Any]] = list(events)
        labels = sorted(set().union(*[part for row in rows for part in row[:3] if part]))
        code = {label: n for n, label in enumerate(labels)}
        data: dict[str, Any] = {"labels": labels}
        for place, name in enumerate(("true", "predicted", "scored")):
            parts = [row[place] for row in rows]
            data[f"{name}_counts"] = ints(_NOTHING if p is None else len(p) for p in parts)
            data[name] = ints(
                chain.from_iterable(sorted(code[at] for at in p or ()) for p in parts)
            )
        scores = [row[2][at] for row in rows for at in sorted(row[2] or (), key=code.__getitem__)]
        data["scores"] = np.asarray(scores, dtype=np.float64)
        data["weight"] = ints(row[3] for row in rows)
        return data

    def read_events(self, data: Any, plan: Any) -> list[EventFields]:
        labels = label_list(data)
        if plan.labels is not None and not set(labels) <= set(plan.labels):
            raise StateError(f"window.labels: expected labels out of {shown(list(plan.labels))}")
        weights = column(data, "weight", "int64", None, 1, MAX_WEIGHT).tolist()
        parts = [
            read_sets(data, f"{name}_counts", name, len(weights), labels, least)
            for name, least in (("true", 0), ("predicted", _NOTHING), ("scored", _NOTHING))
        ]
        scores = read_mappings(data, "scores", parts[2], (-LARGEST, LARGEST))
        if (np.signbit(data["scores"]) & (data["scores"] == 0)).any():
            raise StateError("window.scores: expected finite numbers without -0.0, got others")
        true, predicted = (
            [None if one is None else frozenset(one) for one in part] for part in parts[:2]
        )
        return list(zip(true, predicted, scores, weights, strict=True))  # type: ignore[arg-type]


def predicted_set(flags: Mapping[Any, Any]) -> dict[Any, Any]:
    """Label -> flag of a model's prediction, which may have both probabilities of each label.

    >>> predicted_set({"spam": {False: 0.5, True: 0.5}, "ad": True})
    {'spam': False, 'ad': True}
    """
    return {
        label: max(one, key=lambda flag: one[flag]) if isinstance(one, Mapping) else one
        for label, one in flags.items()
    }


def predicted_scores(shares: Mapping[Any, Any]) -> dict[Any, float]:
    """Label -> score of a model's prediction, which may have both probabilities of each label.

    >>> predicted_scores({"spam": {False: 0.25, True: 0.75}, "ad": True})
    {'spam': 0.75, 'ad': 1.0}
    """
    return {
        label: float(one.get(True, 0.0) if isinstance(one, Mapping) else one)
        for label, one in shares.items()
    }
