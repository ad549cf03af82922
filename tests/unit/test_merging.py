"""``merge`` of many shards: whatever they are given as, and how many are held at once."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest

import streameval as se

SHARDS = 300
METRICS = "accuracy"


def _shard(n: int) -> se.Evaluator:
    ev = se.Evaluator(metrics=METRICS)
    ev.update(n % 3 == 0, n % 7 < 4)
    return ev


def test_of_three_hundred_shards_nine_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    live: dict[int, weakref.ref[se.Evaluator]] = {}
    most = made = 0
    begin = se.Evaluator.__init__

    def counted(self: se.Evaluator, *given: Any, **named: Any) -> None:
        nonlocal most, made
        begin(self, *given, **named)
        key = made = made + 1
        live[key] = weakref.ref(self, lambda _: live.pop(key))
        most = max(most, len(live))

    monkeypatch.setattr(se.Evaluator, "__init__", counted)
    total = se.merge(_shard(n) for n in range(SHARDS))
    assert made >= SHARDS
    # 2**9 > 300: a state for each digit, the new shard, and the copy of one.
    assert most <= 9 + 2
    whole = se.Evaluator(metrics=METRICS)
    numbers = range(SHARDS)
    whole.update_many([n % 3 == 0 for n in numbers], [n % 7 < 4 for n in numbers])
    assert total.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_in_every_form(tmp_path: Path, count: int) -> None:
    shards = [_shard(n) for n in range(count)]
    whole = shards[0].copy()
    for shard in shards[1:]:
        whole.merge(shard)
    before = [shard.to_bytes() for shard in shards]
    paths = [tmp_path / f"{n:03d}.state" for n in range(count)]
    for shard, path in zip(shards, paths, strict=True):
        shard.save(path)
    forms: tuple[list[Any], ...] = (shards, before, paths, list(map(str, paths)))
    mixed = [forms[n % 4][n] for n in range(count)]
    for given in (shards, iter(shards), before, paths, map(str, paths), mixed):
        # Some are alike, and bytes and files carry the shards that they are of.
        assert se.merge(given, allow_overlap=True).confusion == whole.confusion
    assert [shard.to_bytes() for shard in shards] == before


def test_the_shard_that_differs_is_named(tmp_path: Path) -> None:
    shards = [_shard(n) for n in range(4)]
    other, path = se.Evaluator(metrics="f1"), tmp_path / "other.state"
    other.save(path)
    cases: list[tuple[list[Any], str]] = []
    for place, pair in enumerate(("0 1", "0 1", "2 3", "2 3", "0 4")):
        told = r"^evaluators\[{}\] and evaluators\[{}\]: .*metrics".format(*pair.split())
        cases.append(([*shards[:place], other, *shards[place:]], told))
    cases.append(([shards[0], path], r"evaluators\[0\] and .*other\.state: .*metrics"))
    cases.append(([tmp_path / "missing.state"], r"missing\.state"))
    for given, message in cases:
        with pytest.raises(se.StateError, match=message):
            se.merge(given)
