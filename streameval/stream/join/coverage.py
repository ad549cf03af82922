"""How a label join fares: counts, delays, and how much of each cohort has its labels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import numpy as np

from streameval.event_time import iso_time
from streameval.events import IntArray

__all__ = ["COUNTS", "Coverage", "Delays", "SavedCoverage"]

COUNTS = (
    "predictions",
    "labels",
    "joined",
    "duplicate_predictions",
    "duplicate_labels",
    "corrected",
    "too_late",
)
"""What is counted, for each partition apart.

``predictions`` are distinct ids, ``labels`` all label records:
``predictions = joined + waiting + expired`` and
``labels = joined + duplicate_labels + corrected + too_late + labels_waiting + orphans``.
Of a prediction that is forgotten and comes once more both sides count one more.
"""

_SHOWN_COHORTS = 200
_MOST_COHORTS = 100_000
"""Guards against times that are all over the calendar."""

_HOUR_US = 3_600_000_000

_MANTISSA_BITS = 8


class Delays:
    """A histogram of delays with buckets that grow with the delay.

    A delay below 256 µs has a bucket of its own; above, a bucket is less than
    one part in 128 of the delay wide. So a quantile is told as the upper end
    of its bucket, at most :attr:`relative_error` too long, and sums of histograms are
    those of the delays.

    >>> delays = Delays()
    >>> delays.add(np.array([1_000_000, 2_000_000, 60_000_000]))
    >>> delays.quantile(0.5)
    2.007039
    """

    relative_error = 1 / (1 << (_MANTISSA_BITS - 1))

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, delays: IntArray) -> None:
        """Count delays, in microseconds; a negative one is none."""
        whole = np.maximum(delays, 0)
        # Exact below 2^53 µs, which is longer than times reach.
        length = np.frexp(whole.astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(length - _MANTISSA_BITS, 0)
        buckets, counts = np.unique(shift << _MANTISSA_BITS | whole >> shift, return_counts=True)
        for bucket, count in zip(buckets.tolist(), counts.tolist(), strict=True):
            self.counts[bucket] += count

    def add_one(self, delay: int) -> None:
        """Count one: what :meth:`add` does with a column of it, thirty times faster."""
        whole = max(delay, 0)
        shift = max(whole.bit_length() - _MANTISSA_BITS, 0)
        self.counts[shift << _MANTISSA_BITS | whole >> shift] += 1

    def quantile(self, share: float) -> float | None:
        """The delay in seconds that this share of all does not exceed; None without any."""
        wanted = share * self.counts.total()
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted and seen:
                shift, mantissa = bucket >> _MANTISSA_BITS, bucket & ((1 << _MANTISSA_BITS) - 1)
                return float((((mantissa + 1) << shift) - 1) / 1_000_000)
        return None


class SavedCoverage(msgspec.Struct):
    """The written form: counts by partition and name, then (bucket or cohort, count)."""

    counts: dict[str, dict[str, int]]
    delays: list[tuple[int, int]]
    predicted: list[tuple[int, int]]
    labelled: list[tuple[int, int]]
    labels: list[tuple[int, int]]
    expired: int
    orphans: int
    border: int | None


class Coverage:
    """Counts of a join; whole numbers that add up over partitions.

    *Label coverage* is the share of the mature predictions of a recent span that have
    their label. A cohort is mature when the watermark is ``wait`` past its end: no label
    that comes now counts. The span ends with the newest mature cohort, and is the
    shorter of ``wait`` and an hour, in whole cohorts, one at least.

    Args:
        wait_us: How long a prediction waits for its label.
        cohort_us: Predictions of the same so many microseconds are a cohort.
    """

    def __init__(self, wait_us: int, cohort_us: int) -> None:
        self._wait = wait_us
        self._cohort = cohort_us
        self._span = -(-min(wait_us, _HOUR_US) // cohort_us)
        """Cohorts that coverage is measured over."""
        self._counts: dict[str, Counter[str]] = {}
        self.delays = Delays()
        self._predicted: Counter[int] = Counter()
        self._labelled: Counter[int] = Counter()
        self._labels: Counter[int] = Counter()
        self._expired = 0
        self._orphans = 0
        self._border: int | None = None
        """Cohorts before this one have been added to the two totals above."""

    def count(self, partition: str, name: str, number: int = 1) -> None:
        """Count so many more of one of ``COUNTS``."""
        if number:
            counts = self._counts.get(partition)
            if counts is None:
                counts = self._counts[partition] = Counter()
            counts[name] += number

    def predicted(self, times: IntArray) -> None:
        """New predictions, by their times."""
        self._note(self._predicted, times, "_expired", 1)

    def labelled(self, times: IntArray) -> None:
        """Predictions that have got their label, by the predictions' times."""
        self._note(self._labelled, times, "_expired", -1)

    def label_waits(self, times: IntArray, sign: int = 1) -> None:
        """Labels that wait for their prediction (or, sign -1, no longer), by their times."""
        self._note(self._labels, times, "_orphans", 1, sign)

    def predicted_one(self, time: int) -> None:
        """:meth:`predicted` of a single one."""
        self._note_one(self._predicted, time, "_expired", 1)

    def labelled_one(self, time: int) -> None:
        """:meth:`labelled` of a single one."""
        self._note_one(self._labelled, time, "_expired", -1)

    def label_waits_one(self, time: int, sign: int = 1) -> None:
        """:meth:`label_waits` of a single one."""
        self._note_one(self._labels, time, "_orphans", 1, sign)

    def _note_one(
        self, cohorts: Counter[int], time: int, total: str, weight: int, sign: int = 1
    ) -> None:
        start = time // self._cohort
        if self._border is not None and start < self._border:
            setattr(self, total, getattr(self, total) + weight * sign)
        else:
            cohorts[start] += sign

    def _note(
        self, cohorts: Counter[int], times: IntArray, total: str, weight: int, sign: int = 1
    ) -> None:
        if not len(times):
            return
        starts, counts = np.unique(times // self._cohort, return_counts=True)
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            if self._border is not None and start < self._border:
                setattr(self, total, getattr(self, total) + weight * sign * count)
            else:
                cohorts[start] += sign * count

    def settle(self, watermark: int | None, keep_us: int) -> None:
        """Add cohorts to the totals that are older than what is shown or covered."""
        borders = []
        if watermark is not None:
            keep_us = max(keep_us, self._span * self._cohort)
            borders.append((watermark - self._wait - keep_us) // self._cohort)
        for cohorts in (self._predicted, self._labels):
            if len(cohorts) > _MOST_COHORTS:
                borders.append(sorted(cohorts)[-_MOST_COHORTS])
        if not borders:
            return
        border = max(borders)
        if self._border is not None and border <= self._border:
            return
        self._border = border
        self._expired += _taken_before(self._predicted, border)
        self._expired -= _taken_before(self._labelled, border)
        self._orphans += _taken_before(self._labels, border)

    def _is_over(self, cohort: int, watermark: int | None) -> bool:
        """Whether nothing of a cohort waits any more."""
        return watermark is not None and (cohort + 1) * self._cohort + self._wait <= watermark

    def total(self, name: str) -> int:
        """One of ``COUNTS`` over all partitions."""
        return sum(counts[name] for counts in self._counts.values())

    def to_dict(self, watermark: int | None) -> dict[str, Any]:
        """What is published of a join."""
        totals = {name: self.total(name) for name in COUNTS}
        expired, orphans = self._expired, self._orphans
        for cohort, predictions in self._predicted.items():
            if self._is_over(cohort, watermark):
                expired += predictions - self._labelled[cohort]
        for cohort, labels in self._labels.items():
            if self._is_over(cohort, watermark):
                orphans += labels
        settled = totals["predictions"] - totals["joined"]
        waiting_labels = self._orphans + sum(self._labels.values()) - orphans
        quantiles = {f"p{n}": self.delays.quantile(n / 100) for n in (50, 95, 99)}
        # Those without a prediction are counted by their cohorts until they meet one.
        totals["labels"] += waiting_labels + orphans
        return {
            **totals,
            "waiting": settled - expired,
            "labels_waiting": waiting_labels,
            "expired": expired,
            "orphans": orphans,
            **self._mature(watermark),
            "delay": {**quantiles, "relative_error": self.delays.relative_error},
            "watermark": None if watermark is None else iso_time(watermark),
            "cohorts": [
                self._shown(cohort, watermark)
                for cohort in sorted(self._predicted)[-_SHOWN_COHORTS:]
            ],
        }

    def _mature(self, watermark: int | None) -> dict[str, Any]:
        """Label coverage, or the reason why it is undefined, and what it is measured over."""
        if watermark is None:
            found = {"start": None, "end": None, "predictions": 0, "labelled": 0}
            return {
                "coverage": None,
                "coverage_reason": "no prediction is mature yet",
                "mature": found,
            }
        end = (watermark - self._wait) // self._cohort
        cohorts = range(end - self._span, end)
        predictions = sum(self._predicted[cohort] for cohort in cohorts)
        # After the watermark was reset, cohorts that had been added to the totals are none here.
        labelled = min(predictions, sum(self._labelled[cohort] for cohort in cohorts))
        start_text, end_text = (iso_time(n * self._cohort) for n in (cohorts.start, end))
        reason = "" if predictions else f"no mature prediction from {start_text} to {end_text}"
        return {
            "coverage": labelled / predictions if predictions else None,
            "coverage_reason": reason,
            "mature": {
                "start": start_text,
                "end": end_text,
                "predictions": predictions,
                "labelled": labelled,
            },
        }

    def _shown(self, cohort: int, watermark: int | None) -> dict[str, Any]:
        predictions, labelled = self._predicted[cohort], self._labelled[cohort]
        over = self._is_over(cohort, watermark)
        return {
            "start": iso_time(cohort * self._cohort),
            "end": iso_time((cohort + 1) * self._cohort),
            "predictions": predictions,
            "labelled": labelled,
            "expired": predictions - labelled if over else 0,
            "coverage": labelled / predictions if predictions else None,
            "immature": not over and labelled < predictions,
        }

    def saved(self) -> SavedCoverage:
        """All of it, to be written."""
        return SavedCoverage(
            {name: dict(counts) for name, counts in sorted(self._counts.items())},
            _pairs(self.delays.counts),
            _pairs(self._predicted),
            _pairs(self._labelled),
            _pairs(self._labels),
            self._expired,
            self._orphans,
            self._border,
        )

    def restore(self, saved: SavedCoverage) -> None:
        """Take over what was saved."""
        self._counts = {name: Counter(counts) for name, counts in saved.counts.items()}
        self.delays.counts = Counter(dict(saved.delays))
        self._predicted = Counter(dict(saved.predicted))
        self._labelled = Counter(dict(saved.labelled))
        self._labels = Counter(dict(saved.labels))
        self._expired, self._orphans = saved.expired, saved.orphans
        self._border = saved.border


def _pairs(counts: Counter[int]) -> list[tuple[int, int]]:
    return [(key, count) for key, count in sorted(counts.items()) if count]


def _taken_before(cohorts: Counter[int], border: int) -> int:
    """Take the cohorts before a border out; their sum."""
    old = [cohort for cohort in cohorts if cohort < border]
    return sum(cohorts.pop(cohort) for cohort in old)
