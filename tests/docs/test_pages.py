"""The console examples of the pages run, and print what the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.page_examples import BEFORE, as_printed, pages_with_commands

DOCS = Path(__file__).parents[2] / "docs"

_ELSEWHERE = {"command-line.md", "reading-files.md", "saved-states.md"}
"""`tests/cli/test_cli_docs.py` runs these, in one directory."""

PAGES = [path for path in pages_with_commands(DOCS) if path.name not in _ELSEWHERE]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_a_page_prints_what_its_commands_print(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert as_printed(text, tmp_path, BEFORE.get(path.name, "")) == text


def test_the_tutorials_have_commands() -> None:
    names = {path.relative_to(DOCS).as_posix() for path in PAGES}
    assert {"start.md", "tutorials/files.md", "tutorials/monitored-model.md"} <= names
    assert BEFORE.keys() <= names
