"""The command line as the tests of its commands run it."""

from __future__ import annotations

import pytest

from tests.support.command_runs import Command, in_process


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(capfd)
