"""``streameval evaluate`` on bad input: one line, the right place, the right exit code."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from streameval.records import chunk, record_counter
from tests.cli.test_cli_evaluate import written
from tests.support.command_runs import COMMAND, Command

BINARY = ("--y-true", "label", "--score", "score")
SKIP = ("--on-bad", "skip", "--max-bad", "1")
GOOD = b'{"label": 1, "score": 0.75}\n{"label": 0, "score": 0.25}\n'


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", ""), ("a.csv", "label,score,t,c\n")])
def test_an_empty_file_counts_nothing_and_says_so(
    run: Command, tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    sliced = ("--time", "t", "--window", "panes:1h", "--slice", "c", "--series", "f1")
    shown = run("evaluate", path, *BINARY, *sliced)
    assert (shown.code, shown.err) == (0, f"streameval: no events in {path}\n")
    assert shown.out.splitlines()[-1].split()[:3] == ["total", "nan", "0"]
    result = json.loads(run("evaluate", path, *BINARY, *sliced, "--format", "json").out)
    assert (result["slices"]["slices"], result["slices"]["total"]["value"]) == ([], None)
    assert all(row["value"] is None and row["reason"] for row in result["metrics"].values())


BAD_LINES = [
    (b'{"label": 1, "score": "' + b"x" * (10 << 20) + b'"}', "record: expected a line of at most"),
    (b'{"label": "\xff", "score": 1}', "record: expected UTF-8 text, got byte 0xff at column 12"),
    (b'{"label": 2, "score": 0.5}', "label: expected 0 or the positive label 1, got 2; give --pos"),
    (b'{"score": 0.5}', "label: expected a label (text, an integer or true/false), got no field"),
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

    skipped = run("evaluate", path, *BINARY, *SKIP, "--format", "json")
    first, second = skipped.err.splitlines()
    assert first == "streameval: skipped 1 bad record:"
    assert second.startswith(f"streameval: {path}:3: {message}")
    report = json.loads(skipped.out)
    bad = report.pop("bad_records")
    assert report == json.loads(run("evaluate", good, *BINARY, "--format", "json").out)
    (record,) = bad["first"]
    assert (skipped.code, bad["count"], record["source"], record["line"]) == (0, 1, str(path), 3)
    assert set(record) >= {"field", "expected", "got"}


LABELS = "--y-true label --y-pred p"
PROBA = "--y-true label --proba p --task multiclass"
LINES = '{"label": "x", "p": "x"}\n' * 2
# For each code: the name of a file, its text, options, and the remedy that names options.
REMEDIES: dict[str, tuple[str, str, str, str]] = {
    "label_scores": ("a.jsonl", '{"y_true": ["x"], "p": {"x": 2}}', "--proba p --task multilabel",
                     "name the fields of other scores with --score"),
    "object": ("a.jsonl", LINES + "[", LABELS, "write one object a line (jq -c '.[]')"),
    "one_line": ("a.jsonl", LINES + "{", LABELS, "compact it (jq -c .)"),
    "task": ("a.jsonl", LINES.replace("x", "z"), f"{LABELS} --positive x --labels x,y",
             "give --task multiclass for more than two labels"),
    "unit": ("a.jsonl", LINES, f"{LABELS} --unit at", "give --on-bad skip"),
    "input_format": ("a.txt", "{}", LABELS, "say what it is with --input-format jsonl, csv,"),
    "header": ("a.csv", "x,0.5\ny,0.1\n", LABELS, "if the first line holds no names, give --no-h"),
    "na_values": ("a.csv", "label,p\nx,x\nNA,y\n", LABELS, "leave this event out; or, if it is a"),
    **{
        f"delimiter {mark}": ("a.tsv" if mark == "," else "a.csv", f"label{mark}p\nx{mark}x\n",
                              LABELS, f"if {mark!r} is between the fields, give --delimiter {name}")
        for mark, name in ((",", "comma"), (";", "semicolon"), ("|", "pipe"), ("\t", "tab"))
    },
    "utf-16-le": ("a.csv", "y\0,\0s\0", LABELS, "give --encoding utf-16-le"),
    "utf-16-be": ("a.csv", "\0y\0,\0s", LABELS, "give --encoding utf-16-be"),
    "label_separator": ("a.csv", "label,p\na|b,[]\n", f"{LABELS} --task multilabel",
                        "of one text give --label-separator with what stands between the labels"),
    "label_type": ("a.csv", "label,p\nx,1\n", f"{LABELS} --label-type int",
                   "choose the type with --label-type"),
    "label_types": ("a.csv", "label,p\n1,x\n", LABELS, "say which with --label-type str, int or"),
    "y_true": ("a.csv", "q,p\n1,1\n", "--y-pred p", "name the field of the true labels"),
    "proba_column": ("a.parquet", "", PROBA, "for one column a label give --proba label=column,l"),
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(REMEDIES))
def test_remedies_name_options(run: Command, tmp_path: Path, code: str) -> None:
    name, text, options, remedy = REMEDIES[code]
    path = tmp_path / name
    path.write_text(text) if text else written(path, [{"label": "x", "p": "y"}])
    result = run("evaluate", path, *options.split())
    assert result.code == 2
    assert f"; {remedy}" in result.err


def test_each_remedy_with_a_code_is_tested() -> None:
    golden = Path(__file__).parents[1] / "golden"
    frozen = [(golden / f"{name}.json").read_text() for name in ("bad_records", "option_errors")]
    others = {
        code
        for code, text in chunk._COMMAND.items()
        if not any(f"; {json.dumps(text)[1:-1]}" in texts for texts in frozen)
    }
    assert others <= {*REMEDIES, "encoding"}  # test_cli_files.py


def test_nothing_but_bad_records_is_bad_input(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"lable": 1, "score": 1}\n' * 30)
    result = run("evaluate", path, *BINARY, "--on-bad", "skip", "--format", "json")
    assert result.code == 2
    assert json.loads(result.out)["bad_records"]["count"] == 30
    assert "did you mean 'lable'?" in result.err
    assert result.err.endswith("streameval: no record could be counted\n")


def test_a_closed_pipe_ends_quietly_and_a_full_disk_does_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD)
    # An environment in which Python buffers its output, as it does for users.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

    def printed_to(output: Any, *arguments: str) -> tuple[int, bytes]:
        command = [*COMMAND, *arguments]
        done = subprocess.run(command, stdout=output, stderr=subprocess.PIPE, env=buffered)
        return done.returncode, done.stderr

    reader, writer = os.pipe()
    os.close(reader)
    evaluated = ("evaluate", str(path), *BINARY)
    assert printed_to(writer, *evaluated) == (141, b"")
    assert printed_to(writer, "--version") == (141, b"")
    os.close(writer)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            code, said = printed_to(full, *evaluated)
        assert (code, b"No space left" in said, said.count(b"\n")) == (1, True, 1)


def test_ctrl_c_ends_cleanly() -> None:
    # A test run in the background ignores Ctrl-C, and so would its children.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from streameval.cli import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "evaluate", "-", *BINARY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        process.stdin.write(GOOD * 5_000)  # more than a pipe holds: the command is reading
        process.stdin.flush()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"streameval: interrupted\n")


def test_progress_is_for_terminals_only(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 200_000)
    for options, is_shown in (((), True), (("--no-progress",), False)):
        leader, follower = pty.openpty()
        command = [*COMMAND, "evaluate", str(path), *BINARY, *options]
        environment = {**os.environ, "TERM": "xterm"}
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=environment)
        assert (done.returncode, done.stdout[:7]) == (0, b"metric ")
        os.write(follower, b"end")
        assert (b"a.jsonl" in os.read(leader, 1 << 16)) is is_shown
        os.close(follower)
        os.close(leader)


NAMED = ("--y-true", "t", "--score", "s", "--positive", "spam", "--on-bad", "skip")


def test_a_typo_that_becomes_the_negative_label_is_not_passed_over(
    run: Command, tmp_path: Path
) -> None:
    labels = ["hma", *["spam", "ham"] * 100]
    path = written(tmp_path / "a.jsonl", [{"t": one, "s": 0.5} for one in labels])
    result = run("evaluate", path, *NAMED, "--format", "json")
    assert result.code == 3
    assert "got 'ham'; name both with --labels, or give --task multiclass" in result.err
    expected = "'hma' or the positive label 'spam'"
    assert f"streameval: 100 (49.75%) for t: expected {expected}\n" in result.err
    reasons = json.loads(result.out)["bad_records"]["reasons"]
    assert reasons == [{"field": "t", "expected": expected, "count": 100}]
    # Declared, the labels tell which one is wrong.
    declared = run("evaluate", path, *NAMED, "--labels", "spam,ham", "--format", "json")
    assert declared.code == 0
    assert json.loads(declared.out)["metrics"]["accuracy"]["support"] == 200
    assert f"{path}:1: t: expected 'ham' or the positive label 'spam', got 'hma'" in declared.err


@pytest.mark.parametrize(("bad", "share", "code"), [(2, "0.01", 0), (3, "0.01", 3), (3, ".02", 0)])
def test_the_share_of_bad_records_of_one_reason(
    run: Command, tmp_path: Path, bad: int, share: str, code: int
) -> None:
    events = [{"t": ("spam", "ham")[n % 2], "s": 0.5} for n in range(200)]
    events += [{"t": "x", "s": 0.5}, {"t": "ham", "s": math.nan}] * bad
    path, state = written(tmp_path / "a.jsonl", events), tmp_path / "state"
    options = [] if share == "0.01" else ["--max-bad", share]
    result = run("evaluate", path, *NAMED, *options, "--save", state)
    assert (result.code, state.exists()) == (code, code == 0)
    said = f"streameval: {bad} (1.46%) for s: expected a finite number\n"
    assert (
        (said in result.err) is (f": {state} was not written; correct" in result.err) is (code > 0)
    )


@pytest.mark.parametrize(("rows", "ending"), [(1, "jsonl"), (7, "csv"), (1000, "parquet")])
def test_reasons_are_counted_in_full_and_listed_in_the_order_of_the_files(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, ending: str
) -> None:
    monkeypatch.setattr(record_counter, "BATCH_ROWS", rows)
    good = {"label": 1, "score": 0.5, "w": 2.0}
    kinds = [{"score": math.inf}, {"w": -1.0}, {"label": 7}]
    events = [
        {**good, **kinds[n % 3]} if n % 2 else {**good, "label": n % 4 // 2} for n in range(20)
    ]
    paths = [written(tmp_path / f"{name}.{ending}", events) for name in "ba"]
    result = run("evaluate", *paths, *BINARY, "--weight", "w", *SKIP, "--format", "json")
    report = json.loads(result.out)
    bad = report["bad_records"]
    reasons = {row["field"]: row["count"] for row in bad["reasons"]}
    assert (bad["count"], reasons) == (20, {"label": 6, "score": 6, "w": 8})
    assert report["metrics"]["accuracy"]["support"] == 40
    assert {one["source"] for one in bad["first"]} == {str(paths[0])}
    header = ending == "csv"
    assert [one["line"] for one in bad["first"]] == [n + header for n in range(2, 21, 2)]
    assert "skipped 20 bad records; the first 10:" in result.err
    assert result.err.count("\n") == 11


@pytest.mark.parametrize(
    ("ending", "true", "predicted", "remedy"),
    [
        ("jsonl", ["cat", "dog"], ["0.93", "0.2", "0.5"], "name its field with --score"),
        ("csv", ["yes", "no"], ["Yes", "No"], "list all of them with --labels"),
        ("parquet", ["yes", "no"], ["Yes"], "list all of them with --labels"),
    ],
)
def test_predicted_labels_that_are_never_true_are_refused(
    run: Command, tmp_path: Path, ending: str, true: list[str], predicted: list[str], remedy: str
) -> None:
    events = [
        {"y_true": true[n % len(true)], "y_pred": predicted[n % len(predicted)]} for n in range(12)
    ]
    path = written(tmp_path / f"a.{ending}", events)
    options = ("--y-pred", "y_pred", "--window", "last:3")
    result = run("evaluate", path, *options, "--save", tmp_path / "state")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("streameval: --y-pred: expected some of the labels in 'y_true': ")
    assert remedy in result.err
    assert not (tmp_path / "state").exists()
    listed = ",".join(sorted({*true, *predicted}))
    assert run("evaluate", path, *options, "--labels", listed).code == 0
    # One label alone is no evidence.
    one = written(path, [{"y_true": true[0], "y_pred": predicted[0]}] * 3)
    assert run("evaluate", one, *options, "--metrics", "accuracy").out.split()[-2:] == ["0", "3"]


@pytest.mark.parametrize(
    ("name", "meant"), [("lable", "label"), ("m.scor", "m.score"), ("label.x", "label")]
)
def test_a_misspelt_column_of_parquet(run: Command, tmp_path: Path, name: str, meant: str) -> None:
    path = written(tmp_path / "a.parquet", [{"label": 1, "m": {"score": 0.5}}])
    result = run("evaluate", path, "--y-true", name, "--score", "m.score")
    message = f"expected one column '{name}', got none among label, m; did you mean '{meant}'?"
    assert result == (2, "", f"streameval: {path}: {message}\n")
