"""Every cell that says what to type here is run, and pages stay short."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import in_process
from tests.unit.test_doctests import FLAGS

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "coming-from").glob("*.md"))
_ROW = re.compile(r"^\| (.+?) (?<!\\)\| (.+) \|$", re.MULTILINE)
_CODE = re.compile(r"(?<!\[)`([^`]+)`")


def cells(page: Path) -> list[str]:
    """The right-hand cells of a page's table."""
    rows = _ROW.findall(page.read_text("utf-8"))
    assert rows[0][1] == "here"
    return [right for _, right in rows[2:]]


def names_of(page: Path) -> dict[str, Any]:
    """What the session at the top of a page defines."""
    test = doctest.DocTestParser().get_doctest(page.read_text("utf-8"), {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0
    return test.globs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_one_types_here_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("predictions.csv").write_text("label,score\n1,0.9\n0,0.4\n1,0.35\n0,0.1\n")
    names = names_of(page)
    ran = 0
    for cell in cells(page):
        codes = [code for code in _CODE.findall(cell) if re.search(r"[\[(= ]|\.\w", code)]
        assert codes or cell.startswith(("not here", "an [alert]", "[`", "two saved")), cell
        for code in codes:
            ran += 1
            if code.startswith("streameval "):
                done = in_process(capfd)(*shlex.split(code)[1:])
                assert done.code == 0, done.err
            elif re.fullmatch(r"\w+ = ['\"\d.]+", code):
                continue  # a key of the configuration, which test_run_config reads
            else:
                exec(compile(code, f"{page.name}: {cell}", "exec"), dict(names))
    assert ran >= 8


def test_there_is_a_page_for_each_library() -> None:
    names = {page.stem for page in PAGES}
    assert names == {"evidently", "mlflow", "nannyml", "river", "torchmetrics", "whylogs"}


def test_no_page_is_too_long() -> None:
    """Of pages that are made from the code, the test of the built site counts."""
    words = {page.name: len(page.read_text("utf-8").split()) for page in DOCS.rglob("*.md")}
    assert {name: count for name, count in words.items() if count > 3000} == {}


def test_words_are_sorted_and_explained_once() -> None:
    words = re.findall(
        r"^\| \*\*(.+?)\*\*", (DOCS / "glossary.md").read_text("utf-8"), re.MULTILINE
    )
    assert words == sorted(set(words))
    assert {"pane", "watermark", "lateness", "mature", "shard", "slice", "window"} <= set(words)
