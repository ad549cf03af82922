"""docs/scikit-learn.md has every public name of scikit-learn's metrics, and names that exist."""

from __future__ import annotations

import re
from pathlib import Path

import sklearn.metrics

import streameval as se
from streameval import metrics
from streameval.metrics import CURVES, METRICS

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"


def rows() -> list[tuple[list[str], list[str], str]]:
    """The names of each row's first two cells, and all of its text."""
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and cells[0] != "`sklearn.metrics`":
            names = [re.findall(r"`(\w+)`", cell) for cell in cells[:2]]
            found.append((names[0], names[1], line))
    return found


def test_every_name_has_a_counterpart_or_a_reason() -> None:
    names = [name for first, _, _ in rows() for name in first]
    assert len(names) == len(set(names))
    assert set(names) == set(sklearn.metrics.__all__)
    for _, _, line in rows():
        assert all(cell.strip() for cell in line.strip("|").split("|")[:2]), line


def test_every_counterpart_exists() -> None:
    known = {*METRICS, *CURVES, *metrics.__all__, "classification_report"}
    assert hasattr(se.Evaluator, "classification_report")
    section = PAGE.read_text("utf-8").partition("## Without a counterpart")[0]
    counterparts = {name for _, second, line in rows() if line in section for name in second}
    assert len(counterparts) > 40
    assert counterparts <= known
