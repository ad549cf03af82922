"""What two small runs store, serve and report is, byte for byte, what the build of before did.

A name that fails is shown whole by ``python -m tests.support.frozen_run --show NAME``, here and in
a checkout of before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import frozen_run

KNOWN: dict[str, str] = json.loads(frozen_run.FILE.read_text(encoding="utf-8"))


def check(answers: Iterator[tuple[str, str]], names: set[str]) -> None:
    found: dict[str, str] = {}
    for name, text in answers:
        assert name not in found, name
        found[name] = frozen_run.short(text)
    differ = {
        name: (found.get(name), KNOWN[name])
        for name in sorted(names)
        if found.get(name) != KNOWN[name]
    }
    assert differ == {}
    assert found.keys() - names == set()


def test_a_file_and_what_is_served_of_it(tmp_path: Path) -> None:
    with frozen_run.working_directory(tmp_path):
        names = {name for name in KNOWN if not name.startswith("postgres ")}
        check(frozen_run.service_answers(), names)


def test_a_store_on_postgresql(tmp_path: Path, postgres: Any) -> None:
    with frozen_run.working_directory(tmp_path):
        names = {name for name in KNOWN if name.startswith("postgres ")}
        check(frozen_run.postgres_answers(postgres.address("frozen")), names)
