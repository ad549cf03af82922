"""The errors of bad records are, to the letter, those in ``tests/golden/bad_records.json``."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.golden_bad_records import FILE, ROLES, VALUES, grouped, key_of, line_texts, texts

pytest.importorskip("pyarrow")

FROZEN = json.loads(FILE.read_text())


def one_of_each(of: dict[str, list[str]]) -> dict[str, list[str]]:
    """Of the texts that differ in what they got only the first, with its first value."""
    found: dict[str, tuple[str, list[str]]] = {}
    for text, values in of.items():
        found.setdefault(re.sub(r"got [^;\n]*", "", text), (text, values[:1]))
    return dict(found.values())


@pytest.mark.parametrize("use", [*ROLES, "lines"])
def test_the_texts_are_as_before(use: str) -> None:
    frozen: dict[str, Any] = dict(FROZEN[use])
    if use == "lines":
        found = line_texts()
    else:
        # A command takes ten times as long as a call, whose texts for all values are compared:
        # its own are the remedies, which name its options.
        once = frozen["command"] = one_of_each(frozen.get("command", {}))
        firsts = [first for [first] in once.values()]
        found = {"command": {}} | texts(use, [one for one in VALUES if key_of(one) in firsts])
    assert {carrier: grouped(of) for carrier, of in found.items()} == frozen
