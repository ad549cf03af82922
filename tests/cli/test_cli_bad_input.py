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
from tests.cli.test_cli_evaluate import write_jsonl, written
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

    skipped = run("evaluate", path, *BINARY, *SKIP)
    assert (skipped.code, skipped.out) == (0, run("evaluate", good, *BINARY).out)
    first, second = skipped.err.splitlines()
    assert first == "streameval: skipped 1 bad record:"
    assert second.startswith(f"streameval: {path}:3: {message}")

    report = json.loads(run("evaluate", path, *BINARY, *SKIP, "--format", "json").out)
    assert report["bad_records"]["count"] == 1
    (record,) = report["bad_records"]["first"]
    assert (record["source"], record["line"]) == (str(path), 3)
    assert set(record) >= {"field", "expected", "got"}


NOON = "2026-03-01T12:00:00Z"
LABELS = ("--y-true", "label", "--y-pred", "p")
TIMES = (*LABELS, "--time", "at", "--window", "panes:1h")
PROBA = ("--y-true", "label", "--proba", "p", "--task", "multiclass")
# For each code: options, a record that is bad, and the remedy that names options of the command.
REMEDIES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "label_scores": (
        ("--y-true", "y", "--proba", "p", "--task", "multilabel"),
        '{"y": ["x"], "p": {"x": 2}}',
        "name the fields of other scores with --score",
    ),
    "labels": ((*LABELS, "--positive", "x"), '{"label": "z", "p": "x"}', "name both with --labels"),
    "labels_of_list": (PROBA, '{"label": "x", "p": [0.5, 0.5]}', "name the labels of the list in"),
    "naive_time": (
        TIMES,
        '{"label": "x", "p": "x", "at": "2026-03-01T12:00:00"}',
        "add the offset, such as +00:00, or declare with --utc",
    ),
    "object": (LABELS, "[", "write one object a line (jq -c '.[]')"),
    "one_line": (LABELS, "{", "compact it (jq -c .)"),
    "positive": (("--y-true", "label", "--score", "s"), '{"label": 2, "s": 1}', "give --positive"),
    "probabilities": (PROBA, '{"label": "x", "p": {"x": 2, "y": -1}}', "of logits give the"),
    "probability": (PROBA, '{"label": "x", "p": 0.5}', "one number is a score: use --score"),
    "numbers": (
        LABELS,
        '{"label": 0.5, "p": 0}',
        "a fraction is a score: name its field with --score; true numbers require --task regress",
    ),
    "score": (LABELS, '{"label": 1, "p": 0.5}', "a fraction is a score: name its field with --sco"),
    "task": (
        (*LABELS, "--positive", "x", "--labels", "x,y"),
        '{"label": "z", "p": "x"}',
        "give --task multiclass for more than two labels",
    ),
    "time_unit": (TIMES, '{"label": "x", "p": "x", "at": 5}', "declare the unit with --time-unit"),
    "unit": ((*LABELS, "--unit", "at"), '{"label": "x", "p": "x"}', "give --on-bad skip"),
}


@pytest.mark.parametrize("code", sorted(REMEDIES))
def test_remedies_name_options(run: Command, tmp_path: Path, code: str) -> None:
    options, line, remedy = REMEDIES[code]
    words = {"label": "x", "p": {"x": 0.5, "y": 0.5} if "--proba" in options else "y", "at": NOON}
    numbers = {"label": 1, "p": 0, "s": 0.5}
    good = numbers if code in ("numbers", "positive", "score") else words
    good = {"y": ["x"], **good} if code == "label_scores" else good
    other = {"label": 0} if good is numbers else {}
    path = write_jsonl(tmp_path / "a.jsonl", [good, good | other])
    with path.open("a") as file:
        file.write(line)
    result = run("evaluate", path, *options)
    assert result.code == 2
    assert f"{path}:3: " in result.err
    assert f"; {remedy}" in result.err


INTEGERS = (*LABELS, "--label-type", "int")
# The same of whole files: their names, texts, options, and the remedy.
FILE_REMEDIES: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "input_format": ("a.txt", "{}", LABELS, "say what it is with --input-format jsonl, csv,"),
    "header": (
        "a.csv",
        "x,0.5\ny,0.1\n",
        LABELS,
        "if the first line holds no names, give --no-hea",
    ),
    "na_values": ("a.csv", "label,p\nx,x\nNA,y\n", LABELS, "leave this event out; or, if it is a"),
    **{
        f"delimiter {mark}": (
            "a.tsv" if mark == "," else "a.csv",
            f"label{mark}p\nx{mark}x\n",
            LABELS,
            f"if {mark!r} is between the fields, give --delimiter {name}",
        )
        for mark, name in ((",", "comma"), (";", "semicolon"), ("|", "pipe"), ("\t", "tab"))
    },
    "utf-16-le": ("a.csv", "y\0,\0s\0", LABELS, "give --encoding utf-16-le"),
    "utf-16-be": ("a.csv", "\0y\0,\0s", LABELS, "give --encoding utf-16-be"),
    "label_separator": (
        "a.csv",
        "label,p\na|b,[]\n",
        (*LABELS, "--task", "multilabel"),
        "of one text give --label-separator with what stands between the labels",
    ),
    "label_type": ("a.csv", "label,p\nx,1\n", INTEGERS, "choose the type with --label-type"),
    "label_types": ("a.csv", "label,p\n1,x\n", LABELS, "say which with --label-type str, int or"),
    "proba_text": ("a.csv", "label,p\n1,1\n", PROBA, "give --proba label=column,label=column, or"),
    "y_true": ("a.csv", "q,p\n1,1\n", ("--y-pred", "p"), "name the field of the true labels"),
}


