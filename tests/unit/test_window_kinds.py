"""A window is one module and one row: with them it is known wherever windows are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.cli.options import parse_window
from streameval.windows import window_note, window_spec
from streameval.windows.kinds import KINDS, kind_of
from tests.support.every_kth import EVERY, EveryKth
from tests.support.window_model import binary_stream, columns

SPECS: list[Any] = [
    se.Last(7),
    se.Panes("4h", pane="1h", lateness="30m", retain="5h"),
    se.Fading("90m"),
    se.Fading(30),
    EveryKth(3),
]


@pytest.fixture(autouse=True)
def _one_row_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, EVERY.name, EVERY)


def written(spec: Any) -> str:
    """A window as on a command line, from what reports say of it."""
    kind, note = kind_of(spec), window_note(spec)
    assert kind is not None
    sizes = "/".join(str(note[name]) for name in kind.sizes)
    return ",".join([f"{kind.name}:{sizes}", *(f"{name}={note[name]}" for name in kind.named)])


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_options_and_a_command_line_name_the_same_window(spec: Any) -> None:
    assert window_spec(spec.to_options()).to_options() == spec.to_options()
    assert parse_window(written(spec)).to_options() == spec.to_options()
    for form in KINDS[spec.to_options()["kind"]].forms:
        assert type(parse_window(form)) is type(spec)


def test_an_evaluator_keeps_slices_saves_and_merges(tmp_path: Path) -> None:
    options: dict[str, Any] = {"window": EveryKth(3), "slices": ("k",)}
    items = binary_stream(60, seed=4)
    one, many = se.Evaluator(**options), se.Evaluator(**options)
    for n, item in enumerate(items):
        one.update(**item.arguments(timed=False), slices={"k": n % 2})
    for start in range(0, 60, 17):
        part = columns(items[start : start + 17], timed=False)
        numbers = list(range(start, min(60, start + 17)))
        many.update_many(**part, slices={"k": [n % 2 for n in numbers]})
    assert one == many
    one.save(tmp_path / "state")
    for again in (se.load(tmp_path / "state"), one.emptied().merge(one)):
        assert again.report().to_json() == one.report().to_json()
    one._check()


def test_an_unknown_window_is_refused_by_name() -> None:
    with pytest.raises(se.InputError, match=r"Fading\(\.\.\.\), EveryKth\(\.\.\.\) or None, got"):
        se.Evaluator(window="1h")  # type: ignore[arg-type]
    with pytest.raises(se.InputError, match="fading:1000 or every:10, got 'every:x'"):
        parse_window("every:x")
    with pytest.raises(se.StateError, match="expected a window, got"):
        window_spec({"kind": "every", "k": 3, "n": 3})


SERVICE = """
from streameval.windows.kinds import KINDS
from tests.support.every_kth import EVERY
KINDS[EVERY.name] = EVERY  # the settings are made of the rows when they are imported
from streameval.service.config.documents import template
from streameval.cli.run import check_text
from streameval.errors import ConfigError
from streameval.service.config.evaluators import evaluator_of, kind_of_settings, window_spec_text
from streameval.service.config.load import resolved, settings_from_text

TEXT = '''store = "s.db"
[fields]
score = "score"
[files]
records = ["a"]
[[window]]
name = "w"
'''
settings = settings_from_text(TEXT + "k = 3")
window = settings.window[0]
print(kind_of_settings(window).name, "is", window_spec_text(window))
print(evaluator_of(settings, window).options["window"])
print(next(line for line in check_text(settings).splitlines() if "# window" in line))
print(settings_from_text(resolved(settings)) == settings, "tenth" in template())
for wrong in ("k = 2000", "k = '3'", "k = 3\\nlength = '1h'"):
    try:
        settings_from_text(TEXT + wrong)
    except ConfigError as error:
        print(error)
"""


def test_a_service_is_configured_with_it(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SERVICE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "every is one of 3",
        "{'kind': 'every', 'k': 3}",
        "# window w: every event whose number is a multiple of 3",
        "True True",
        "configuration: window[0].k: expected a number from 1 to 1000, got 2000",
        "configuration: window[0].k: expected a whole number, got '3'",
        "configuration: window[0].k conflicts with window[0].length; give one of them",
    ]
