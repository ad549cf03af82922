"""Every example in a docstring or a document runs and gives what it shows."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import streameval

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
ROOT = Path(__file__).parents[1]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(streameval.__path__, "streameval.")
    if "native_index" not in module.name and not module.name.endswith("__main__")
]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", ["streameval", *MODULES])
def test_docstrings(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents(path: Path) -> None:
    result = doctest.testfile(str(path), module_relative=False, optionflags=FLAGS)
    assert result.failed == 0


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
