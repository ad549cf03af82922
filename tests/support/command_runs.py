"""Runs the command line in the test's process or in one of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

from streameval.cli import main

COMMAND = [sys.executable, "-m", "streameval.cli"]


class Result(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Result]


def in_process(capfd: pytest.CaptureFixture[str]) -> Command:
    """A function that runs a command line here, where it need not be loaded again."""

    def run(*arguments: str | Path) -> Result:
        code = main([str(argument) for argument in arguments])
        return Result(code, *capfd.readouterr())

    return run


def own_process(*arguments: str | Path, stdin: bytes = b"") -> Result:
    """Run a command line as a shell does."""
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], input=stdin, capture_output=True, check=False
    )
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())
