"""Every example in a docstring or a document runs and gives what it shows."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterable
from pathlib import Path

import pytest

import streameval

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ROOT = Path(__file__).parents[2]
PACKAGE = Path(streameval.__file__).parent


def _with_examples(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if ">>> " in path.read_text(encoding="utf-8")]


def _dotted(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


_ENGINES = {"beam", "dask", "spark", "torchmetrics"}
"""Pages and modules of integrations whose examples `make test-engines` runs."""


def _here(paths: Iterable[Path]) -> list[Path]:
    return [path for path in _with_examples(paths) if path.stem not in _ENGINES]


MODULES = [_dotted(path) for path in _here(sorted(PACKAGE.rglob("*.py")))]
MODULES += ["docsite.copying", "docsite.markdown"]
DOCUMENTS = _here([ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])


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


def test_the_public_names_have_examples() -> None:
    silent = [
        name
        for name in ("Evaluator", "ConfusionCounts", "ScoreIndex", "ProbabilitySums", "merge")
        if ">>>" not in (getattr(streameval, name).__doc__ or "")
    ]
    assert silent == []
