"""``merge`` counts no shard twice, replaces older epochs and says which shards are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_runs import Command

FIELDS = ("--y-true", "label", "--y-pred", "said", "--metrics", "support", "--format", "json")


@pytest.fixture
def save(run: Command, tmp_path: Path):
    def evaluated(name: str, events: int, *options: object) -> Path:
        """The state of so many events, each file with other ones."""
        path, state = tmp_path / "events.jsonl", tmp_path / name
        with path.open("w") as file:
            for number in range(events):
                file.write(json.dumps({"label": number % 2, "said": 1}) + "\n")
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


def test_a_copy_of_a_state_is_refused(run: Command, save, tmp_path: Path) -> None:
    a = save("a.state", 4)
    copy = tmp_path / "copy-of-a.state"
    copy.write_bytes(a.read_bytes())
    content = a.read_bytes()[-32:-24].hex()
    refused(
        run("merge", a, copy),
        f"{copy}: expected each shard once, got the content {content} again, which {a} holds",
        "name the shards where only their events are alike (--shard), or give --allow-overlap",
    )
    assert (
        support(run("merge", a, copy, "--allow-overlap", "--metrics", "support", *FIELDS[-2:])) == 8
    )


def test_a_merge_into_one_of_its_states_is_refused_the_second_time(
    run: Command, save, tmp_path: Path
) -> None:
    a, b = save("a.state", 4), save("b.state", 3)
    first = run("merge", a, b, "--save", a, "--format", "json")
    assert first.code == 0
    before = a.read_bytes()
    refused(run("merge", a, b, "--save", a), f"{b}: expected each shard once", f"which {a} holds")
    refused(run("merge", b, a, "--save", a), f"{a}: expected each shard once", f"which {b} holds")
    assert a.read_bytes() == before


def test_a_pattern_that_matches_the_merged_file_is_refused(
    run: Command, save, tmp_path: Path
) -> None:
    states = [save(f"{number}.state", number + 2) for number in range(3)]
    merged = tmp_path / "all.state"
    assert run("merge", tmp_path / "*.state", "--save", merged).code == 0
    refused(run("merge", tmp_path / "*.state"), merged, states[0], "count twice")
    merged.unlink()
    for way in ("one", "two"):  # of any depth
        parts = states[:2] if way == "one" else states[1:]
        assert run("merge", *parts, "--save", tmp_path / way).code == 0
    refused(run("merge", tmp_path / "one", tmp_path / "two"), tmp_path / "one", tmp_path / "two")


def test_named_shards_of_equal_events_are_merged_and_copies_are_not(
    run: Command, save, tmp_path: Path
) -> None:
    a = save("a", 4, "--shard", "eu-1", "--sequence", "0:4")
    b = save("b", 4, "--shard", "eu-1", "--sequence", "4:8")
    c = save("c", 4, "--shard", "eu-2")
    whole = tmp_path / "whole"
    options = ("--metrics", "support", *FIELDS[-2:])
    assert support(run("merge", c, b, a, "--save", whole, *options)) == 12
    d = save("d", 9, "--shard", "eu-1", "--sequence", "7:16")
    for states in ((a, b, d), (whole, d)):
        refused(run("merge", *states), f"{d}: ", "'eu-1' (epoch 0, sequence 7:8)", states[-2])


def test_a_newer_epoch_replaces_an_older_one(run: Command, save, tmp_path: Path) -> None:
    old = save("old", 9, "--shard", "eu-1")
    new = save("new", 4, "--shard", "eu-1", "--epoch", "2", "--sequence", "0:4")
    other = save("other", 5, "--shard", "eu-2")
    options = ("--metrics", "support", *FIELDS[-2:])
    for states in ((old, new, other), (new, other, old)):
        result = run("merge", *states, *options)
        assert support(result) == 9
        said = f"streameval: {old} is left out: {new} holds epoch 2 of shard 'eu-1' (epoch 0)\n"
        assert result.err == said
    merged = tmp_path / "merged"
    assert run("merge", old, other, "--save", merged).code == 0
    for states in ((merged, new), (new, merged)):
        refused(
            run("merge", *states), f"{merged}: ", "cannot be subtracted", f"{new} holds epoch 2"
        )
    assert support(run("merge", merged, new, "--allow-overlap", *options)) == 18


def test_what_is_expected_and_missing(run: Command, save, tmp_path: Path) -> None:
    a = save("a", 4, "--shard", "eu-1", "--sequence", "0:1000")
    b = save("b", 3, "--shard", "eu-2")
    unnamed = save("c", 2)
    expect = tmp_path / "shards.txt"
    expect.write_text("eu-1 0:1000\n\neu-2\n")
    options = ("--metrics", "support", *FIELDS[-2:])
    assert support(run("merge", a, b, "--expect", expect, *options)) == 7
    expect.write_text("eu-1 0:1500\neu-2 5:7\neu-3\neu-4 0:9\n")
    result = run("merge", a, b, unnamed, "--expect", expect, "--save", tmp_path / "whole")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "streameval: --expect: 3 of 4 shards missing, nothing was merged; states without a name "
        "match none:",
        "streameval: eu-1 1000:1500",
        "streameval: eu-3",
        "streameval: eu-4 0:9",
    ]
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
