"""The tables of docs/scikit-learn.md: the only list of scikit-learn's names and counterparts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"


class Row(NamedTuple):
    """A row of one of the tables; ``names`` are scikit-learn's."""

    section: str
    names: list[str]
    counterparts: list[str]
    cells: list[str]


def rows() -> list[Row]:
    """All rows, in the page's order."""
    found, section = [], ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and cells[0] != "`sklearn.metrics`":
            names = [re.findall(r"`(\w+)`", cell) for cell in cells[:2]]
            covered = section == "With a counterpart"
            found.append(Row(section, names[0], names[1] if covered else [], cells))
    return found
