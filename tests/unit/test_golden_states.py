"""Bytes and answers are those that were written down: no change of the code changes them.

Where a change means to change them, ``python -m tests.support.golden_states`` writes the file
again, and the difference of the file tells which cases did. Files and pickles of
``tests.support.golden_files`` are those of an older build, which stay as they are.
"""

from __future__ import annotations

import functools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.evaluator.comparison import load_any
from streameval.state_files.codec import decompressed
from tests.support import golden_files as files
from tests.support import golden_states as golden

CASES = {case.name: case for case in golden.cases()}


@functools.cache
def frozen() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(golden.FILE.read_text(encoding="utf-8"))
    return data


def restored(data: bytes, ev: Any) -> Any:
    own = isinstance(ev, (se.Comparison, se.Predictions))
    return type(ev).from_bytes(data) if own else se.from_bytes(data)


def read_after(case: golden.Case) -> str:
    """The way of counting after which a case is read; both are in the file, in turn.

    Shards of comparisons and of fractions are read by laws of their states.
    """
    turn = [*CASES].index(case.name) % len(golden.READ)
    return golden.READ[turn] if case.exact and not case.several else "single"


def differences(case: golden.Case, entry: dict[str, Any]) -> list[str]:
    """What of a case is not as in the file: the way of counting, and the names of readings."""
    names = frozen()["names"][entry["names"]]
    by_way = {
        way: text for ways, text in entry.items() if ways in _WAYS for way in ways.split(", ")
    }
    wrong = []
    for way in case.ways:
        ev = golden.counted(case, way)
        if isinstance(ev, str):
            wrong += [f"{way}: {ev}"] * (by_way.get(way, ev) != ev)
            continue
        expected = by_way.get(way, "")
        if "Error: " in expected:
            wrong.append(f"{way}: no {expected}")
            continue
        data = ev.to_bytes()
        if expected and golden.digest(data) != expected.split()[0]:
            wrong.append(f"{way}: bytes")
        if way == "shards" and restored(data, ev).to_bytes() != data:
            wrong.append(f"{way}: bytes after from_bytes")
        if way == "batch" and pickle.loads(pickle.dumps(ev)).to_bytes() != data:
            wrong.append(f"{way}: bytes after a pickle")
        if way != read_after(case):
            continue
        found = golden.readings(ev)
        if case.exact:
            # A metric that is new is in no file.
            known = {name: found.get(name) for name in names}
            bits = expected.split()[1]
            wrong += [f"{way}: answers"] * (golden.bits_of(known) != bits)
            wrong += [
                f"{way}: {name} is {value}"
                for n, (name, value) in enumerate(known.items())
                if golden.short(name, value) != bits[24 + 2 * n : 26 + 2 * n]
            ]
        elif way == "single" or case.window != "panes":  # which events are late differs
            wrong += [
                f"{way}: {name} is {found.get(name)}, not {value}"
                for name, value in zip(names, entry["values"], strict=True)
                if not golden.near(found.get(name), value)
            ]
    return wrong


_WAYS = {
    ", ".join(way for n, way in enumerate(golden.WAYS) if chosen >> n & 1)
    for chosen in range(1, 2 ** len(golden.WAYS))
}


@pytest.mark.parametrize("name", CASES)
def test_bytes_and_answers(name: str) -> None:
    assert differences(CASES[name], frozen()["cases"][name]) == []


def test_the_file_holds_the_cases_and_no_others() -> None:
    assert list(frozen()["cases"]) == list(CASES)


def test_another_event_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["scores, all, whole, plain"]
    monkeypatch.setattr(golden, "EVENTS", golden.EVENTS - 1)
    wrong = differences(case, frozen()["cases"][case.name])
    assert "single: bytes" in wrong
    assert any(text.startswith(f"{read_after(case)}: roc_auc is 0.") for text in wrong)


# Files and pickles of an earlier build


@functools.cache
def stored() -> dict[str, dict[str, str]]:
    data: dict[str, dict[str, str]] = json.loads(files.FILE.read_text(encoding="utf-8"))
    return data


EVALUATIONS = [", ".join(parts) for parts in files.SAVED]


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_older_file_is_read_and_written_again(name: str, tmp_path: Path) -> None:
    data = files.bytes_of(stored()["files"][name])
    path = tmp_path / "a.state"
    path.write_bytes(data)
    ev = load_any(path)
    made = dict(files.evaluations())[name]
    # The stream of the compression depends on the version of zlib.
    assert ev.to_bytes(provenance=True) == decompressed(data) == decompressed(files.saved(made))
    assert decompressed(files.saved(ev)) == decompressed(data)
    assert ev.provenance["shards"] == [["eu-1", 2, 0, 36]]


@pytest.mark.parametrize("name", EVALUATIONS)
def test_an_older_pickle_is_read_and_refers_to_the_same_names(name: str) -> None:
    data = files.bytes_of(stored()["pickles"][name])
    ev = pickle.loads(data)
    assert ev == dict(files.evaluations())[name]
    again = pickle.dumps(ev, 4)
    assert files.names_in(again) == files.names_in(data) != []
    assert pickle.loads(again).provenance == ev.provenance


@pytest.mark.parametrize("name", [name for name, _ in files.objects()])
def test_an_older_pickle_of_a_state_or_result(name: str) -> None:
    data = files.bytes_of(stored()["pickles"][name])
    thing, made = pickle.loads(data), dict(files.objects())[name]
    assert type(thing) is type(made)
    assert text_of(thing) == text_of(made)
    # An older build has to find what a newer one refers to, except intervals and bounds, whose
    # module was renamed. Older ones have the function that makes an index.
    former = {
        name.replace("streameval.certainty.", "streameval.uncertainty.").replace(
            "streameval.states.ranking.portable_index:PortableScoreIndex",
            "streameval.states.score_index:restore_score_index",
        )
        for name in files.names_in(data)
    }
    assert set(files.names_in(pickle.dumps(made, 4))) == former != set()


@pytest.mark.parametrize("backend", ["native", "portable"])
def test_an_older_pickle_of_the_other_implementation(backend: str) -> None:
    index = pickle.loads(files.bytes_of(stored()["pickles"][f"ScoreIndex, {backend}"]))
    made = dict(files.objects())[f"ScoreIndex, {se.backend()}"]
    assert text_of(index) == text_of(made)


def text_of(thing: Any) -> str:
    """Everything that is in an object, as text."""
    if isinstance(thing, tuple) and type(thing) is tuple:
        return "; ".join(map(text_of, thing))
    if hasattr(thing, "to_state"):
        return repr(thing.to_state())
    return repr(thing) + repr(vars(thing) if isinstance(thing, Exception) else "")
