"""``--save``, ``merge`` and ``report``: merged shards print the result of the whole, each once."""

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
SUPPORT = ("--metrics", "support", "--format", "json")
FIELDS = ("--y-true", "label", "--y-pred", "said", *SUPPORT)


def shards(folder: Path, labels: tuple[object, object] = (0, 1)) -> list[Path]:
    source = random.Random(7)
    paths = [folder / f"{number}.jsonl" for number in range(3)]
    for path in paths:
        events = []
        for _ in range(200):
            label = source.random() < 0.3
            score = round(min(1.0, max(0.0, source.gauss(0.4 + 0.2 * label, 0.2))), 3)
            events.append({"label": labels[label], "score": score})
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return paths


@pytest.fixture
def save(run: Command, tmp_path: Path):
    def evaluated(name: str, events: int, *options: object) -> Path:
        """The state of so many events."""
        path, state = tmp_path / "events.jsonl", tmp_path / name
        path.write_text("".join(f'{{"label": {n % 2}, "said": 1}}\n' for n in range(events)))
        result = run("evaluate", path, *FIELDS, "--positive", "1", "--save", state, *options)
        assert result.code == 0, result.err
        return state

    return evaluated


def support(result) -> float:
    assert result.code == 0, result.err
    return json.loads(result.out)["metrics"]["support"]["support"]


def refused(result, *parts: object) -> None:
    assert (result.code, result.out) == (2, "")
    assert result.err.count("\n") == 1
    for part in parts:
        assert str(part) in result.err, result.err


def test_merged_states_print_and_save_what_the_whole_does(run: Command, tmp_path: Path) -> None:
    paths = shards(tmp_path, ("ham", "spam"))
    options = (*BINARY, "--positive", "spam")
    states = [path.with_suffix(".state") for path in paths]
    for path, state in zip(paths, states, strict=True):
        run("evaluate", path, *options, "--save", state)
    whole = run("evaluate", *paths, *options, "--save", tmp_path / "whole")
    assert run("merge", *reversed(states), "--save", tmp_path / "merged") == whole
    assert run("merge", tmp_path / "?.state", "--save", tmp_path / "in-order") == whole
    assert (tmp_path / "in-order").read_bytes() == (tmp_path / "merged").read_bytes()
    saved = decompressed((tmp_path / "whole").read_bytes())
    assert se.load(tmp_path / "merged").to_bytes() == saved
    for chosen in (("--metrics", "f1,accuracy"), ("--format", "json"), ("--format", "markdown")):
        whole = run("evaluate", *paths, *options, *chosen)
        assert run("report", tmp_path / "merged", *chosen) == whole
        assert run("merge", *states, *chosen) == whole


def test_a_shard_is_merged_once(run: Command, save, tmp_path: Path) -> None:
    """The text about a copy is in docs/saved-states.md."""
    states = [save(f"{number}.state", number + 2) for number in range(3)]
    merged = tmp_path / "all.state"
    assert run("merge", tmp_path / "*.state", "--save", merged).code == 0
    before = merged.read_bytes()
    refused(run("merge", tmp_path / "*.state", "--save", merged), merged, states[0], "count twice")
    refused(run("merge", merged, states[1], "--save", merged), f"which {merged} holds")
    assert merged.read_bytes() == before
    for name, parts in (("one", states[:2]), ("two", states[1:])):  # of any depth
        assert run("merge", *parts, "--save", tmp_path / name).code == 0
    both = (tmp_path / "one", tmp_path / "two")
    refused(run("merge", *both), *both)
    assert support(run("merge", *both, "--allow-overlap", *SUPPORT)) == 12


def test_named_shards_of_equal_events_are_merged_and_copies_are_not(
    run: Command, save, tmp_path: Path
) -> None:
    a = save("a", 4, "--shard", "eu-1", "--sequence", "0:4")
    b = save("b", 4, "--shard", "eu-1", "--sequence", "4:8")
    c = save("c", 4, "--shard", "eu-2")
    whole = tmp_path / "whole"
    assert support(run("merge", c, b, a, "--save", whole, *SUPPORT)) == 12
    d = save("d", 9, "--shard", "eu-1", "--sequence", "7:16")
    for states in ((a, b, d), (whole, d)):
        refused(run("merge", *states), f"{d}: ", "'eu-1' (epoch 0, sequence 7:8)", states[-2])


