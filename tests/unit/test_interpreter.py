"""A Python without the interpreter's lock is refused at import, in words."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# What a free-threaded Python answers: none is fetched for the tests.
CODE = """
import sys

import pytest
sys._is_gil_enabled = lambda: {locked}
import streameval
print(streameval.backend())
"""


@pytest.mark.parametrize("locked", [False, True])
def test_an_interpreter_without_its_lock_is_refused_with_the_remedy(locked: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(locked=locked)],
        env={**os.environ, "STREAMEVAL_BACKEND": "portable"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0, done.stdout) == (locked, "portable\n" if locked else "")
    said = done.stderr.splitlines()[-1:]
    assert locked or ("needs the interpreter's lock" in said[0] and "PYTHON_GIL=1" in said[0])
