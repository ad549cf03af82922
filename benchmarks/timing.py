"""Timing of competitors in turn, so that a change of the machine's speed meets all of them."""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

ROOT = Path(__file__).parents[1]


NO_TARGET = "none"
"""The target of a row of which nothing is wanted."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the results.

    ``ours`` and ``peer`` are medians in seconds (or the unit of ``unit``),
    ``ratio`` the median of the ratios pair by pair, ``target`` what was set, and ``share`` how
    much of the target there is, 1 where it is just reached; None where that is no ratio. A row
    whose target is :data:`NO_TARGET` is a measurement alone, and always reached.
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
    share: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the target is reached, in Markdown; empty where there is none."""
        if self.target == NO_TARGET:
            return ""
        return "reached" if self.reached else "**missed**"

    @property
    def near(self) -> bool:
        """Whether the target is reached, or missed by no more than machines vary."""
        return self.reached or (self.share is not None and self.share >= 0.9)

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
    target: float | None,
    repeats: int,
    peer_name: str,
    events: int = 1,
    **notes: Any,
) -> Row:
    """A row "at least ``target`` times faster", or a measurement; of ``events`` events each."""
    mine, theirs, ratio = interleaved(ours, peer, repeats)
    scale, unit = (1e6 / events, "µs an event") if events > 1 else (1.0, "s")
    return Row(
        name,
        mine * scale,
        theirs * scale,
        ratio,
        f"≥ {target:g}×" if target else NO_TARGET,
        not target or ratio >= target,
        peer_name,
        unit,
        share=ratio / target if target else None,
        **notes,
    )


def printed(code: str, **environment: str) -> Any:
    """The JSON that a Python process of its own prints."""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise RuntimeError(answer.stderr)
    return json.loads(answer.stdout)


def in_a_process(module: str, call: str, **environment: str) -> Row:
    """The row of a call of a function of a module, out of a process of its own."""
    code = f"import json, {module}; print(json.dumps({module}.{call}.to_dict()))"
    return Row(**printed(code, **environment))
