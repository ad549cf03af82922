"""Statistics of a label join: counts, delays, and the share of each cohort that has labels."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import msgspec
import numpy as np

from streameval.events.time import iso_time
from streameval.events.values import IntArray
from streameval.service.join.counters import STORED

_SHOWN_COHORTS = 200
_MOST_COHORTS = 100_000
"""Bounds the memory where times are scattered over the calendar."""

_HOUR_US = 3_600_000_000

_MANTISSA_BITS = 8


class Delays:
    """A histogram of delays with buckets that grow with the delay."""

    # A delay below 256 µs has a bucket of its own; above, a bucket is narrower than 1/128 of the
    # delay. A quantile is the upper end of its bucket, at most relative_error too long.

    relative_error = 1 / (1 << (_MANTISSA_BITS - 1))

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, delays: IntArray) -> None:
        """Count delays, in microseconds; a negative one counts as 0."""
        whole = np.maximum(delays, 0)
        # Exact below 2^53 µs, which is longer than times reach.
        length = np.frexp(whole.astype(np.float64))[1].astype(np.int64)
        shift = np.maximum(length - _MANTISSA_BITS, 0)
        # There are less than 2^14 buckets.
        counts = np.bincount(shift << _MANTISSA_BITS | whole >> shift)
        buckets = np.flatnonzero(counts)
        for bucket, count in zip(buckets.tolist(), counts[buckets].tolist(), strict=True):
            self.counts[bucket] += count

    def add_one(self, delay: int) -> None:
        """Count one delay: :meth:`add` of a column of one, thirty times faster."""
        whole = max(delay, 0)
        shift = max(whole.bit_length() - _MANTISSA_BITS, 0)
        self.counts[shift << _MANTISSA_BITS | whole >> shift] += 1

    def quantile(self, share: float) -> float | None:
        """The delay in seconds that this share of all does not exceed; None without delays."""
        wanted = share * self.counts.total()
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= wanted and seen:
                shift, mantissa = bucket >> _MANTISSA_BITS, bucket & ((1 << _MANTISSA_BITS) - 1)
                return float((((mantissa + 1) << shift) - 1) / 1_000_000)
        return None


class CohortCounts:
    """Counts by cohort; those of cohorts before a border are summed up."""

    __slots__ = ("_width", "border", "counts", "earlier")

    def __init__(self, width_us: int) -> None:
        self._width = width_us
        self.counts: Counter[int] = Counter()
        self.border: int | None = None
        """The first cohort that is counted separately; None: all are."""
        self.earlier = 0
        """The sum of those before it."""

    def add(self, times: IntArray, sign: int = 1) -> None:
        """Count times; with sign -1, remove as many."""
        if not len(times):
            return
        first = int(times.min()) // self._width
        if first == int(times.max()) // self._width:  # usual, and sorting takes longer
            self._add(first, sign * len(times))
            return
        cohorts, counts = np.unique(times // self._width, return_counts=True)
        for cohort, count in zip(cohorts.tolist(), counts.tolist(), strict=True):
            self._add(cohort, sign * count)

    def add_one(self, time: int, sign: int = 1) -> None:
        """Count one time: :meth:`add` of a column of one."""
        self._add(time // self._width, sign)

    def _add(self, cohort: int, count: int) -> None:
        if self.border is not None and cohort < self.border:
            self.earlier += count
        else:
            self.counts[cohort] += count

    def sum_up(self, border: int) -> None:
        """Move the counts of the cohorts before this one to their sum."""
        self.border = border
        for cohort in [cohort for cohort in self.counts if cohort < border]:
            self.earlier += self.counts.pop(cohort)

    def merge(self, other: CohortCounts) -> None:
        """Add the counts of another one, which is unchanged."""
        self.earlier += other.earlier
        for cohort, count in other.counts.items():
            self._add(cohort, count)
        if other.border is not None and (self.border is None or other.border > self.border):
            self.sum_up(other.border)

    def restore(self, counts: list[tuple[int, int]], earlier: int, border: int | None) -> None:
        """Replace all of it by what was saved."""
        self.counts = Counter(dict(counts))
        self.earlier = earlier
        self.border = border


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
    """Counts of a join; integers that are summed over partitions."""

    # Label coverage is the share of the mature predictions of a recent span that have their label.
    # A cohort is mature when the watermark is wait past its end: no later label counts. The span
    # ends with the newest mature cohort, and is the shorter of wait and an hour, in whole cohorts.

    def __init__(self, wait_us: int, cohort_us: int) -> None:
        self._wait = wait_us
        self._cohort = cohort_us
        self._span = -(-min(wait_us, _HOUR_US) // cohort_us)
        """Cohorts that coverage is measured over."""
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.delays = Delays()
        self.predicted = CohortCounts(cohort_us)
        """New predictions, by their times."""
        self.labelled = CohortCounts(cohort_us)
        """Predictions with a label, by the predictions' times."""
        self.early = CohortCounts(cohort_us)
        """Labels that wait for their prediction, by their times."""

    def count(self, partition: str, name: str, number: int = 1) -> None:
        """Add a number to one of the counters that are stored."""
        if number:
            self._counts[partition][name] += number

    def merge(self, other: Coverage) -> None:
        """Add the counts of another join; a cohort that either has summed up is summed up."""
        for name, counts in other._counts.items():
            self._counts[name].update(counts)
        self.delays.counts.update(other.delays.counts)
        self.predicted.merge(other.predicted)
        self.labelled.merge(other.labelled)
        self.early.merge(other.early)

    def sum_up(self, watermark: int | None, keep_us: int) -> None:
        """Sum up the cohorts that are older than what is shown or covered."""
        borders = []
        if watermark is not None:
            keep_us = max(keep_us, self._span * self._cohort)
            borders.append((watermark - self._wait - keep_us) // self._cohort)
        for cohorts in (self.predicted, self.early):
            if len(cohorts.counts) > _MOST_COHORTS:
                borders.append(sorted(cohorts.counts)[-_MOST_COHORTS])
        if not borders:
            return
        border = max(borders)
        if self.predicted.border is None or border > self.predicted.border:
            for cohorts in (self.predicted, self.labelled, self.early):
                cohorts.sum_up(border)

    def _is_over(self, cohort: int, watermark: int | None) -> bool:
        """Whether the waiting time of a whole cohort is over."""
        return watermark is not None and (cohort + 1) * self._cohort + self._wait <= watermark

    def to_dict(self, watermark: int | None) -> dict[str, Any]:
        """The published form, as of a watermark."""
        totals = {n: sum(counts[n] for counts in self._counts.values()) for n in STORED}
        labels = self.early
        expired, orphans = self.predicted.earlier - self.labelled.earlier, labels.earlier
        for cohort, predictions in self.predicted.counts.items():
            if self._is_over(cohort, watermark):
                expired += predictions - self.labelled.counts[cohort]
        for cohort, count in labels.counts.items():
            if self._is_over(cohort, watermark):
                orphans += count
        unlabelled = totals["predictions"] - totals["joined"]
        waiting_labels = labels.earlier + labels.counts.total() - orphans
        quantiles = {f"p{n}": self.delays.quantile(n / 100) for n in (50, 95, 99)}
        # Labels without a prediction are counted by their cohorts until they are joined.
        totals["labels"] += waiting_labels + orphans
        return {
            **totals,
            "waiting": unlabelled - expired,
            "labels_waiting": waiting_labels,
            "expired": expired,
            "orphans": orphans,
            **self._mature(watermark),
            "delay": {**quantiles, "relative_error": self.delays.relative_error},
            "watermark": None if watermark is None else iso_time(watermark),
            "cohorts": [
                self._shown(cohort, watermark)
                for cohort in sorted(self.predicted.counts)[-_SHOWN_COHORTS:]
            ],
        }

    def _mature(self, watermark: int | None) -> dict[str, Any]:
        """Label coverage or the reason why it is undefined, and its cohorts."""
        start = end = None
        predictions = labelled = 0
        reason = "no prediction is mature yet"
        if watermark is not None:
            border = (watermark - self._wait) // self._cohort
            cohorts = range(border - self._span, border)
            predictions = sum(self.predicted.counts[cohort] for cohort in cohorts)
            # After a reset of the watermark, cohorts that were summed up are missing here.
            labelled = min(predictions, sum(self.labelled.counts[cohort] for cohort in cohorts))
            start, end = (iso_time(n * self._cohort) for n in (cohorts.start, border))
            reason = "" if predictions else f"no mature prediction from {start} to {end}"
        counts = {"start": start, "end": end, "predictions": predictions, "labelled": labelled}
        return {
            "coverage": labelled / predictions if predictions else None,
            "coverage_reason": reason,
            "mature": counts,
        }

    def _shown(self, cohort: int, watermark: int | None) -> dict[str, Any]:
        predictions, labelled = self.predicted.counts[cohort], self.labelled.counts[cohort]
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
        """The written form of all of it."""
        return SavedCoverage(
            {name: dict(sorted(counts.items())) for name, counts in sorted(self._counts.items())},
            _pairs(self.delays.counts),
            _pairs(self.predicted.counts),
            _pairs(self.labelled.counts),
            _pairs(self.early.counts),
            self.predicted.earlier - self.labelled.earlier,
            self.early.earlier,
            self.predicted.border,
        )

    def restore(self, saved: SavedCoverage) -> None:
        """Replace all of it by what was saved."""
        self._counts.clear()
        self._counts.update((name, Counter(counts)) for name, counts in saved.counts.items())
        self.delays.counts = Counter(dict(saved.delays))
        self.predicted.restore(saved.predicted, saved.expired, saved.border)
        self.labelled.restore(saved.labelled, 0, saved.border)
        self.early.restore(saved.labels, saved.orphans, saved.border)


def _pairs(counts: Counter[int]) -> list[tuple[int, int]]:
    return [(key, count) for key, count in sorted(counts.items()) if count]
