"""Which panes are kept does not depend on the position of the clock in the newest pane."""

from __future__ import annotations

import numpy as np
import pytest

import streameval as se


@pytest.mark.parametrize("lateness", ["0s", "10m", "59m", "1h", "61m"])
@pytest.mark.parametrize("retain", [None, "7h", "400m"])
def test_one_by_one_batched_and_loaded_agree(lateness: str, retain: str | None) -> None:
    def made() -> se.Evaluator:
        window = se.Panes("5h", pane="1h", lateness=lateness, retain=retain)
        return se.Evaluator(window=window, time_unit="s")

    hour = 3600
    times = [22 * hour + 1200, 23 * hour, *(24 * hour + 60 * k for k in range(500))]
    labels = [n % 3 == 0 for n in range(len(times))]
    scores = (np.arange(len(times)) * 37 % 101 / 101).tolist()
    single, batch = made(), made()
    for label, score, time in zip(labels, scores, times, strict=True):
        single.update(label, score=score, event_time=time)
        if time % 1800 == 0:
            assert se.from_bytes(single.to_bytes()) == single
    batch.update_many(labels, score=scores, event_time=times)
    assert single.to_bytes() == batch.to_bytes()
    assert se.from_bytes(single.to_bytes()) == single
