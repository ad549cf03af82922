"""A Python without the interpreter's lock is refused at import, in words."""

from __future__ import annotations

import os
import subprocess
import sys

# What a free-threaded Python answers: none is fetched for the tests.
CODE = """
import sys
sys._is_gil_enabled = lambda: {locked}
import streameval
print(streameval.backend())
"""


def imported(locked: bool) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CODE.format(locked=locked)],
        env={**os.environ, "STREAMEVAL_BACKEND": "portable"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_interpreter_without_its_lock_is_refused_with_the_remedy() -> None:
    done = imported(locked=False)
    assert done.returncode
    last = done.stderr.splitlines()[-1]
    assert "needs the interpreter's lock" in last
    assert "PYTHON_GIL=1" in last


def test_a_free_threaded_interpreter_that_holds_it_is_served() -> None:
    assert imported(locked=True).stdout == "portable\n"
