"""The compiled score index keeps the same laws, and has the bits of the portable one."""

from __future__ import annotations

import functools
import gc
import math
import pickle
import sys
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from streameval.metrics import roc_auc
from streameval.states.backend import backend
from streameval.states.ranking.reference_index import ReferenceScoreIndex

native_index = pytest.importorskip(
    "streameval.states.ranking.compiled_index",
    reason="NOT TESTED: compiled code, of which none was built",
)
fuzz = pytest.importorskip("tests.crash.fuzz_native_index").fuzz

NativeScoreIndex = native_index.NativeScoreIndex
# `score_index.py` registers how, for the one of the two that the process uses.
PICKLED = pytest.mark.skipif(backend() == "portable", reason="not the index of this backend")


@pytest.mark.parametrize(
    ("count", "seed"),
    [(20_000, 0), *(pytest.param(250_000, seed, marks=pytest.mark.heavy) for seed in range(1, 5))],
)
def test_a_million_random_operations_agree_with_the_portable_index(count: int, seed: int) -> None:
    assert fuzz(count, seed) > 0


BOTH = (NativeScoreIndex, ReferenceScoreIndex)


def assert_alike(native: Any, portable: Any) -> None:
    """All that is derived has the same bits."""
    native._check()
    assert native.twice_u == portable.twice_u
    assert native.delong_sums() == portable.delong_sums()
    assert native.ks_statistic == portable.ks_statistic
    if portable.positives and portable.negatives:
        assert native.roc_auc().hex() == roc_auc(portable).hex()
    else:
        assert math.isnan(native.roc_auc())


@pytest.mark.parametrize("most", [1, 3, 2**20, 2**47, 2**53], ids=lambda most: f"weights to {most}")
@pytest.mark.parametrize("lead", [-2.0, 0.1, 9.0])
def test_large_batches_have_the_bits_of_the_portable_index(lead: float, most: int) -> None:
    draw = np.random.default_rng(13)
    native, portable = (kind() for kind in BOTH)
    assert_alike(native, portable)
    for count in (1, 1, 300, 4_000):
        positive = draw.random(count) < 0.3
        # Few heavy ones, so that gaps jump between two nodes.
        weight = (most ** draw.random(count) ** 3).astype(np.int64)
        columns = positive, draw.normal(lead * positive).round(5), weight
        for index in (native, portable):
            index.update_many(*columns)
        assert_alike(native, portable)


@pytest.mark.parametrize("weights", [[2**26, 2**26, 1], [1, 0.5, 3]], ids=["a double", "fractions"])
def test_its_auc_has_the_bits_of_the_metric(weights: list[float]) -> None:
    native, portable = (kind() for kind in BOTH)
    draw = np.random.default_rng(11)
    for n in range(400):
        event = (bool(draw.random() < 0.3), round(float(draw.random()), 2), weights[n % 3])
        for index in (native, portable):
            index.update(*event)
        if portable.positives and portable.negatives:
            assert native.roc_auc().hex() == roc_auc(portable).hex()


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_weight_that_needs_more_bytes_widens_its_leaf(bits: int) -> None:
    native, portable = (kind() for kind in BOTH)
    rng = np.random.default_rng(5)
    columns = rng.random(600) < 0.3, rng.random(600).round(4)
    for index in (native, portable):
        index.update_many(*columns)
    assert_alike(native, portable)
    for positive, weight in ((True, 2**bits - 2), (False, 2**bits - 3), *[(True, 1)] * 3):
        for index in (native, portable):
            index.update(positive, 0.5, weight)
        assert_alike(native, portable)
    merged = native.copy()
    merged.merge(native)
    portable.merge(portable)
    assert_alike(merged, portable)
    for _ in range(3):
        native.revert(True, 0.5)
    native._check()


def test_nothing_leaks() -> None:
    index = NativeScoreIndex()
    score = 0.123456
    references = sys.getrefcount(score)

    def work() -> None:
        for call in (index.update, index.revert):
            for n in range(700):
                call(n % 2 == 0, score)
                call(n % 2 == 0, n / 7)
        index.groups()
        index.copy()

    work()
    gc.collect()
    tracemalloc.start()
    try:
        first = tracemalloc.get_traced_memory()[0]
        for _ in range(5):
            work()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - first < 7_000
    finally:
        tracemalloc.stop()
    assert sys.getrefcount(score) == references
    assert index.distinct == 0


def run_together(*works: Callable[[], object]) -> None:
    """Each in a thread of its own, started at one moment; raises what one of them raised."""
    start = threading.Barrier(len(works))
    with ThreadPoolExecutor(len(works)) as pool:
        for ended in [pool.submit(lambda work=work: (start.wait(), work())) for work in works]:
            ended.result()


def parts_of(count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [(rng.random(count) < 0.5, rng.random(count)) for _ in range(4)]


def test_threads_on_two_indices() -> None:
    parts = parts_of(30_000)

    def fed() -> NativeScoreIndex:
        index = NativeScoreIndex()
        # Each part is one of the threads that write to it.
        run_together(*[functools.partial(index.update_many, *part) for part in parts])
        for positive, score in parts:
            for flag, number in zip(positive[:500].tolist(), score[:500].tolist(), strict=True):
                index.update(flag, number)
                index.revert(flag, number)
        return index

    found: list[NativeScoreIndex] = []
    run_together(lambda: found.append(fed()), lambda: found.append(fed()))
    expected = NativeScoreIndex()
    for part in parts:
        expected.update_many(*part)
    for index in found:
        assert index == expected
        assert index.twice_u == expected.twice_u
        index._check()
    # Merged into one another at one moment, neither waits for ever.
    left, right = found
    run_together(lambda: left.merge(right), lambda: right.merge(left))
    left._check()
    right._check()


@PICKLED
def test_readers_beside_a_writer_see_whole_batches() -> None:
    batch = 2_000
    index = NativeScoreIndex()
    parts = parts_of(batch) * 3

    def write() -> None:
        for part in parts:
            index.update_many(*part)

    def read() -> None:
        for _ in range(40):
            groups = index.groups()
            assert (int(groups.positives.sum()) + int(groups.negatives.sum())) % batch == 0
            copied = index.copy()
            assert (copied.positives + copied.negatives) % batch == 0
            assert pickle.loads(pickle.dumps(copied)).twice_u == copied.twice_u
            seen = [block.scores for block in index.group_blocks()]
            ordered = np.concatenate(seen) if seen else np.zeros(0)
            assert (np.diff(ordered) > 0).all()

    run_together(write, read, read)
    assert index.positives + index.negatives == batch * len(parts)
    index._check()
