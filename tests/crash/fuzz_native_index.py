"""Random operations on the compiled and the portable score index, which must agree.

python -m tests.crash.fuzz_native_index --operations 1000000 --seed 0
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import typer

from streameval.errors import InputError
from streameval.states.ranking.compiled_index import NativeScoreIndex
from streameval.states.ranking.reference_index import ReferenceScoreIndex

_SIZES = ((0.98, (0,)), (0.975, (0, 3, 200)), (0.96, (0, 1, 10, 500)), (0.6, (0,)), (0.0, (1,)))
"""Draws from 0 to 1 -> how many events an operation adds."""
_FEW = [0.0, -0.0, 0.1, 0.5, 0.25, -7.5, 5e-324, 1e308, -1e308]


def _event(draw: random.Random) -> tuple[bool, float, int]:
    few = draw.random() < 0.2
    score = draw.choice(_FEW) if few else round(draw.random(), draw.choice((2, 4, 17)))
    weight = 1 if draw.random() < 0.9 else draw.choice((2, 3, 300, 70_000, 2**33))
    return draw.random() < 0.4, score, weight


def _same(native: Any, portable: Any, *, content: bool = True) -> None:
    assert native.twice_u == portable.twice_u
    assert (native.positives, native.negatives) == (portable.positives, portable.negatives)
    if not content:
        return
    native._check()
    for left, right in zip(native.groups(), portable.groups(), strict=True):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()
    assert native.delong_sums() == portable.delong_sums()
    assert native.ks_statistic == portable.ks_statistic


def fuzz(operations: int, seed: int) -> int:
    """Run so many operations; the number of reverts that both refused."""
    draw = random.Random(seed)
    pair: list[Any] = [NativeScoreIndex(), ReferenceScoreIndex()]
    present: list[tuple[bool, float, int]] = []
    refused = [0, 0]
    done = 0
    while done < operations:
        act = draw.random()
        sizes = next(sizes for least, sizes in _SIZES if act >= least)
        added = [_event(draw) for _ in range(draw.choice(sizes))]
        if act < 0.6:
            for index in pair:
                index.update(*added[0])
        elif act < 0.93 and present:
            at = draw.randrange(len(present))
            present[at], present[-1] = present[-1], present[at]
            event = present.pop()
            for index in pair:
                index.revert(*event)
        elif act < 0.96:
            for n, index in enumerate(pair):
                try:
                    index.revert(done % 2 == 0, 2 + done / operations, 1)
                except InputError:
                    refused[n] += 1
        elif act < 0.975:
            columns = [np.array(column) for column in zip(*added, strict=True)] or [[], [], []]
            for index in pair:
                index.update_many(*columns)
        elif act < 0.98:
            more: list[Any] = [NativeScoreIndex(), ReferenceScoreIndex()]
            for index, other in zip(pair, more, strict=True):
                for event in added:
                    other.update(*event)
                index.merge(other)
            _same(*more)
        elif act < 0.9805:
            pair = [index.copy() for index in pair]
        else:
            _same(*pair, content=draw.random() < 0.02)
            # Kept from here on, until a large batch or merge replaces the tree.
            pair[0].delong_sums()
            if draw.random() < 0.3:
                pair[0]._check()
        present += added
        done += max(len(added), 1)
        if draw.random() < 0.0005:
            _same(*pair)
            pair[0] = NativeScoreIndex.from_state(pair[0].to_state())
        if len(present) > 30_000:
            pair, present = [NativeScoreIndex(), ReferenceScoreIndex()], []
    _same(*pair)
    assert refused[0] == refused[1]
    return refused[0]


def main(operations: int = 1_000_000, seed: int = 0) -> None:
    """The command line."""
    refused = fuzz(operations, seed)
    print(f"{operations:,} operations with seed {seed} agree; {refused} were refused")


if __name__ == "__main__":
    typer.run(main)
