"""The examples of the pages: `make docs` runs them, and no other selection does."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Collect nothing here unless the marker is selected."""
    return None if config.getoption("markexpr") == "docs" else True