def test_a_newer_epoch_replaces_an_older_one(run: Command, save, tmp_path: Path) -> None:
    old = save("old", 9, "--shard", "eu-1")
    new = save("new", 4, "--shard", "eu-1", "--epoch", "2", "--sequence", "0:4")
    other = save("other", 5, "--shard", "eu-2")
    for states in ((old, new, other), (new, other, old)):
        result = run("merge", *states, *SUPPORT)
        assert support(result) == 9
        assert result.err.startswith(f"streameval: {old} is left out: {new} holds epoch 2 of shard")
    merged = tmp_path / "merged"
    assert run("merge", old, other, "--save", merged).code == 0
    for states in ((merged, new), (new, merged)):
        refused(run("merge", *states), f"{merged}: ", "cannot be subtracted", f"{new} holds epoch")
    assert support(run("merge", merged, new, "--allow-overlap", *SUPPORT)) == 18


def test_what_is_expected_and_missing(run: Command, save, tmp_path: Path) -> None:
    a = save("a", 4, "--shard", "eu-1", "--sequence", "0:1000")
    b = save("b", 3, "--shard", "eu-2")
    unnamed = save("c", 2)
    expect = tmp_path / "shards.txt"
    expect.write_text("eu-1 0:1000\n\neu-2\n")
    assert support(run("merge", a, b, "--expect", expect, *SUPPORT)) == 7
    expect.write_text("eu-1 0:1500\neu-2 5:7\neu-3\neu-4 0:9\n")
    result = run("merge", a, b, unnamed, "--expect", expect, "--save", tmp_path / "whole")
    assert (result.code, result.out) == (1, "")
    first, *missing = result.err.splitlines()
    assert "3 of 4 shards missing, nothing was merged; states without a name match none:" in first
    assert missing == [f"streameval: {one}" for one in ("eu-1 1000:1500", "eu-3", "eu-4 0:9")]
    assert not (tmp_path / "whole").exists()
    for text, message in (
        ("", "--expect: expected names of shards, one a line, got none in"),
        ("eu-1 x\n", "shards.txt line 1: expected FIRST:END, such as 0:1000, got 'x'"),
        ("eu-1\neu-2 0:5 7\n", "shards.txt line 2: expected NAME or NAME FIRST:END"),
        ("eu-1 5:5\n", "shards.txt line 1: expected the first position"),
    ):
        expect.write_text(text)
        refused(run("merge", a, "--expect", expect), message)
    refused(run("merge", a, "--expect", tmp_path / "no"), "--expect: expected a file of shards")


def test_options_of_shards(run: Command, tmp_path: Path) -> None:
    """That they require others is in tests/golden/option_errors.json."""
    path, save = tmp_path / "events.jsonl", ("--save", tmp_path / "s", "--shard")
    path.write_text('{"label": 1, "said": 1}\n')
    models = ("--y-true", "label", "--y-pred", "a=said", "--y-pred", "b=said")
    refused(run("compare", path, *models, *save, "a b"), "--shard: expected a name of 1 to 200 pri")
    for text, message in (("5:5", "the first"), ("0:" + "9" * 5000, "")):
        result = run("evaluate", path, *FIELDS, *save, "a", "--sequence", text)
        refused(result, f"--sequence: expected {message}")


def test_states_of_other_options_and_of_bad_files(run: Command, tmp_path: Path) -> None:
    paths = shards(tmp_path)
    a, b = tmp_path / "a.state", tmp_path / "b.state"
    whole = run("evaluate", paths[0], *BINARY)
    paths[0].write_text("nonsense\n" + paths[0].read_text())
    run("evaluate", paths[0], *BINARY, "--on-bad", "skip", "--save", a)
    assert run("report", a) == whole
    run("evaluate", paths[1], *BINARY, "--threshold", "0.25", "--save", b)
    refused(run("merge", a, b), f"streameval: {a} and {b}: ", "threshold is 0.5 here and 0.25 ther")
    data = a.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    for found in (data[:-5], bytes(flipped), paths[0].read_bytes(), None):
        a.write_bytes(found) if found else a.unlink()
        for command in ("report", "merge"):
            refused(run(command, a), f"streameval: {a}: ")


def test_where_a_state_cannot_be_written(run: Command, tmp_path: Path) -> None:
    (path, *_) = shards(tmp_path)
    read_only = tmp_path / "read-only"
    read_only.mkdir(mode=0o555)
    cases = [(tmp_path, "it is a directory"), (tmp_path / "no" / "a.state", "there is no dir")]
    if not os.access(read_only, os.W_OK):  # root may write anywhere
        cases.append((read_only / "a.state", "is read-only"))
    if os.path.isdir("/proc/self"):  # root finds out only by trying
        cases.append((Path("/proc/self/a.state"), ""))
    whole = run("evaluate", path, *BINARY).out
    for target, message in cases:
        result = run("evaluate", path, *BINARY, "--save", target)
        assert (result.code, result.out) in [(1, ""), (1, "" if message else whole)]
        assert result.err.startswith(f"streameval: {target}: cannot be written: ")
        assert message in result.err
        assert result.err.count("\n") == 1
