"""``streameval evaluate`` on what goes wrong: one line, the right place, the right exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_runs import COMMAND, Command, in_process, own_process

from streameval.command_line import batches, feed


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Command:
    return in_process(capfd)


BINARY = ("--y-true", "label", "--score", "score")
GOOD = b'{"label": 1, "score": 0.75}\n{"label": 0, "score": 0.25}\n'


def test_an_empty_file_counts_nothing_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    result = own_process("evaluate", path, *BINARY, "--format", "json")
    assert result.code == 0
    assert result.err == f"streameval: no events in {path}\n"
    metrics = json.loads(result.out)["metrics"]
    assert all(row["value"] is None and row["reason"] for row in metrics.values())


def test_an_empty_csv_lacks_its_header_and_a_header_alone_counts_nothing(
    run: Command, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.touch()
    result = run("evaluate", path, *BINARY)
    assert result == (
        2,
        "",
        f"streameval: {path}: expected a header line that names the columns, got an empty file\n",
    )
    path.write_text("label,score\n")
    result = run("evaluate", path, *BINARY)
    assert result.code == 0
    assert result.err == f"streameval: no events in {path}\n"
    assert "nan" in result.out


BAD_LINES = [
    (b'{"label": 1, "score": "' + b"x" * (10 << 20) + b'"}', "record: expected a line of at most"),
    (b'{"label": "\xff", "score": 1}', "record: expected UTF-8 text, got byte 0xff at column 12"),
    (b'{"label": 1, "score": NaN}', "score: expected a finite number, got NaN"),
    (b'{"label": 1, "score": Infinity}', "score: expected a finite number, got Infinity"),
    (b'{"label": "1", "score": 0.5}', "label: expected a number like the label"),
    (b'{"label": 2, "score": 0.5}', "label: expected 0 or the positive label 1, got 2; give --pos"),
    (b'{"label": 0.5, "score": 0.5}', "label: expected a str, int or bool label, got 0.5; a fra"),
    (b'{"label": [1], "score": 0.5}', "label: expected a label (text, an integer or true/false)"),
    (b'{"label": null, "score": 0.5}', "label: expected a label (text, an int"),
    (b'{"score": 0.5}', "label: expected a label (text, an integer or true/false), got no field"),
    (b'{"label": 1, "score": 0.5', "record: expected a JSON object, got"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_record_stops_or_is_skipped(
    run: Command, tmp_path: Path, line: bytes, message: str
) -> None:
    good = tmp_path / "good.jsonl"
    good.write_bytes(GOOD + GOOD)
    path = tmp_path / "bad.jsonl"
    path.write_bytes(GOOD + line + b"\n" + GOOD)

    stopped = run("evaluate", path, *BINARY, "--save", tmp_path / "state")
    assert (stopped.code, stopped.out) == (2, "")
    assert stopped.err.startswith(f"streameval: {path}:3: {message}")
    assert stopped.err.count("\n") == 1
    assert len(stopped.err) < 500 + len(str(path))
    assert not (tmp_path / "state").exists()

    skipped = run("evaluate", path, *BINARY, "--on-bad", "skip")
    assert (skipped.code, skipped.out) == (0, run("evaluate", good, *BINARY).out)
    first, second = skipped.err.splitlines()
    assert first == "streameval: skipped 1 bad record:"
    assert second.startswith(f"streameval: {path}:3: {message}")

    report = json.loads(run("evaluate", path, *BINARY, "--on-bad", "skip", "--format", "json").out)
    assert report["bad_records"]["count"] == 1
    (record,) = report["bad_records"]["first"]
    assert (record["source"], record["line"]) == (str(path), 3)
    assert set(record) >= {"field", "expected", "got"}


@pytest.mark.parametrize("weight", ["-1", "0", "NaN", '"2"', "1e300"])
def test_weights(run: Command, tmp_path: Path, weight: str) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"label": 1, "score": 0.5, "w": 2}\n'
    path.write_text(good + good.replace("2", weight))
    result = run("evaluate", path, *BINARY, "--weight", "w")
    assert result.code == 2
    assert f"{path}:2: w: expected a weight above 0 and at most" in result.err


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ('{"cat": 0.5, "dog": 0.2}', "p: expected"),
        ('{"cat": 1.5, "dog": -0.5}', "p['cat']: expected a probability"),
        ('{"cat": 0.5, "dog": null}', "p.dog: expected a finite number, got null"),
        ("{}", "p: expected"),
        ("0.5", "p: expected an object label -> probability, got 0.5; one number is a score"),
    ],
)
def test_probabilities(run: Command, tmp_path: Path, shares: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    good = '{"y_true": "cat", "p": {"cat": 0.5, "dog": 0.5}}\n'
    path.write_text(good + '{"y_true": "dog", "p": ' + shares + "}\n" + good)
    result = run("evaluate", path, "--proba", "p")
    assert result.code == 2
    assert f"{path}:2: {message}" in result.err
    result = run("evaluate", path, "--proba", "p", "--on-bad", "skip", "--metrics", "accuracy")
    assert result.code == 0
    assert result.out.split()[-1] == "2"


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_many_bad_records_of_all_kinds_are_told_in_the_order_of_the_files(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(feed, "BatchBuilder", lambda: batches.BatchBuilder(rows_wanted=rows))
    good = ['{"label": 1, "score": 0.5}\n', '{"label": 0, "score": 0.5}\n']
    kinds = ['{"label": "x", "score": 1}\n', '{"label": 1, "score": NaN}\n', "{\n"]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(
            "".join(kinds[n % 3] if n % 2 else good[n // 2 % 2] for n in range(20))
        )
    paths = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
    result = run("evaluate", *paths, *BINARY, "--on-bad", "skip", "--format", "json")
    report = json.loads(result.out)
    assert report["metrics"]["accuracy"]["support"] == 20
    assert report["bad_records"]["count"] == 20
    assert [(r["source"], r["line"]) for r in report["bad_records"]["first"]] == [
        (str(paths[0]), line) for line in range(2, 21, 2)
    ]
    assert "skipped 20 bad records; the first 10:" in result.err
    assert result.err.count("\n") == 11
    stopped = run("evaluate", *paths, *BINARY)
    assert f"streameval: {paths[0]}:2: " in stopped.err


def test_nothing_but_bad_records_is_bad_input(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"lable": 1, "score": 1}\n' * 30)
    result = run("evaluate", path, *BINARY, "--on-bad", "skip", "--format", "json")
    assert result.code == 2
    assert json.loads(result.out)["bad_records"]["count"] == 30
    assert "did you mean 'lable'?" in result.err
    assert result.err.endswith("streameval: no record could be counted\n")


USAGE = [
    ((), "evaluate: expected --y-pred, --score or --proba, got none of them"),
    (("--score", "s", "--proba", "p"), "--proba: expected --score or --proba, got both"),
    (("--y-pred", "p", "--threshold", "0.3"), "--threshold: expected it beside --score"),
    (("--score", "s", "--task", "multiclass"), "--score: expected it in a binary task only"),
    (("--score", "label", "--y-true", "label"), "label: expected one use of the field"),
    (("--score", "score", "--metrics", "acuracy"), "did you mean accuracy"),
    (
        ("--score", "score", "--metrics", "zzz"),
        "no metric is called 'zzz'; `streameval metrics` lists them",
    ),
    (("--y-pred", "label", "--positive", "1", "--metrics", "roc_auc"), "roc_auc needs scores"),
    (("--y-pred", "label", "--positive", "yes"), "--positive: expected a number like the label 0"),
    (("--score", "score", "--positive", "3"), "label: expected"),
    (("--proba", "a=b,c"), "--proba: expected a field, or label=column,label=column"),
    (("--score", "score", "--on-bad", "ignore"), "Invalid value for '--on-bad'"),
    (("--score", "score", "--metrics", " ,"), "--metrics: expected names joined by commas"),
    (("--scor", "score"), "No such option: --scor"),
    (("--score", "score", "--threshold", "nan"), "threshold: expected a finite number"),
]


@pytest.mark.parametrize(("options", "message"), USAGE)
def test_bad_usage_is_one_line(
    run: Command, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD)
    result = run("evaluate", path, "--y-true", "label", *options)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("streameval: ")
    assert result.err.count("\n") == 1


def test_no_command_and_no_file(run: Command, tmp_path: Path) -> None:
    assert run().code == 2
    assert run("evalute").code == 2
    result = run("evaluate", "--score", "s")
    assert (result.code, result.err.count("\n")) == (2, 1)
    result = run("evaluate", tmp_path / "no.jsonl", "--score", "s")
    assert result.code == 2
    assert result.err.endswith("no.jsonl: expected a file, got no such file\n")


def test_labels_that_need_a_positive_one(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"label": "spam", "score": 1}\n{"label": "ham", "score": 0}\n')
    result = run("evaluate", path, *BINARY)
    assert result.code == 2
    assert result.err == (
        "streameval: --positive: expected the label that counts as positive, got nothing; "
        "the labels of 'label' are 'ham', 'spam'; give --positive LABEL\n"
    )


def test_mixed_label_types_of_csv_name_the_option(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("y_true,y_pred\n" + "1,1\n" * 400_000 + "spam,1\n")
    result = run("evaluate", path, "--y-pred", "y_pred")
    assert result.code == 2
    assert f"{path}:400002: y_true: expected an integer label" in result.err
    assert "--label-type" in result.err
    result = run("evaluate", path, "--y-pred", "y_pred", "--label-type", "str")
    assert result.code == 0


@pytest.fixture
def buffered() -> dict[str, str]:
    """An environment in which Python buffers its output, as it does for users."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.mark.parametrize("command", ["evaluate", "metrics", "--version"])
