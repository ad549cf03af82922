"""Every example in a docstring or a document runs, and cells that say what to type here do."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import pytest

import streameval
from tests.support.command_runs import in_process

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = Path(streameval.__file__).parent
_ENGINES = {"beam", "dask", "spark", "torchmetrics"}
"""Pages and modules of integrations whose examples `make test-engines` runs."""


def _here(paths: Iterable[Path]) -> list[Path]:
    with_examples = [path for path in paths if ">>> " in path.read_text(encoding="utf-8")]
    return [path for path in with_examples if path.stem not in _ENGINES]


def _dotted(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = [_dotted(path) for path in _here(sorted(PACKAGE.rglob("*.py")))]
MODULES += ["docsite.copying", "docsite.markdown"]
DOCUMENTS = _here([ROOT / "README.md", *sorted(DOCS.rglob("*.md"))])


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert result.failed == 0
    assert result.attempted > 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents(path: Path) -> None:
    result = doctest.testfile(str(path), module_relative=False, optionflags=FLAGS)
    assert result.failed == 0
    assert result.attempted > 0


def test_the_examples_of_metrics_are_found() -> None:
    """Also those of functions that are made from a table, with their docstrings."""
    functions = [
        inspect.unwrap(function)
        for name in streameval.metrics.__all__
        if inspect.isfunction(function := getattr(streameval.metrics, name))
    ]
    modules = {inspect.getmodule(function) for function in functions}
    found = {
        test.name
        for module in modules
        for test in doctest.DocTestFinder().find(module)
        if test.examples
    }
    assert {f"{each.__module__}.{each.__name__}" for each in functions} - found == set()


_ROW = re.compile(r"^\| (.+?) (?<!\\)\| (.+) \|$", re.MULTILINE)
_CODE = re.compile(r"(?<!\[)`([^`]+)`")


@pytest.mark.parametrize(
    "page", sorted((DOCS / "coming-from").glob("*.md")), ids=lambda page: page.stem
)
def test_what_one_types_here_runs(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("predictions.csv").write_text("label,score\n1,0.9\n0,0.4\n1,0.35\n0,0.1\n")
    text, ran = page.read_text("utf-8"), 0
    session = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    doctest.DocTestRunner(optionflags=FLAGS).run(session, clear_globs=False)
    rows = _ROW.findall(text)
    assert rows[0][1] == "here"
    for _, cell in rows[2:]:
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
                exec(compile(code, f"{page.name}: {cell}", "exec"), dict(session.globs))
    assert ran >= 8


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
