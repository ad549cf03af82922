"""The first tries of a new user: files without options, mistakes, and examples of the help."""

from __future__ import annotations

import json
import os
import re
import shlex
import threading
from pathlib import Path
from typing import Any

import pytest
import typer.main

from streameval.cli.app import COMMANDS, app_of
from streameval.cli.help import EXAMPLES
from tests.cli.conftest import Command

FILES = {
    "churn.csv": "id,target,prob\n1,1,.9\n2,0,.2\n3,1,.4\n",
    "dump.csv": "y_true,y_pred\n1,1\n0,1\n",
    "texts.csv": "text,label,prediction\nx,pos,neg\ny,neg,neg\nz,pos,pos\n",
    "animals.csv": "label,p_cat,p_dog\ncat,.9,.1\ndog,.3,.7\n",
    "capital.csv": "Target,Prediction\n1,0\n0,0\n",
    "lines.jsonl": '{"y":1,"probability":0.3}\n{"y":0,"probability":0.2}\n',
    "several.csv": "target,label,prob\n1,1,.9\n0,0,.1\n",
    "unknown.csv": "churn,output\n1,.9\n0,.1\n",
    "mail.csv": "label,prob\nspam,.9\nham,.3\n",
    "sure.csv": "label,prediction,confidence\ncat,cat,.9\ndog,dog,.8\n",
    "scored.csv": "label,target,score\n1,1,.9\n0,0,.2\n",
    "guesses.csv": "y_true,pred,prediction\n1,1,0\n0,0,0\n",
    "titanic.csv": "PassengerId,Survived,prob\n7,1,.9\n8,0,.1\n",
    "case.csv": "Label,Score\n1,.9\n0,.1\n",
    "usual.csv": "y_true,y_pred,score,country\n1,1,.9,PT\n0,0,.1,SE\n",
}

GUESSES = {
    "churn.csv": "--y-true target --score prob",
    "texts.csv": "--y-true label --y-pred prediction",
    "animals.csv": "--y-true label --proba p_*",
    "capital.csv": "--y-true Target --y-pred Prediction",
    "lines.jsonl": "--y-true y --score probability",
    "sure.csv": "--y-true label --y-pred prediction",
    "case.csv": "--y-true Label --score Score",
}

_TYPED = Path(__file__).parents[1] / "support" / "mistakes_command_line.txt"
MISTAKES = [
    tuple(part.strip() for part in block.splitlines())
    for block in _TYPED.read_text("utf-8").split("\n\n")
    if not block.startswith("#")
]

_PYTHON = re.compile(
    r"(?<![-\w])[a-z_]+=(?![\w:]*[,'\"]?\w*=)(?:['\"\[{]|True|None)|update\(|\bse\.|Evaluator\b"
)
"""Words of a remedy in Python."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", GUESSES)
def test_columns_are_taken_by_their_names_and_said(run: Command, files: Path, name: str) -> None:
    found = run("evaluate", name)
    assert found.code == 0
    assert found.err.startswith(f"streameval: used, by the names of the columns: {GUESSES[name]}\n")
    given = run("evaluate", name, *GUESSES[name].split())
    assert (given.out, "used, by" in given.err) == (found.out, False)
    first, value, *_ = GUESSES[name].split()
    said = run("evaluate", name, *GUESSES[name].split()[2:]).err.splitlines()[0]
    assert said == f"streameval: used, by the names of the columns: {first} {value}"


@pytest.mark.parametrize(("typed", "words", "then"), MISTAKES, ids=[one[0] for one in MISTAKES])
def test_a_mistake_says_what_to_type(
    run: Command, files: Path, typed: str, words: str, then: str
) -> None:
    wrong = run(*shlex.split(typed))
    assert wrong.code == 2
    message = wrong.err.splitlines()[-1]
    assert words in message
    assert not _PYTHON.search(message)
    assert not re.search(r"(?i)click|typer|pydantic|BadParameter|Value error|Input should", message)
    right = run(*shlex.split(then))
    assert right.code == 0, right.err


def test_no_refusal_of_a_command_is_in_python_and_none_of_a_call_in_options() -> None:
    path = Path(__file__).parents[1] / "golden" / "option_errors.json"
    texts: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8"))
    for front in ("evaluate", "compare"):
        assert not [text for text in texts[front].values() if _PYTHON.search(text)]
    assert not [text for text in texts["call"].values() if re.search(r" --[a-z]", text)]


def _commands(command: Any, path: str = "") -> dict[str, Any]:
    found = {path: command}
    for name, one in getattr(command, "commands", {}).items():
        found |= _commands(one, f"{path} {name}".strip())
    return found


def test_each_command_has_three_examples_that_are_command_lines(run: Command) -> None:
    command = typer.main.get_command(app_of(COMMANDS))
    known = _commands(command)
    assert set(EXAMPLES) == {"", *COMMANDS}
    for path, examples in EXAMPLES.items():
        assert len(examples) == 3
        shown = run(*path.split(), "--help").out.rstrip().splitlines()
        assert shown[-4:] == ["Examples:", *(f"  {line}" for line in examples)]
        for line in examples:
            name, *words = shlex.split(line.partition(" > ")[0])
            assert name == "streameval"
            of_group = [one for one in known if one and " ".join(words).startswith(one)]
            longest = max(of_group, key=len)
            if "--help" not in words:
                known[longest].make_context(longest, words[len(longest.split()) :])


def test_a_state_of_few_metrics_says_what_it_lacks(run: Command, files: Path) -> None:
    few = run("evaluate", "usual.csv", "--metrics", "accuracy,f1", "--save", "few.state")
    said = few.err.splitlines()[-1]
    assert said.startswith("streameval: few.state cannot be asked for roc_auc, ")
    assert "cannot be asked" not in run("evaluate", "usual.csv", "--save", "all.state").err
    assert run("report", "few.state", "--metrics", "roc_auc").code == 2


@pytest.mark.parametrize(
    ("options", "out"),
    [
        ("--y-true target --score prob", "accuracy  0.6666666667        3"),
        ("--score prob", "expected one column 'y_true', got none among id, target, prob"),
        ("", "expected --y-pred, --score or --proba, got none of them"),
        ("--y-true target --proba p*", "columns, for --proba 'p*', got standard input"),
        ("--y-true target --score prob --threshold f1", "files, which are read twice"),
    ],
)
def test_a_named_pipe_is_read_once(run: Command, files: Path, options: str, out: str) -> None:
    """What was looked at beforehand would be missing, without a word, in lines without a header."""
    os.mkfifo("pipe.csv")
    writer = threading.Thread(target=Path("pipe.csv").write_text, args=[FILES["churn.csv"]])
    writer.start()
    try:
        found = run("evaluate", "pipe.csv", *options.split(), "--metrics", "accuracy")
    finally:
        if writer.is_alive():  # it was not opened
            Path("pipe.csv").read_text()
        writer.join()
    assert out in found.out + found.err
