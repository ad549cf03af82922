"""Set-up of every test run: markers by folder, Hypothesis profiles, a summary of skips; and
what makes it quick: files in memory, few garbage collections, the longest modules first.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.examples import limit_examples, most_examples

settings.load_profile("usual")

# Stores are synced at each checkpoint, which waits for a disk. Tests end processes and never
# machines, so that memory keeps as much; commands that they start read the variable as well.
_MEMORY = "/dev/shm"
_ROOM = 4 * 2**30


def _has_room(directory: str) -> bool:
    """Whether it can hold what the tests write, programs that are executed included."""
    return (
        os.access(directory, os.W_OK)
        and not os.statvfs(directory).f_flag & os.ST_NOEXEC
        and shutil.disk_usage(directory).free > _ROOM
    )


if "TMPDIR" not in os.environ and _has_room(_MEMORY):
    os.environ["TMPDIR"] = _MEMORY
    tempfile.tempdir = None  # pytest has looked for it before

_HEAVY = {"broker", "browser"}
"""Tests with these markers are `heavy` as well."""


def folder_of(item: pytest.Item) -> str:
    """The marker of a test: the folder of tests/ that its module lies in."""
    below = item.path.relative_to(item.config.rootpath / "tests")
    return below.parts[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, and lower the number of examples to the profile's.

    Modules that are slow as a whole come first, so that no worker waits for them at the end.
    """
    most = most_examples()
    items.sort(key=lambda item: _marks_of_module(item).isdisjoint({"slow", "heavy"}))
    for item in items:
        item.add_marker(folder_of(item))
        if not _HEAVY.isdisjoint(mark.name for mark in item.iter_markers()):
            item.add_marker("heavy")
        if most is not None:
            limit_examples(item, most)


def _marks_of_module(item: pytest.Item) -> set[str]:
    module = item.getparent(pytest.Module)
    return set() if module is None else {mark.name for mark in module.own_markers}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Load all without collecting garbage; what is loaded then lives to the end, and no
    collection has to look at it again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_finish() -> None:
    """Set up what the tests have imported."""
    if "sklearn" in sys.modules:
        # The oracle's own checks of its parameters take longer than what it computes of ten events.
        sys.modules["sklearn"].set_config(skip_parameter_validation=True)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write why tests were skipped, once for each reason: what was not tested is not overlooked."""
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        counts[reason] = counts.get(reason, 0) + 1
    for reason, count in sorted(counts.items()):
        missing = reason.startswith(("NOT TESTED", "could not import"))
        text = reason if missing else f"skipped: {reason}"
        terminalreporter.write_line(f"{text} ({count} tests)", yellow=missing, bold=missing)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server; each test takes a schema of its own."""
    # Imported here: few test runs need a server.
    from tests.support.postgres_server import running_postgres

    # A short path, as the name of its socket may not be longer than 107 bytes.
    with (
        tempfile.TemporaryDirectory(prefix="pg") as directory,
        running_postgres(Path(directory) / "data") as server,
    ):
        yield server


@pytest.fixture(scope="session")
def made_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store with something in every table; a test that changes it takes a copy."""
    from tests.crash.store_damage import make_store

    return make_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Any:
    """A function that runs a command line in this process."""
    from tests.support.command_runs import in_process

    return in_process(capfd)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def forced_switches() -> Iterator[None]:
    """Switch threads after a few Python steps instead of 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
