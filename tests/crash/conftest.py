"""A small store, made once for all tests that damage or copy it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.store_damage import make_store


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the store; a test that changes it takes a copy of the directory."""
    return make_store(tmp_path_factory.mktemp("store"))
