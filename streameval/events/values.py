"""Validation of labels, scores, probabilities and weights: each is made canonical once.

Behind this module nothing is validated again. A *label* is a ``str`` or an
``int`` (``True`` is ``1``, as Python compares them), a *score* is a finite
float that is never ``-0.0``, a *weight* is a positive ``int`` or float, or 0 of an
event that counts for nothing.

Columns may be lists, numpy arrays, pandas or polars series, or Arrow arrays.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from streameval.errors import MANY_EVENTS, InputError, shown

Label: TypeAlias = str | int
Weight: TypeAlias = int | float

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MAX_CLASSES = 100_000
"""Most distinct labels one confusion may hold: a guard against ids fed as labels."""

MAX_WEIGHT = 2**53
"""Largest weight of one event: beyond it floats no longer represent every integer."""

_IN_CACHE = 2**16  # numbers that are read again before they leave a processor's cache


def array_of(value: object) -> npt.NDArray[Any] | None:
    """An array of any library, which is not imported: by DLPack or ``__array__``; else None."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, (np.generic, str, bytes, numbers.Number, type)):
        return None
    reason = ""
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
            reason = str(error)
    if hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = str(error)
    if not reason:
        return None
    raise InputError(
        "array",
        expected="an array in the memory of the processor",
        got=f"one of type {type(value).__name__} that cannot be read ({reason})",
        remedy="move it there first: tensor.detach().cpu()",
    )


def _scalar(value: object) -> object | None:
    """The item of a 0-dimensional array of any library; None of anything else."""
    array = array_of(value)
    return None if array is None or array.ndim else array.item()


def canonical_label(value: object, field: str = "label", position: int | None = None) -> Label:
    """The label as a plain ``str`` or ``int``: ``True`` and ``1.0`` are ``1`` too."""
    if type(value) is str or type(value) is int:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (int, np.bool_, np.integer)) and not isinstance(value, np.timedelta64):
        return int(value)
    real = isinstance(value, numbers.Real) and not isinstance(value, np.timedelta64)
    number = float(value) if real else math.nan  # type: ignore[arg-type]
    if number.is_integer():
        return int(number)
    got = remedy = code = ""
    if real:
        got = shown(value)
        if math.isfinite(number):
            remedy, code = "a fraction is a score: pass it as score=", "score"
            if field == "y_true":
                remedy, code = f'{remedy}; true numbers require task="regression"', "numbers"
    elif value is None:
        got, remedy = "None", "this event has no label yet: leave it out"
    elif (item := _scalar(value)) is not None:
        return canonical_label(item, field, position)
    else:
        check_no_table(value, field)
        remedy = _of_several(value, position, _ONE_HOT.format(field=field))
    raise InputError(
        field,
        expected="a str, int or bool label",
        got=got or f"{shown(value)} of type {type(value).__name__}",
        position=position,
        remedy=remedy,
        remedy_code=code,
    )


_ONE_HOT = "of one-hot rows pass the class of each: {field}=rows.argmax(axis=1)"
_OF_POSITIVE = "of two columns pass the positive label's, score=P[:, 1], or both as proba=P"
_OF_ONE = {
    "proba": "pass the positive label's probability, as proba=0.8, or {label: probability}",
    "threshold": "",
    "bound": "",
}
"""What to give as one value, or of settings nothing: no call takes many of these."""


