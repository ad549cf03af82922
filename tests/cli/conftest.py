"""The command line as the tests of its commands run it."""

from __future__ import annotations

import pytest

from tests.support.command_runs import Command, in_process

# What the next releases of numpy, pandas and pyarrow will refuse.
_ERRORS = [f"error::{kind}Warning" for kind in ("Deprecation", "Future", "PendingDeprecation")]


@pytest.fixture(autouse=True)
def _warnings_of_commands(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors as in the tests' own process, also in commands with a process of their own."""
    options = pytestconfig.getoption("pythonwarnings") or _ERRORS  # -W
    monkeypatch.setenv("PYTHONWARNINGS", ",".join(options))


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(capfd)
