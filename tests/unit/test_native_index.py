"""The compiled score index keeps the same laws, and has the bits of the portable one."""

from __future__ import annotations

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


@pytest.mark.parametrize("most", [1, 3, 2**20, 2**47, 2**53])
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


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_weight_that_needs_more_bytes_widens_its_leaf(bits: int) -> None:
    rng = np.random.default_rng(5)
    columns = rng.random(600) < 0.3, rng.random(600).round(4)
    native, portable = (kind() for kind in BOTH)
    for index in (native, portable):
        index.update_many(*columns)
        for positive, weight in ((True, 2**bits - 2), (False, 2**bits - 3), *[(True, 1)] * 3):
            index.update(positive, 0.5, weight)
            index._check()
    merged = native.copy()
    merged.merge(native)
    assert_alike(native, portable)
    portable.merge(portable)
    assert_alike(merged, portable)
    for _ in range(3):
        native.revert(True, 0.5)
    native._check()


def test_nothing_leaks() -> None:
    index, score = NativeScoreIndex(), 0.123456
    references = sys.getrefcount(score)

    def work() -> None:
        for call in (index.update, index.revert):
            for n in range(700):
                call(n % 2 == 0, score)
                call(n % 2 == 0, n / 7)
        index.groups()
        index.copy()

    def held() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    work()
    tracemalloc.start()
    try:
        before = held()
        for _ in range(5):
            work()
        assert held() - before < 7_000
    finally:
        tracemalloc.stop()
    assert (sys.getrefcount(score), index.distinct) == (references, 0)


def run_together(*works: Callable[[], object]) -> None:
    """Each in a thread of its own, started at one moment; raises what one of them raised."""
    start = threading.Barrier(len(works))
    with ThreadPoolExecutor(len(works)) as pool:
        for ended in [pool.submit(lambda work=work: (start.wait(), work())) for work in works]:
            ended.result()


@PICKLED
def test_readers_beside_writers_see_whole_batches() -> None:
    batch, rng = 2_000, np.random.default_rng(1)
    index = NativeScoreIndex()
    parts = [(rng.random(batch) < 0.5, rng.random(batch)) for _ in range(12)]

    def write(part: int) -> None:
        for columns in parts[part::2]:
            index.update_many(*columns)

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

    run_together(lambda: write(0), lambda: write(1), read, read)
    expected = NativeScoreIndex()
    expected.update_many(*map(np.concatenate, zip(*parts, strict=True)))
    assert (index, index.twice_u) == (expected, expected.twice_u)
    # Merged into one another at one moment, neither waits for ever.
    run_together(lambda: index.merge(expected), lambda: expected.merge(index))
    index._check()
    expected._check()