def _of_several(value: object, position: int | None, of_row: str) -> str:
    """The remedy where several values were given as one, as a row of a column or as an event's."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(type(value), "__len__"):
        return ""
    if isinstance(value, (set, frozenset)):
        return 'sets of labels are for task="multilabel"'
    return of_row if position is not None else MANY_EVENTS


def check_same_kind(known: Label, new: Label, field: str, position: int | None = None) -> None:
    """Refuse a str beside a number: the usual sign of two sources spelling one label twice."""
    if isinstance(known, str) != isinstance(new, str):
        kind, coercion = ("a str", "str") if isinstance(known, str) else ("a number", "int")
        remedy = f"coerce the labels of both sides with {coercion}(...)"
        if isinstance(new, str) and not new.lstrip("-").isdecimal():
            remedy = "give all labels one type, of text or of numbers"
        raise InputError(
            field,
            expected=f"{kind} like the label {shown(known)}",
            got=f"{shown(new)}, a {'str' if isinstance(new, str) else 'number'}",
            position=position,
            remedy=remedy,
        )


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is a number of Python or numpy, and no bool and no duration."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, (bool, np.timedelta64)
    )


def _float_of(value: Any) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError):  # a Decimal may be a signalling nan
        return math.inf


def canonical_score(value: object, field: str = "score", position: int | None = None) -> float:
    """The score as a finite float; ``-0.0`` becomes ``0.0``."""
    # A str would convert too, and hide that a column was never parsed.
    if is_number(value) or isinstance(value, Decimal):
        number = _float_of(value)
        if math.isfinite(number):
            return number + 0.0
    elif (item := _scalar(value)) is not None:
        return canonical_score(item, field, position)
    remedy = _of_several(value, position, _OF_POSITIVE)
    if remedy and position is None:
        remedy = _OF_ONE.get(field, remedy)
    raise InputError(
        field, expected="a finite number", got=shown(value), position=position, remedy=remedy
    )


def canonical_weight(
    value: object, field: str = "weight", position: int | None = None, *, zero: bool = False
) -> Weight:
    """The weight as a positive ``int``, or a float if it is not whole; ``zero``: it may be 0."""
    # What an input returns comes here again, in each state that counts it.
    if type(value) is float and 0.0 < value < MAX_WEIGHT and not value.is_integer():
        return value
    if isinstance(value, (int, np.integer)) and is_number(value):
        number: Weight = int(value)
    elif isinstance(value, (float, np.floating, Decimal)):
        number = _float_of(value)
        if number.is_integer():
            number = int(number)
    elif (item := _scalar(value)) is not None:
        return canonical_weight(item, field, position, zero=zero)
    else:
        number = -1
    if 0 < number <= MAX_WEIGHT or (zero and number == 0):  # False for nan
        return number
    raise InputError(
        field,
        expected=f"a weight {'from 0 to' if zero else 'above 0 and at most'} {MAX_WEIGHT}",
        got=shown(value),
        position=position,
        remedy="leave events of weight 0 out" if number == 0 else "",
    )


class LabelColumn(NamedTuple):
    """A column of labels: the distinct ones, in any order, and each event's index among them."""

    labels: list[Label]
    codes: IntArray


def is_missing(value: object) -> bool:
    """Whether a value stands for none: None, NaN, pandas' NA and NaT."""
    if value is None:
        return True
    if type(value) is str or type(value) is int:
        return False
    try:
        unequal: object = value != value
    except Exception:
        return False
    # NA compared with itself is NA, which has no truth value.
    return (isinstance(unequal, (bool, np.bool_)) and bool(unequal)) or unequal is value


_OF_SHAPE = {
    "y_true": _ONE_HOT,
    "y_pred": f"{_ONE_HOT}; probabilities are proba=",
    "score": _OF_POSITIVE,
}
"""The remedies where a column is an array of two dimensions."""


def _no_column(column: object, field: str, remedy: str = "", name: str = "") -> InputError:
    got = f"{name or shown(column)} of type {type(column).__name__}"
    expected = "a column: a list, array or series"
    return InputError(field, expected=expected, got=got, remedy=remedy)


def check_no_table(column: object, field: str) -> None:
    """Refuse a data frame or Arrow table in place of a column."""
    # By the type, because a lazy frame would look its columns up.
    if not (hasattr(type(column), "columns") or hasattr(type(column), "column_names")):
        return
    remedy = "pass one of its columns, or the whole table to streameval.evaluate()"
    if (names := _column_names(column)) and isinstance(names[0], str):
        name = shown(names[0])
        remedy = (
            f"pass one of its columns, as df[{name}], or the whole table: "
            f"se.evaluate(df, y_true={name}, score=...)"
        )
    raise _no_column(column, field, remedy, "a table")


