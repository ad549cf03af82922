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

import streameval as se
from streameval.records import chunk, record_counter
from tests.cli.test_cli_evaluate import written
from tests.support.command_runs import COMMAND, Command

BINARY = ("--y-true", "label", "--score", "score")
SKIP = ("--on-bad", "skip", "--max-bad", "1")
GOOD = b'{"label": 1, "score": 0.75}\n{"label": 0, "score": 0.25}\n'


def test_an_empty_file_counts_nothing_and_says_so(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.touch()
    result = run("evaluate", path, *BINARY, "--format", "json")
    assert result.code == 0
    assert result.err == f"streameval: no events in {path}\n"
    metrics = json.loads(result.out)["metrics"]
    assert all(row["value"] is None and row["reason"] for row in metrics.values())


def test_a_header_alone_counts_nothing(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("label,score\n")
    result = run("evaluate", path, *BINARY)
    assert (result.code, result.err) == (0, f"streameval: no events in {path}\n")
    assert "nan" in result.out


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


def test_many_bad_records_of_all_kinds_are_reported_in_the_order_of_the_files(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_counter, "BATCH_ROWS", 3)
    good = ['{"label": 1, "score": 0.5}\n', '{"label": 0, "score": 0.5}\n']
    kinds = ['{"label": "x", "score": 1}\n', '{"label": 1, "score": NaN}\n', "{\n"]
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(
            "".join(kinds[n % 3] if n % 2 else good[n // 2 % 2] for n in range(20))
        )
    paths = [tmp_path / "b.jsonl", tmp_path / "a.jsonl"]
    result = run("evaluate", *paths, *BINARY, *SKIP, "--format", "json")
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


def test_mixed_label_types_of_csv_name_the_option(run: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("y_true,y_pred\n" + "1,1\n" * 300_000 + "spam,1\n")
    result = run("evaluate", path, "--y-pred", "y_pred")
    assert result.code == 2
    assert f"{path}:300002: y_true: expected an integer label" in result.err
    assert "--label-type" in result.err
    result = run("evaluate", path, "--y-pred", "y_pred", "--label-type", "str")
    assert result.code == 0


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
    command = [*COMMAND, "evaluate", str(path), *BINARY]
    shown = {}
    for options in ((), ("--no-progress",)):
        leader, follower = pty.openpty()
        done = subprocess.run(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=follower,
            check=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(follower)
        try:
            shown[options] = os.read(leader, 1 << 16)
        except OSError:  # nothing was written before the other side was closed
            shown[options] = b""
        os.close(leader)
        assert done.stdout.startswith(b"metric ")
    assert b"a.jsonl" in shown[()]
    assert shown["--no-progress",] == b""


def labelled(path: Path, labels: list[str]) -> Path:
    path.write_text(
        "".join(json.dumps({"t": one, "s": n % 10 / 10}) + "\n" for n, one in enumerate(labels))
    )
    return path


NAMED = ("--y-true", "t", "--score", "s", "--positive", "spam", "--on-bad", "skip")


def test_a_typo_that_becomes_the_negative_label_is_not_passed_over(
    run: Command, tmp_path: Path
) -> None:
    path = labelled(tmp_path / "a.jsonl", ["hma", *["spam", "ham"] * 100])
    state = tmp_path / "state"
    result = run("evaluate", path, *NAMED, "--format", "json", "--save", state)
    assert result.code == 3
    assert "got 'ham'; name both with --labels, or give --task multiclass" in result.err
    assert result.err.splitlines()[-3:] == [
        "streameval: of 201 records were skipped:",
        "streameval: 100 (49.75%) for t: expected 'hma' or the positive label 'spam'",
        f"streameval: more than 1 % of the records for one reason: {state} was not written; "
        "correct the records or the options, or raise --max-bad",
    ]
    assert not state.exists()
    bad = json.loads(result.out)["bad_records"]
    assert bad["reasons"] == [
        {"field": "t", "expected": "'hma' or the positive label 'spam'", "count": 100}
    ]
    # Declared, the labels tell which one is wrong.
    declared = run("evaluate", path, *NAMED, "--labels", "spam,ham", "--format", "json")
    assert declared.code == 0
    assert json.loads(declared.out)["metrics"]["accuracy"]["support"] == 200
    assert f"{path}:1: t: expected 'ham' or the positive label 'spam', got 'hma'" in declared.err


@pytest.mark.parametrize(("bad", "share", "code"), [(2, None, 0), (3, None, 3), (3, "0.02", 0)])
def test_the_share_of_bad_records_of_one_reason(
    run: Command, tmp_path: Path, bad: int, share: str | None, code: int
) -> None:
    labels = ["spam", "ham"] * 100 + ["x"] * bad
    path = labelled(tmp_path / "a.jsonl", labels[:200])
    with path.open("a") as file:
        for _ in range(bad):
            file.write('{"t": "x", "s": 0.5}\n{"t": "ham", "s": NaN}\n')
    options = [] if share is None else ["--max-bad", share]
    result = run("evaluate", path, *NAMED, *options, "--save", tmp_path / "state")
    assert result.code == code
    assert (tmp_path / "state").exists() is (code == 0)
    assert (f"streameval: {bad} (1.46%) for s: expected a finite number" in result.err) is bool(
        code
    )


@pytest.mark.parametrize(("rows", "ending"), [(1, "jsonl"), (7, "csv"), (1000, "parquet")])
def test_reasons_are_counted_in_full(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, ending: str
) -> None:
    monkeypatch.setattr(record_counter, "BATCH_ROWS", rows)
    events: list[dict[str, Any]] = []
    for n in range(120):
        event: dict[str, Any] = {"label": n % 2, "score": 0.5, "w": 2.0}
        if n % 3 == 2:
            event |= {"score": math.inf} if n % 2 else {"w": -1.0}
        elif n % 4 == 3:
            event |= {"label": 7}
        events.append(event)
    path = written(tmp_path / f"a.{ending}", events)
    result = run("evaluate", path, *BINARY, "--weight", "w", *SKIP, "--format", "json")
    report = json.loads(result.out)
    reasons = {row["field"]: row["count"] for row in report["bad_records"]["reasons"]}
    assert reasons == {"label": 20, "score": 20, "w": 20}
    assert report["bad_records"]["count"] == 60
    assert report["metrics"]["accuracy"]["support"] == 120


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


def test_one_true_label_that_is_never_predicted_is_an_accuracy_of_0(
    run: Command, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.jsonl", [{"y_true": "cat", "y_pred": "dog"}] * 3)
    result = run("evaluate", path, "--y-pred", "y_pred", "--metrics", "accuracy")
    assert (result.code, result.out.split()[-2:]) == (0, ["0", "3"])


@pytest.mark.parametrize(
    ("name", "meant"), [("lable", "label"), ("m.scor", "m.score"), ("label.x", "label")]
)
def test_a_misspelt_column_of_parquet(run: Command, tmp_path: Path, name: str, meant: str) -> None:
    path = written(tmp_path / "a.parquet", [{"label": 1, "m": {"score": 0.5}}])
    result = run("evaluate", path, "--y-true", name, "--score", "m.score")
    message = f"expected one column '{name}', got none among label, m; did you mean '{meant}'?"
    assert result == (2, "", f"streameval: {path}: {message}\n")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_weight_of_0_counts_for_nothing(run: Command, tmp_path: Path, ending: str) -> None:
    events = [
        {"label": n % 2, "score": n / 8, "w": weight} for n, weight in enumerate((2, 0, 1, 0.0))
    ]
    saved = []
    for name, some in (("with", events), ("without", events[::2])):
        path, state = written(tmp_path / f"{name}.{ending}", some), tmp_path / f"{name}.state"
        result = run("evaluate", path, *BINARY, "--weight", "w", "--save", state)
        assert result.code == 0, result.err
        saved.append(se.load(state))
    assert saved[0] == saved[1]
