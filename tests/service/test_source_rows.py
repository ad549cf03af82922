"""A source is a struct, an opener and a row in the settings: template, checks and run follow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from streameval.cli.run import check_text
from streameval.errors import ConfigError, InputError
from streameval.service.config import load
from streameval.service.config import settings as settings_module
from streameval.service.config.documents import template
from streameval.service.config.settings import RunSettings
from streameval.service.config.source_settings import Kind, SourceSettings
from streameval.service.run.runner import Runner
from streameval.service.run.service import run_service
from streameval.service.sources import OPENERS
from streameval.service.sources.raw import (
    PartitionStatus,
    Position,
    RawBatch,
    Source,
    SourceContext,
)
from tests.support.run import Scripted


class MemorySettings(SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Records that the configuration itself holds."""

    records: list[str]
    password: str = ""
    closes: bool = False

    def names(self) -> Mapping[Kind, Sequence[str]]:
        return {"records": ["memory"]}

    def check(self, table: str) -> None:
        if len(self.records) > 3:
            raise InputError(f"{table}.records", expected="three records", got="more")

    def secrets(self) -> Mapping[str, str]:
        return {"password": self.password} if self.password else {}

    def ending(self) -> MemorySettings:
        return msgspec.structs.replace(self, closes=True)


class MemorySource(Scripted):
    """Reads one record at a time."""

    def __init__(self, settings: MemorySettings, positions: Mapping[str, Position]) -> None:
        self._settings = settings
        self._next = int(positions.get("memory:0", {"offset": 0})["offset"])

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        place = self._next
        if place == len(self._settings.records):
            return []
        self._next += 1
        data = self._settings.records[place].encode()
        return [RawBatch("memory:0", "records", [data], [place], {"offset": self._next})]

    def status(self) -> list[PartitionStatus]:
        left = len(self._settings.records) - self._next
        return [PartitionStatus("memory:0", {"offset": self._next}, left)]

    @property
    def finished(self) -> bool:  # type: ignore[override]
        return self._settings.closes and self._next == len(self._settings.records)


def opened(settings: MemorySettings, context: SourceContext) -> Source:
    return MemorySource(settings, context.positions)


class WithMemory(RunSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The row."""

    memory: MemorySettings | None = None


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "RunSettings", WithMemory)
    monkeypatch.setattr(settings_module, "RunSettings", WithMemory)
    monkeypatch.setitem(OPENERS, MemorySettings, opened)


def read(path: Path, count: int, more: str = "") -> RunSettings:
    records = [json.dumps({"y_true": n % 2, "p": n / 9}) for n in range(count)]
    return load.settings_from_text(
        f'store = "{path}"\n[fields]\nscore = "p"\n[serve]\nenabled = false\n'
        f"[memory]\nrecords = {records}\n{more}",
        "run.toml",
    )


def test_a_row_is_configured_run_and_resumed(tmp_path: Path) -> None:
    counted = []
    for count in (2, 3):
        settings = read(tmp_path / "run.db", count)
        assert list(settings.sources) == ["memory"]
        assert isinstance(settings.sources["memory"], SourceSettings)
        assert 'records = [\n    "{' in check_text(settings)
        runners: list[Runner] = []
        run_service(
            settings, until_end=True, started=lambda runner, url, to=runners: to.append(runner)
        )
        counted.append((runners[0].events, dict(runners[0].positions)))
    assert counted == [(2, {"memory:0": {"offset": 2}}), (3, {"memory:0": {"offset": 3}})]


def test_a_row_is_checked_hidden_and_in_the_template(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"memory\.records: expected three records, got more"):
        read(tmp_path / "run.db", 4)
    with pytest.raises(ConfigError, match=r"memory\.recods: .* did you mean 'records'\?"):
        load.settings_from_text("[memory]\nrecods = []")
    settings = read(tmp_path / "run.db", 1, 'password = "env:NOT_THERE"')
    with pytest.raises(ConfigError, match=r"memory\.password: expected the variable NOT_THERE"):
        check_text(settings)
    assert "\n\n# Records that the configuration itself holds.\n#[memory]\n" in template()
