"""The examples of the pages on the command line run, and print what the pages say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.page_examples import as_printed

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("command-line.md", "reading-files.md", "saved-states.md")
"""In the order in which they run, in one directory; tests/docs/test_pages.py runs others."""

MORE = """\
{"label": 1, "score": 0.8}
{"label": 0, "score": 0.7}
{"label": 1, "score": 0.3}
{"label": 0, "score": 0.2}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the pages are written for a POSIX shell")
def test_the_pages_print_what_the_commands_print(tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text(MORE)
    text = "".join((DOCS / page).read_text("utf-8") for page in PAGES)
    assert text.count("\n$ streameval ") > 30
    assert as_printed(text, tmp_path) == text
