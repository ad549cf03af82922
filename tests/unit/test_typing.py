"""Types of the public calls, as mypy infers them, and the generated file of names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import write_names


def test_the_names_are_those_of_the_registries() -> None:
    written = write_names.PATH.read_text(encoding="utf-8")
    assert written == write_names.text(), "run python -m tests.support.write_names"


@pytest.mark.slow
@pytest.mark.heavy
def test_calls_have_types() -> None:
    api = pytest.importorskip("mypy.api")
    path = Path(__file__).parents[1] / "support" / "typed_calls.py"
    words, errors, code = api.run(["--strict", "--follow-imports=silent", str(path)])
    assert code == 0, words + errors
