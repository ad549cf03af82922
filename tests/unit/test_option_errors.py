"""What each front end says of options that do not fit together: texts that were published."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import streameval as se
from streameval.cli import main
from streameval.errors import StreamevalError
from streameval.records.event_table import PartCounter
from streameval.records.rules import METRIC_RULES, RULES, UNKNOWN
from streameval.records.wording import CALL, COMMAND, ENGINE, KEYS
from streameval.service.config.load import settings_from_text

FRONTS = json.loads(
    (Path(__file__).parents[1] / "golden" / "option_errors.json").read_text("utf-8")
)
"""From each front end to its options, and to what it says of them."""

TABLE = {"y": [1, 0], "p": [1, 0], "s": [0.75, 0.25], "t": [1e9, 1e9], "u": ["a", "b"]}
ROWS = "y,p,s,t,u\n1,1,0.75,1000000000,a\n0,0,0.25,1000000000,b\n"


@pytest.mark.parametrize("name", ["evaluate", "compare"])
def test_a_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(ROWS)
    found = {}
    for options in FRONTS[name]:
        code = main([name, "a.csv", "--y-true", "y", *shlex.split(options)])
        # The words between are those of the library that reads the command line.
        said = re.sub(r"(Invalid value for '[^']*'): .*;", r"\1;", capfd.readouterr().err.strip())
        found[options] = f"{code}: {said}"
    assert found == FRONTS[name]


def evaluated(expression: str) -> None:
    eval(expression, {"se": se, "TABLE": TABLE, "PartCounter": PartCounter})


CALLS: dict[str, Callable[[str], object]] = {
    "call": lambda options: evaluated(f"se.evaluate(TABLE, y_true='y', {options})"),
    "parts": lambda options: evaluated(f"PartCounter.of(y_true='y', {options})"),
    "files": lambda options: evaluated(f"se.evaluate('a.csv', {options})"),
    "keys": lambda options: settings_from_text(options, "run.toml", ()),
}
UTC = {"score='s', utc=True": "OptionError: utc requires time=; add time=FIELD"}
CASES = [
    (front, options, text) for front in CALLS for options, text in FRONTS.get(front, UTC).items()
]


@pytest.mark.parametrize(("front", "options", "text"), CASES)
def test_a_call_the_parts_of_an_engine_and_the_keys_of_a_run(
    front: str, options: str, text: str
) -> None:
    with pytest.raises(StreamevalError) as caught:
        CALLS[front](options)
    assert f"{type(caught.value).__name__}: {caught.value}" == text


def test_front_ends_name_rules_that_exist() -> None:
    known = [rule.name for rule in (*RULES, *METRIC_RULES, UNKNOWN)]
    assert len(set(known)) == len(known)
    for wording in (COMMAND, CALL, ENGINE, KEYS):
        assert {*wording.texts, *(wording.others or ())} <= set(known)