@pytest.mark.parametrize("code", sorted(FILE_REMEDIES))
def test_remedies_of_files_name_options(run: Command, tmp_path: Path, code: str) -> None:
    name, text, options, remedy = FILE_REMEDIES[code]
    (tmp_path / name).write_text(text)
    result = run("evaluate", tmp_path / name, *options)
    assert result.code == 2
    assert f"; {remedy}" in result.err


def test_a_remedy_of_parquet_names_options(run: Command, tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [{"label": "x", "p": "y"}])
    result = run("evaluate", path, *PROBA)
    assert result.code == 2
    assert "; for one column a label give --proba label=column,label=column" in result.err


def test_each_remedy_with_a_code_is_tested() -> None:
    tested = {*REMEDIES, *FILE_REMEDIES, "proba_column", "encoding"}
    assert tested == set(chunk._COMMAND)


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_many_bad_records_of_all_kinds_are_reported_in_the_order_of_the_files(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(record_counter, "BATCH_ROWS", rows)
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


def test_a_wrong_command_and_no_file(run: Command, tmp_path: Path) -> None:
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
        "the labels of 'label' are 'ham', 'spam'; give --positive spam or --positive ham\n"
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


@pytest.mark.parametrize("command", ["evaluate", "--version"])
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


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
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
    path = written(tmp_path / f"a{ending}", events)
    result = run("evaluate", path, *BINARY, "--weight", "w", *SKIP, "--format", "json")
    report = json.loads(result.out)
    reasons = {row["field"]: row["count"] for row in report["bad_records"]["reasons"]}
    assert reasons == {"label": 20, "score": 20, "w": 20}
    assert report["bad_records"]["count"] == 60
    assert report["metrics"]["accuracy"]["support"] == 120


@pytest.mark.parametrize(
    ("true", "predicted", "remedy"),
    [
        (["cat", "dog"], ["0.93", "0.2", "0.5"], "name its field with --score"),
        (["yes", "no"], ["Yes", "No"], "list all of them with --labels"),
        (["yes", "no"], ["Yes"], "list all of them with --labels"),
    ],
)
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_predicted_labels_that_are_never_true_are_refused(
    run: Command, tmp_path: Path, ending: str, true: list[str], predicted: list[str], remedy: str
) -> None:
    events = [
        {"y_true": true[n % len(true)], "y_pred": predicted[n % len(predicted)]} for n in range(12)
    ]
    path = written(tmp_path / f"a{ending}", events)
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
    ("name", "message"),
    [
        ("lable", "expected one column 'lable', got none among label, m; did you mean 'label'?"),
        (
            "m.scor",
            "expected one column 'm.scor', got none among label, m; did you mean 'm.score'?",
        ),
        (
            "label.x",
            "expected one column 'label.x', got none among label, m; did you mean 'label'?",
        ),
    ],
)
def test_a_misspelt_column_of_parquet(
    run: Command, tmp_path: Path, name: str, message: str
) -> None:
    path = written(tmp_path / "a.parquet", [{"label": 1, "m": {"score": 0.5}}])
    result = run("evaluate", path, "--y-true", name, "--score", "m.score")
    assert result == (2, "", f"streameval: {path}: {message}\n")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_weight_of_0_counts_for_nothing(run: Command, tmp_path: Path, form: str) -> None:
    saved = []
    for name, weights in (("with", (2, 0, 1, 0.0)), ("without", (2, 1))):
        rows = [
            f'{{"label": {n % 2}, "score": 0.{n}5, "w": {weight}}}'
            if form == "jsonl"
            else f"{n % 2},0.{n}5,{weight}"
            for n, weight in zip(
                (0, 1, 2, 3) if len(weights) == 4 else (0, 2), weights, strict=True
            )
        ]
        path = tmp_path / f"{name}.{form}"
        path.write_text("\n".join(([] if form == "jsonl" else ["label,score,w"]) + rows) + "\n")
        state = tmp_path / f"{name}.state"
        result = run("evaluate", path, *BINARY, "--weight", "w", "--save", state)
        assert result.code == 0, result.err
        saved.append(se.load(state))
    assert saved[0] == saved[1]
