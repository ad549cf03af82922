"""Cells of nearby scores: how a score index of bounded size coarsens the score axis.

A cell is known by its smallest float64, its *representative*. In each of four parts of the
axis a score has an integer *offset* that grows with it, and at level h its cell is
``offset >> h``: docs/bounded-memory.md has the table.
"""

from __future__ import annotations

import struct

import numpy as np

from streameval.errors import InputError, StateError, shown
from streameval.events.values import BoolArray, FloatArray, IntArray
from streameval.states.fields import Fields

LEAST_SCORES = 1024
"""Smallest limit: at level :data:`MOST_LEVEL` the whole axis has 522 cells."""

MOST_LEVEL = 55

_HALF = 1022 << 52
_ONE = 1023 << 52
_MOST = (2047 << 52) - 1  # bits of the largest finite float64
_ULPS = 2.0**53  # 1 / the spacing of float64 between ½ and 1


def checked_limit(max_scores: object) -> int | None:
    """The limit of a bounded index, or None; raises InputError."""
    if max_scores is None:
        return None
    if type(max_scores) is not int or not LEAST_SCORES <= max_scores < 2**48:
        raise InputError(
            "max_scores",
            expected=f"a number of distinct scores, at least {LEAST_SCORES}, or None for all",
            got=shown(max_scores),
            remedy="65536 bounds the AUC of millions of events to about 1e-4",
        )
    return max_scores


def coarse(score: float, level: int) -> float:
    """The representative of a score's cell, for a finite score that is not -0.0.

    >>> coarse(0.3, 50), coarse(0.7, 50), coarse(0.5, 50)
    (0.25, 0.6875, 0.5)
    >>> coarse(0.3, 0)
    0.3
    """
    if not level or score in (0.0, 0.5, 1.0):
        return score
    if score < 0.0:
        return -_float(min(-(-_bits(-score) >> level << level), _MOST))
    if score < 0.5:
        return _float(max(_bits(score) >> level << level, 1))
    if score < 1.0:
        offset = max((_HALF - _bits(1.0 - score)) >> level << level, 1)
        return 1.0 - (_float(_HALF - offset) * _ULPS // 1.0) / _ULPS
    return _float(_ONE + max((_bits(score) - _ONE) >> level << level, 1))


def _bits(score: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", score))[0]
    return bits


def _float(bits: int) -> float:
    score: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return score


def coarse_column(scores: FloatArray, level: int) -> FloatArray:
    """:func:`coarse` of a column. Ascending scores give ascending ones."""
    if not level or not len(scores):
        return scores
    parts, offsets = _places(scores)
    return _scores_at(parts, offsets & ~np.int64((1 << level) - 1), scores)


def cell_limits(scores: FloatArray, level: int) -> FloatArray:
    """The least number above the cell of each representative; of a point of the axis itself."""
    parts, offsets = _places(scores)
    following = (offsets | np.int64((1 << level) - 1)) + 1
    for part, most in ((0, 0), (2, _HALF), (4, _HALF), (6, _MOST - _ONE)):
        following[parts == part] = np.minimum(following[parts == part], most)
    return _scores_at(parts, following, scores)


def _scores_at(parts: IntArray, offsets: IntArray, points: FloatArray) -> FloatArray:
    """The least score of each offset in its part of the axis; `points` where that is a point."""
    below, low, high, above = (parts == part for part in (0, 2, 4, 6))
    result = points.copy()
    # 2**63 is no int64: the negative of the lowest offset is taken without a sign.
    negated = np.minimum(np.uint64(0) - offsets[below].view(np.uint64), np.uint64(_MOST))
    result[below] = -negated.view(np.float64)
    result[low] = np.maximum(offsets[low], 1).view(np.float64)
    mirrored = (_HALF - np.maximum(offsets[high], 1)).view(np.float64)
    result[high] = 1.0 - np.floor(mirrored * _ULPS) / _ULPS
    result[above] = (_ONE + np.maximum(offsets[above], 1)).view(np.float64)
    return result


def _places(scores: FloatArray) -> tuple[IntArray, IntArray]:
    """The part of the axis that each score is in, the points being parts too; and its offset."""
    parts = np.zeros(len(scores), np.int64)
    for point in (0.0, 0.5, 1.0):
        parts += scores >= point
        parts += scores > point
    mirrored = (parts == 4) | (parts == 5)
    bits = np.where(mirrored, 1.0 - scores, np.abs(scores)).view(np.int64)
    offsets = np.where(mirrored, _HALF - bits, bits)
    offsets[parts == 0] *= -1
    offsets[parts == 6] -= _ONE
    return parts, offsets


def least_level(scores: FloatArray, level: int, limit: int) -> int:
    """The least level, from ``level`` on, at which an ascending distinct run fits a limit."""
    if len(scores) <= limit:
        return level
    # Two neighbours share a cell once the bits in which their offsets differ are dropped.
    parts, offsets = _places(scores)
    apart = 1 + int(np.count_nonzero(parts[1:] != parts[:-1]))
    differing = (offsets[1:] ^ offsets[:-1])[parts[1:] == parts[:-1]]
    while apart + int(np.count_nonzero(differing >> level)) > limit:
        level += 1
    return level


def wide_cells(scores: FloatArray, level: int) -> BoolArray:
    """Which representatives stand for more than one float64, whose events may be unequal."""
    if not level:
        return np.zeros(len(scores), dtype=np.bool_)
    wide: BoolArray = coarse_column(next_score(scores), level) == scores
    return wide


def next_score(scores: FloatArray) -> FloatArray:
    """The float64 above each score; the largest one stays."""
    above: FloatArray = np.nextafter(scores, np.finfo(np.float64).max)
    return above


BOUNDED_KEYS = frozenset({"level", "max_scores"})
"""Keys of a written form that a state has only where its scores are bounded."""


def bounds_of(fields: Fields) -> tuple[int | None, int]:
    """The limit and the level of a written form, None and 0 without; raises StateError."""
    if "level" not in fields:
        return None, 0
    max_scores, level = fields["max_scores"], fields["level"]
    try:
        limit = checked_limit(max_scores)
    except InputError as error:
        raise StateError(f"{fields.name}.{error}") from None
    if limit is None or type(level) is not int or not 0 <= level <= MOST_LEVEL:
        raise StateError(
            f"{fields.name}.level: expected a level from 0 to {MOST_LEVEL} beside a limit, "
            f"got {shown(level)} beside {shown(max_scores)}"
        )
    return limit, level


def check_cells(fields: Fields, scores: FloatArray, limit: int | None, level: int) -> None:
    """Raise StateError for more scores than the limit, or one that is no representative."""
    if limit is not None and len(scores) > limit:
        fields.refuse("scores", f"at most {limit} scores", len(scores))
    expected = f"the smallest score of a cell of level {level}"
    fields.refuse_at(coarse_column(scores, level) != scores, "scores", expected, scores)
