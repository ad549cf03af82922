"""Set-up of the tests on engines: `make test-engines` runs them, and no other selection does.

With BOUNDED=1 in the environment those marked ``slow`` are left out.
"""

from __future__ import annotations

import doctest
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.spark_sessions import session


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect nothing here unless the marker is selected: the engines' packages are not needed."""
    return None if config.getoption("markexpr") == "engines" else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what BOUNDED leaves out, and Spark's tests where there is no Java."""
    for item in items:
        if os.environ.get("BOUNDED") and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="takes longer than BOUNDED allows"))
        elif item.path.name.startswith("test_spark") and shutil.which("java") is None:
            item.add_marker(pytest.mark.skip(reason="NOT TESTED on Spark: no Java is installed"))


@pytest.fixture(scope="module")
def local(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A Spark session on this machine, as the module's MASTER and SETTINGS say."""
    master = getattr(request.module, "MASTER", "local[2]")
    settings = getattr(request.module, "SETTINGS", {})
    made = session(master, tmp_path_factory.mktemp("spark"), **settings)
    yield made
    made.stop()


def run_examples(page: str, module: ModuleType | None = None) -> None:
    """Run the examples of a page of docs/, and of a module."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    path = Path(__file__).parents[2] / "docs" / page
    results = [doctest.testfile(str(path), module_relative=False, optionflags=flags)]
    if module is not None:
        results.append(doctest.testmod(module, optionflags=flags))
    for result in results:
        assert result.failed == 0
        assert result.attempted > 0


# Workers of an engine are other processes: they import what this one does.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
)