def _column_names(table: Any) -> list[Any]:
    """The names of a table's columns; empty where looking them up would compute it."""
    given = getattr(table, "column_names", None)
    lazy = hasattr(type(table), "collect") or hasattr(type(table), "compute")
    return [] if lazy else list(getattr(table, "columns", ()) if given is None else given)


def single_column(column: Any, field: str) -> Any:
    """The only column of a table or an array of (n, 1); anything else as it is, no other table."""
    if type(column) in (list, tuple):
        return column
    if isinstance(column, np.ndarray):
        return column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if len(_column_names(column)) == 1 and (found := named_columns(column)) is not None:
        return next(iter(found.values()))
    check_no_table(column, field)
    return column


def column_array(column: Any, field: str) -> npt.NDArray[Any]:
    """A one-dimensional numpy array of any column type; a null or masked value is None."""
    column = single_column(column, field)
    nulls = getattr(column, "null_count", 0)
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        return _list_array(column.tolist())
    if nulls() if callable(nulls) else nulls:
        # to_numpy() would turn whole numbers beside a null into floats.
        to_list = getattr(column, "to_pylist", None) or getattr(column, "to_list", None)
        if to_list is not None:
            return _list_array(to_list())
    if isinstance(column, np.ndarray):
        array = np.asarray(column)
    elif isinstance(column, (list, tuple)):
        return _list_array(column)
    elif isinstance(column, (str, bytes, dict)):
        raise _no_column(column, field)
    elif hasattr(column, "isna") and not isinstance(column.dtype, np.dtype) and column.isna().any():
        array = column.to_numpy(dtype=object)  # pandas; otherwise whole numbers become floats
    elif hasattr(column, "to_numpy"):  # pandas, polars, Arrow
        try:
            array = np.asarray(column.to_numpy())
        except (TypeError, ValueError):
            # Arrow copies only where zero_copy_only is False.
            array = np.asarray(column.to_numpy(zero_copy_only=False))
        except Exception:
            if not hasattr(column, "to_list"):
                raise
            # polars: whole numbers of 128 bits, which numpy has not.
            return _list_array(column.to_list())
    elif (found := array_of(column)) is not None:
        array = found
    else:
        try:
            return _list_array(list(column))
        except TypeError:
            raise _no_column(column, field, "for one event call update()") from None
    if array.ndim == 2 and array.shape[1] == 1:  # of another library
        array = array[:, 0]
    if array.ndim != 1:
        remedy = ""
        if array.ndim == 2:
            remedy = _OF_SHAPE.get(field, "").format(field=field, k=array.shape[1])
        if field == "proba" and array.ndim == 2 and array.shape[1] > 2:
            remedy = f'pass task="multiclass" and labels= for {array.shape[1]} classes'
        raise InputError(
            field,
            expected="a column of one dimension",
            got=f"shape {array.shape}",
            remedy=remedy,
        )
    # tolist() would turn times into plain integers.
    return _list_array(list(array)) if array.dtype.kind in "mM" else array


def _list_array(values: Sequence[object]) -> npt.NDArray[Any]:
    """Numbers of one type as a typed array; anything else as objects, unconverted."""
    kinds = set(map(type, values))
    if len(kinds) == 1 and kinds <= {bool, float}:
        return np.asarray(values)
    if kinds == {int}:
        try:
            return np.asarray(values, dtype=np.int64)
        except OverflowError:
            pass
    return np.fromiter(values, dtype=object, count=len(values))


