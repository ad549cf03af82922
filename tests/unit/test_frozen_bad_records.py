"""The errors of bad records are, to the letter, those in ``tests/golden/bad_records.json``."""

from __future__ import annotations

import json

import pytest

from tests.support.golden_bad_records import FILE, ROLES, grouped, line_texts, texts

pytest.importorskip("pyarrow")

FROZEN = json.loads(FILE.read_text())


@pytest.mark.parametrize("use", [*ROLES, "lines"])
def test_the_texts_are_as_before(use: str) -> None:
    found = line_texts() if use == "lines" else texts(use)
    assert {carrier: grouped(of) for carrier, of in found.items()} == FROZEN[use]
