"""Seven shards, merged in any order, give the bits of the unsharded run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import streameval as se
from tests.support.window_model import Item, binary_stream, class_stream, columns

pytestmark = pytest.mark.slow

SHARDS = 7
READ = {
    "binary": ("accuracy", "f1", "matthews_corrcoef", "roc_auc", "average_precision", "log_loss",
               "brier_score", "binormal_auc", "ks"),
    "multiclass": ("accuracy", "f1_macro", "cohen_kappa", "log_loss", "roc_auc_ovr",
                   "roc_auc_ovo", "expected_calibration_error"),
}  # fmt: skip
WINDOWS = [
    # The lateness is that of the stream; nothing is dropped, in the whole or in a shard.
    se.Panes("1h", "10m", "70m", retain="3h"),
    se.Panes("2h", lateness="2h"),
    se.Fading("15m"),
    se.Fading("7d"),
    None,
]


def by_time(items: list[Item], rng: np.random.Generator) -> list[int]:
    return [n * SHARDS // len(items) for n in range(len(items))]


def at_random(items: list[Item], rng: np.random.Generator) -> list[int]:
    return rng.integers(0, SHARDS, len(items)).tolist()


CASES = [
    (("binary", "multiclass")[n % 2], window, (by_time, at_random)[n // 2 % 2])
    for n, window in enumerate(WINDOWS)
]
"""Each window; each task split in both ways."""


@pytest.mark.parametrize(("task", "window", "split"), CASES)
def test_the_bits_of_the_unsharded_run(
    task: str, window: Any, split: Callable[[list[Item], np.random.Generator], list[int]]
) -> None:
    rng = np.random.default_rng(11)
    items = (binary_stream if task == "binary" else class_stream)(220, seed=12)
    countries = rng.choice(["PT", "DE", "FR"], len(items)).tolist()
    items = [
        Item(i.y_true, i.score, i.proba, time=i.time, slices={"country": c, "model": n % 2})
        for n, (i, c) in enumerate(zip(items, countries, strict=True))
    ]

    def opened() -> se.Evaluator:
        return se.Evaluator(
            task=task, window=window, slices=("country", ("country", "model")), time_unit="s"
        )

    whole = opened()
    for item in items:
        whole.update(**item.arguments(timed=True, sliced=True))
    home = split(items, rng)
    shards = []
    for shard in range(SHARDS):
        ev = opened()
        mine = [item for item, where in zip(items, home, strict=True) if where == shard]
        if shard % 2:
            ev.update_many(**columns(mine, timed=True, sliced=True))
        else:
            for item in mine:
                ev.update(**item.arguments(timed=True, sliced=True))
        if shard % 3 == 0:
            ev.report()
        shards.append(se.from_bytes(ev.to_bytes()) if shard == 2 else ev)
    for _ in range(2):
        order = rng.permutation(SHARDS).tolist()
        before = [shard.to_bytes() for shard in shards]
        merged = se.merge(shards[n] for n in order)
        assert [shard.to_bytes() for shard in shards] == before
        for part in ("window", "slices"):
            assert repr(merged.to_state()[part]) == repr(whole.to_state()[part])
        if window is None:
            assert merged.to_bytes() == whole.to_bytes()
        else:
            # Which events are late depends on the shard; how many events arrived does not.
            assert sum(merged.arrivals.values()) == sum(whole.arrivals.values())
            latest = [ev.to_state()["timeline"]["latest"] for ev in (merged, whole)]
            assert latest[0] == latest[1]
        for name in READ[task]:
            assert repr(merged[name]) == repr(whole[name])
        assert list(merged.slices()) == list(whole.slices())
        for key, view in merged.slices().items():
            for name in READ[task][:2]:
                assert repr(view[name]) == repr(whole.slices()[key][name])
        if isinstance(window, se.Panes):
            assert repr(merged.series("accuracy")) == repr(whole.series("accuracy"))
        merged._check()
    # And a merge of merges.
    tree = se.merge([se.merge(shards[:3]), se.merge(shards[3:5]), se.merge(shards[5:])])
    assert repr(tree.to_state()["window"]) == repr(whole.to_state()["window"])


def test_a_merge_of_another_setting_changes_nothing() -> None:
    ev = se.Evaluator(task="multiclass", window=se.Panes("1h"), time_unit="s")
    ev.update("a", "a", event_time=0)
    other = se.Evaluator(task="multiclass", window=se.Panes("1h"), time_unit="s")
    other.update(1, 1, event_time=90_000)
    before = ev.to_bytes()
    with pytest.raises(se.StateError, match="cannot be merged"):
        ev.merge(other)
    assert ev.to_bytes() == before
    assert ev["accuracy"] == 1.0
