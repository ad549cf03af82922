"""Set-up of the tests on engines: `make test-engines` runs them, and no other selection does.

With BOUNDED=1 in the environment those marked ``slow`` are left out.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


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


# Workers of an engine are other processes: they import what this one does.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
)
