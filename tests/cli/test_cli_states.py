"""``--save``, ``merge`` and ``report``: merged shards print the result of the whole."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

import streameval as se
from streameval.state_files.codec import decompressed
from tests.support.command_runs import Command

BINARY = ("--y-true", "label", "--score", "score")


def shards(folder: Path, *, text: bool = False) -> list[Path]:
    source = random.Random(7)
    paths = []
    for number in range(3):
        path = folder / f"{number}.jsonl"
        with path.open("w") as file:
            for _ in range(200):
                label = int(source.random() < 0.3)
                score = round(min(1.0, max(0.0, source.gauss(0.4 + 0.2 * label, 0.2))), 3)
                event = {"label": ["ham", "spam"][label] if text else label, "score": score}
                file.write(json.dumps(event) + "\n")
        paths.append(path)
    return paths


def test_merged_shards_print_the_report_of_the_whole(run: Command, tmp_path: Path) -> None:
    paths = shards(tmp_path)[:2]
    states = [path.with_suffix(".state") for path in paths]
    for path, state in zip(paths, states, strict=True):
        assert run("evaluate", path, *BINARY, "--save", state).code == 0
    for form in ("table", "json", "markdown"):
        whole = run("evaluate", *paths, *BINARY, "--format", form)
        assert run("merge", *states, "--format", form) == whole
        assert whole.code == 0


def test_merged_states_can_be_saved_reported_and_are_the_same_bytes(
    run: Command, tmp_path: Path
) -> None:
    paths = shards(tmp_path, text=True)
    options = (*BINARY, "--positive", "spam")
    states = [path.with_suffix(".state") for path in paths]
    for path, state in zip(paths, states, strict=True):
        run("evaluate", path, *options, "--save", state)
    whole = run("evaluate", *paths, *options, "--save", tmp_path / "whole")
    assert run("merge", *reversed(states), "--save", tmp_path / "merged") == whole
    merged, one_run = se.load(tmp_path / "merged"), se.load(tmp_path / "whole")
    saved = decompressed((tmp_path / "whole").read_bytes())
    assert merged.to_bytes() == one_run.to_bytes() == saved
    assert run("merge", *states, "--save", tmp_path / "in-order") == whole
    assert (tmp_path / "in-order").read_bytes() == (tmp_path / "merged").read_bytes()
    assert run("merge", tmp_path / "?.state") == whole
    assert run("report", tmp_path / "merged") == whole
    chosen = ("--metrics", "f1,accuracy")
    assert (
        run("report", tmp_path / "merged", *chosen).out
        == run("evaluate", *paths, *options, *chosen).out
    )


def test_good_records_of_a_bad_file_are_saved(run: Command, tmp_path: Path) -> None:
    (path, *_) = shards(tmp_path)
    whole = run("evaluate", path, *BINARY)
    path.write_text("nonsense\n" + path.read_text())
    run("evaluate", path, *BINARY, "--on-bad", "skip", "--save", tmp_path / "s")
    assert run("report", tmp_path / "s") == whole


def test_states_that_do_not_belong_together(run: Command, tmp_path: Path) -> None:
    paths = shards(tmp_path)
    a, b = tmp_path / "a.state", tmp_path / "b.state"
    run("evaluate", paths[0], *BINARY, "--save", a)
    run("evaluate", paths[1], *BINARY, "--threshold", "0.25", "--save", b)
    result = run("merge", a, b)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"streameval: {a} and {b}: ")
    assert "threshold is 0.5 here and 0.25 there" in result.err
    result = run("merge", a, a)
    assert result.code == 2
    assert "its events would count twice" in result.err


def test_damaged_states(run: Command, tmp_path: Path) -> None:
    (path, *_), state = shards(tmp_path), tmp_path / "a.state"
    run("evaluate", path, *BINARY, "--save", state)
    data = state.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    for command, found in (
        ("report", data[:-5]),
        ("merge", bytes(flipped)),
        ("report", path.read_bytes()),
        ("merge", None),
    ):
        if found is None:
            state.unlink()
        else:
            state.write_bytes(found)
        result = run(command, state)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith(f"streameval: {state}: ")
        assert result.err.count("\n") == 1


def test_where_a_state_cannot_be_written(run: Command, tmp_path: Path) -> None:
    (path, *_) = shards(tmp_path)
    read_only = tmp_path / "read-only"
    read_only.mkdir(mode=0o555)
    cases = [(tmp_path, "it is a directory"), (tmp_path / "no" / "a.state", "there is no dir")]
    if not os.access(read_only, os.W_OK):  # root may write anywhere
        cases.append((read_only / "a.state", "is read-only"))
    for target, message in cases:
        result = run("evaluate", path, *BINARY, "--save", target)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(f"streameval: {target}: cannot be written: ")
        assert message in result.err
        assert result.err.count("\n") == 1


def test_a_state_that_fails_at_the_last_moment_does_not_cost_the_report(
    run: Command, tmp_path: Path
) -> None:
    if not os.path.isdir("/proc/self"):
        pytest.skip("no directory in which nobody may write")
    (path, *_) = shards(tmp_path)
    result = run("evaluate", path, *BINARY, "--save", "/proc/self/a.state")
    assert result.code == 1
    assert "/proc/self/a.state" in result.err
    assert result.err.count("\n") == 1
    if result.out:  # root finds out only by trying
        assert result.out == run("evaluate", path, *BINARY).out
