"""What was not tested is said in the last lines of a run, not only as a letter among dots."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("streameval", deadline=None)
settings.load_profile("streameval")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Repeat the reasons of skips that mean: this machine lacks what the test needs."""
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if reason.startswith("NOT TESTED"):
            counts[reason] = counts.get(reason, 0) + 1
    for reason, count in counts.items():
        terminalreporter.write_line(f"{reason} ({count} tests)", yellow=True, bold=True)


@pytest.fixture
def forced_switches() -> Iterator[None]:
    """Threads are switched after a few steps of Python, not after 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
