"""Timing of competitors in turn, so that a change of the machine's speed meets all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results.

    ``ours`` and ``peer`` are medians in seconds (or the unit of ``unit``),
    ``ratio`` the median of the ratios pair by pair, ``target`` what was set.
    """

    name: str
    ours: float
    peer: float
    ratio: float
    target: str
    reached: bool
    peer_name: str
    unit: str = "s"
    exact: str = "exact"
    peer_exact: str = "exact"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


Part: TypeAlias = Callable[[], Row | list[Row]]
"""What measures one row, or rows that belong together. One that fails leaves the others."""


def once(action: Callable[[], object]) -> float:
    """Seconds of one call, the garbage collector held back."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start
    finally:
        gc.enable()


def interleaved(
    ours: Callable[[], object], peer: Callable[[], object], repeats: int
) -> tuple[float, float, float]:
    """Medians of both in seconds, and the median of peer / ours pair by pair."""
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(repeats):
        mine.append(once(ours))
        theirs.append(once(peer))
    ratios = [b / a for a, b in zip(mine, theirs, strict=True)]
    return statistics.median(mine), statistics.median(theirs), statistics.median(ratios)


def faster(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    target: float,
    repeats: int,
    peer_name: str,
    events: int = 1,
    **notes: str,
) -> Row:
    """A row "at least ``target`` times faster"; times are divided by ``events``."""
    mine, theirs, ratio = interleaved(ours, peer, repeats)
    scale, unit = (1e6 / events, "µs an event") if events > 1 else (1.0, "s")
    return Row(
        name,
        mine * scale,
        theirs * scale,
        ratio,
        f"≥ {target:g}×",
        ratio >= target,
        peer_name,
        unit,
        **notes,
    )