def label_column(column: object, field: str) -> LabelColumn:
    """Canonical labels of a column, each distinct one handled once; a LabelColumn as it is."""
    if isinstance(column, LabelColumn):
        return column
    array = column_array(column, field)
    if array.dtype == np.bool_:
        return LabelColumn([0, 1], array.astype(np.int64))
    if array.dtype.kind in "iu" and len(array):
        low, high = int(array.min()), int(array.max())
        if high - low < 2 * MAX_CLASSES and high < 2**63:
            codes = array.astype(np.int64)
            codes -= low
            present = np.flatnonzero(np.bincount(codes, minlength=1))
            if len(present) == high - low + 1:
                return LabelColumn(list(range(low, high + 1)), codes)
            rank = np.zeros(high - low + 1, dtype=np.int64)
            rank[present] = np.arange(len(present))
            return LabelColumn([int(v) + low for v in present], rank[codes])
        distinct, codes = np.unique(array, return_inverse=True)
        return LabelColumn([int(v) for v in distinct], codes.astype(np.int64))
    return _object_labels(array, field)


def factorised(values: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """The distinct values by first occurrence, and each value's index; TypeError without a hash."""
    index: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
    codes = np.fromiter(map(index.__getitem__, values), np.int64, len(values))
    return list(index), codes


def _object_labels(array: npt.NDArray[Any], field: str) -> LabelColumn:
    values = array.tolist()
    try:
        distinct, codes = factorised(values)
    except TypeError:
        # Arrays of no dimension have no hash, though they may be labels.
        distinct, codes = factorised(
            [canonical_label(value, field, n) for n, value in enumerate(values)]
        )
    labels: list[Label] = []
    for code, value in enumerate(distinct):
        try:
            label = canonical_label(value, field)
            if labels:
                check_same_kind(labels[0], label, field)
        except InputError as error:
            # By its code, because nan is not equal to itself.
            raise error.at(int(np.argmax(codes == code))) from None
        labels.append(label)
    return LabelColumn(labels, codes)


def score_column(column: object, field: str = "score") -> FloatArray:
    """A column of scores as finite float64 without ``-0.0``; a copy is made."""
    array = column_array(column, field)
    if array.dtype.kind not in "fiu":
        scores = [canonical_score(value, field, n) for n, value in enumerate(array.tolist())]
        return np.asarray(scores, dtype=np.float64)
    result: FloatArray = np.add(array, 0.0, dtype=np.float64)
    finite = np.isfinite(result)
    if not finite.all():
        position = int(np.argmin(finite))
        canonical_score(float(array[position]), field, position)
    return result


def measured_column(column: object, field: str) -> tuple[FloatArray, float]:
    """:func:`score_column`, and the size of its largest number; 0.0 without any."""
    array = column_array(column, field)
    if array.dtype.kind not in "fiu":
        array = score_column(array, field)
    result: FloatArray = np.empty(len(array), dtype=np.float64)
    largest = 0.0
    for start in range(0, len(array), _IN_CACHE):
        part = result[start : start + _IN_CACHE]
        np.add(array[start : start + _IN_CACHE], 0.0, out=part, dtype=np.float64)
        # Not finite if any number is not: both ends are nan beside a nan.
        size = max(-float(np.minimum.reduce(part)), float(np.maximum.reduce(part)))
        if not math.isfinite(size):
            score_column(array, field)  # names the first that is bad
        largest = max(largest, size)
    return result, largest


def weight_column(
    column: object | None, length: int, field: str = "weight", *, zero: bool = False
) -> IntArray | FloatArray | None:
    """A column of weights, int64 if all are whole; None stays None: every event weighs 1."""
    if column is None:
        return None
    array = column_array(column, field)
    check_same_length(length, len(array), field)
    if not len(array):
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "fiu":
        values = enumerate(array.tolist())
        array = np.asarray([canonical_weight(value, field, n, zero=zero) for n, value in values])
    good = ((array >= 0) if zero else (array > 0)) & (array <= MAX_WEIGHT)
    if not good.all():
        position = int(np.argmin(good))
        canonical_weight(array[position], field, position, zero=zero)
    if array.dtype.kind == "f":
        floats: FloatArray = array.astype(np.float64)
        if (floats != np.floor(floats)).any():
            return floats
    whole: IntArray = array.astype(np.int64)
    return whole


def named_columns(table: Any) -> dict[Any, Any] | None:
    """The columns of a data frame of pandas, polars or Arrow by name; None for anything else."""
    # An Arrow table's `columns` are the columns themselves.
    given = getattr(table, "column_names", None)
    names = list(getattr(table, "columns", ()) if given is None else given)
    if not names:
        return None
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError("proba", expected="each column once", got=f"{shown(twice)} again")
    if given is not None:
        columns = [table.column(position) for position in range(len(names))]
    elif hasattr(table, "iloc"):
        columns = [table.iloc[:, position] for position in range(len(names))]
    else:
        columns = [table[name] for name in names]
    return dict(zip(names, columns, strict=True))


def check_same_length(expected: int, got: int, field: str) -> None:
    """Refuse columns of different length."""
    if expected != got:
        values, remedy = f"{expected} values, one for each event", "give columns of one length"
        raise InputError(field, expected=values, got=f"{got}", remedy=remedy)


# Probabilities over classes. A label that an event does not name has probability 0 there.


def most_probable(proba: Mapping[Label, float]) -> Label:
    """The predicted label if no other is given: of equal probabilities the first in order."""
    best = max(proba.values())
    return min(label for label, p in proba.items() if p == best)


def most_probable_columns(proba: FloatArray, labels: Sequence[Label]) -> IntArray:
    """The column of :func:`most_probable` of each row; columns in any order."""
    order = np.asarray(sorted(range(len(labels)), key=labels.__getitem__), dtype=np.int64)
    ascending = (order[1:] > order[:-1]).all()  # the columns need no copy in this order
    chosen: IntArray = np.argmax(proba if ascending else proba[:, order], axis=1)
    return chosen if ascending else order[chosen]


SUM_TOLERANCE = 1e-3
"""How far the probabilities of one event may be from adding up to 1."""


def check_probabilities(proba: object) -> dict[Label, float]:
    """One event's probabilities, in [0, 1] and summing to 1, as a new dictionary, or InputError."""
    if type(proba) is not dict and not isinstance(proba, Mapping):
        got = f"{shown(proba)} of type {type(proba).__name__}"
        raise InputError("proba", expected="a mapping of labels to probabilities", got=got)
    result: dict[Label, float] = {}
    for name, value in proba.items():
        label = name if type(name) is str else canonical_label(name, "proba")
        if type(value) is not float or not 0.0 <= value <= 1.0:
            field = f"proba[{shown(name)}]"
            value = canonical_score(value, field)
            if not 0.0 <= value <= 1.0:
                raise InputError(
                    field,
                    expected="a probability from 0 to 1",
                    got=repr(value),
                    remedy="of logits pass the softmax; other scores of several classes "
                    "require probabilities=False",
                    remedy_code="probabilities",
                )
        result[label] = value
    if len(set(map(type, result))) > 1:
        known = next(iter(result))
        for label in result:
            check_same_kind(known, label, "proba")
    total = math.fsum(result.values())
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InputError(
            "proba",
            expected="probabilities that add up to 1",
            got=f"{total:.6g}",
            remedy="give every class's probability, after softmax and not rounded to few digits",
        )
    return result


def check_probability_rows(labels: Sequence[Label], proba: FloatArray) -> None:
    """Refuse a matrix with a row that :func:`check_probabilities` refuses, naming its position."""
    good = (
        (proba >= 0.0).all(axis=1)
        & (proba <= 1.0).all(axis=1)
        # Numpy's sum is rounded: a row near the limit is summed as one event's mapping.
        & (np.abs(proba.sum(axis=1) - 1.0) <= 0.9 * SUM_TOLERANCE)
    )
    for position in np.flatnonzero(~good).tolist():
        try:
            check_probabilities(dict(zip(labels, proba[position].tolist(), strict=True)))
        except InputError as error:
            raise error.at(position) from None
