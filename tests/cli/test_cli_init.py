"""``streameval init``: its output is a valid configuration, also with every line enabled."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from streameval.service.config.documents import configuration_keys, json_schema, template
from streameval.service.config.evaluators import evaluator_of
from streameval.service.config.load import load_settings, settings_from_text
from tests.support.command_runs import Command

TEMPLATE = template()


def switched_on(text: str) -> str:
    return re.sub(r"^#(?! |$|-)", "", text, flags=re.MULTILINE)


def test_it_writes_a_configuration_and_never_overwrites(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "-") == (0, TEMPLATE, "")
    assert run("init").code == 0
    assert Path("streameval.toml").read_text("utf-8") == TEMPLATE
    path = tmp_path / "a b.toml"
    said = f"wrote {path}; check it with: streameval run '{path}' --check\n"
    assert run("init", path) == (0, said, "")
    settings = load_settings(path)
    assert settings.join is not None
    assert settings.http is not None
    assert [window.name for window in settings.window] == ["all", "hour"]
    path.write_text("mine")
    there = "expected no such file yet, got one that is there; name another, or remove it first"
    assert run("init", path) == (1, "", f"streameval: {path}: {there}\n")
    assert path.read_text() == "mine"
    assert run("init", tmp_path).code == 1
    assert run("init", tmp_path / "none" / "run.toml").code == 1


def test_every_line_can_be_switched_on() -> None:
    text = switched_on(TEMPLATE)
    settings = settings_from_text(text)
    for window in settings.window:
        evaluator_of(settings, window)
    # Nothing is off any more but prose.
    assert all(line == "#" or line[1] in " " for line in text.splitlines() if line[:1] == "#")


def test_every_line_that_is_off_can_be_switched_on_alone() -> None:
    lines = TEMPLATE.splitlines()
    is_on, tried = True, 0
    for number, line in enumerate(lines):
        if line.lstrip("#")[:1] == "[":
            is_on = line[0] == "["
        elif is_on and re.match(r"#[^ ]", line) and not line.startswith("#time_unit"):  # with time
            settings_from_text("\n".join([*lines[:number], line[1:], *lines[number + 1 :]]))
            tried += 1
    assert tried >= 18


def paths(value: Any, before: str = "") -> set[str]:
    """The paths of all keys of a document."""
    found = {before}
    for one in value if isinstance(value, list) else ():
        found |= paths(one, before)
    for key, one in value.items() if isinstance(value, dict) else ():
        found |= paths(one, f"{before}.{key}".removeprefix("."))
    return found


def test_every_key_is_in_it() -> None:
    prose = {"alert.reference", "reference.state", "fields.proba", "files.records", "kafka.records"}
    prose |= {"evaluator.models", "evaluator.paired_scores", "alert.model", "http.inbox"}
    prose |= {"fields.label.final"}
    for key in prose:
        assert f"{key.rpartition('.')[2]} = " in TEMPLATE
    found = paths(tomllib.loads(switched_on(TEMPLATE)))
    assert {key.path for key in configuration_keys()} - prose <= found


def test_the_schema_accepts_what_a_run_does(run: Command) -> None:
    schema = json.loads(run("init", "--schema").out)
    assert schema == json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    valid = jsonschema.Draft202012Validator(schema).is_valid
    for text in (TEMPLATE, switched_on(TEMPLATE)):
        assert valid(tomllib.loads(text))
    for wrong in ("store = 5", "[join]\nwiat = '1h'", "[join]\nhot = 0", "[[alert]]\nname = 'a'"):
        assert not valid(tomllib.loads(wrong)), wrong


def test_every_key_has_a_description_and_its_default_is_in_the_schema() -> None:
    schema = json_schema()
    for key in configuration_keys():
        found = schema
        for name in key.path.split("."):
            found = (found.get("items") or found)["properties"][name]
            found = next((one for one in found.get("anyOf", []) if "properties" in one), found)
        assert found["description"] == key.about
        assert found.get("default") == key.default


def test_what_is_off_is_the_default_where_it_looks_so() -> None:
    plain, on = settings_from_text(TEMPLATE), settings_from_text(switched_on(TEMPLATE))
    for table in ("checkpoint", "quarantine", "http"):
        assert getattr(on, table) == getattr(plain, table)
    assert (on.join.remember, on.join.hot) == (plain.join.wait, plain.join.hot)
    assert on.serve.listen == plain.serve.listen
    assert on.evaluator.bins == plain.evaluator.bins
