"""The README's commands run and print what it shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.page_examples import as_printed

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_tour(tmp_path: Path) -> None:
    (tmp_path / "demos").mkdir()
    shutil.copy(ROOT / "demos" / "spam.jsonl", tmp_path / "demos")
    tour = re.sub(r"^\$ (?:make|pip) .*\n", "", README, flags=re.MULTILINE)
    assert tour.count("\n$ ") >= 4
    assert as_printed(tour, tmp_path) == tour


def test_pictures_are_there() -> None:
    for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / name).exists(), name
