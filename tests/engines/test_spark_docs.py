"""The examples of docs/spark.md run, and give what the page shows."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from tests.support.spark_sessions import session

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_page_shows_what_spark_gives(tmp_path: Path) -> None:
    made = session("local[2]", tmp_path)  # getOrCreate() of the page gives this one
    try:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    finally:
        made.stop()
    assert result.failed == 0
    assert result.attempted > 10