def test_a_closed_pipe_ends_quietly_and_a_full_disk_does_not(
    tmp_path: Path, buffered: dict[str, str], command: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD)
    arguments = [*COMMAND, command, *([str(path), *BINARY] if command == "evaluate" else [])]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        arguments, stdout=writer, stderr=subprocess.PIPE, check=False, env=buffered
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")

    if not os.path.exists("/dev/full"):
        return
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            arguments, stdout=full, stderr=subprocess.PIPE, check=False, env=buffered
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_ctrl_c_ends_cleanly() -> None:
    # A test run in the background ignores Ctrl-C, and so would its children.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from streameval.cli import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "evaluate", "-", *BINARY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(GOOD * 100_000)  # more than a pipe holds: the command is reading
    process.stdin.flush()
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert err == b"streameval: interrupted\n"


def test_progress_is_for_terminals_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 200_000)
    if sys.platform == "win32":
        pytest.skip("no pseudo-terminals")
    import pty

    shown = {}
    for option in ("", "--no-progress"):
        leader, follower = pty.openpty()
        done = subprocess.run(
            [*COMMAND, "evaluate", str(path), *BINARY, *filter(None, [option])],
            stdout=subprocess.PIPE,
            stderr=follower,
            check=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(follower)
        try:
            shown[option] = os.read(leader, 1 << 16)
        except OSError:  # nothing was written before the other side was closed
            shown[option] = b""
        os.close(leader)
        assert done.stdout.startswith(b"metric ")
    assert b"a.jsonl" in shown[""]
    assert shown["--no-progress"] == b""
