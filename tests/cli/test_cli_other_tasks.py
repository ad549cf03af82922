"""Numbers and sets of labels on the command line: what is typed, what is shown, what is refused."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path

import pytest
from sklearn import metrics as reference

import streameval as se
from streameval.records import parts
from tests.support.command_runs import Command

LABELS = ["spam", "toxic", "ad"]
NUMBERS = "evaluate n.csv --task regression --y-true y --y-pred p"
SETS = "evaluate s.csv --task multilabel --y-true tags --y-pred guess --label-separator |"
COLUMNS = "evaluate s.csv --task multilabel --y-true y_* --proba p_*"


def made(seed: int = 3, rows: int = 200) -> tuple[list[list[str]], list[dict[str, float]]]:
    """Sets of labels, and a score of each label that tells them apart somewhat."""
    draw = random.Random(seed)
    sets = [[label for label in LABELS if draw.random() < 0.4] for _ in range(rows)]
    scores = [
        {one: round(draw.betavariate(4, 2) if one in true else draw.betavariate(2, 4), 3)
         for one in LABELS}
        for true in sets
    ]  # fmt: skip
    return sets, scores


SETS_TRUE, SCORES = made()


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = random.Random(1)
    with Path("n.csv").open("w") as file:
        file.write("y,p,site\n")
        for n in range(200):
            y = round(draw.gauss(10, 3), 3)
            file.write(f"{y},{round(y + draw.gauss(0, n % 2 + 1), 3)},{'ab'[n % 2]}\n")
    with Path("s.csv").open("w") as file:
        names = [f"{part}_{label}" for part in "yp" for label in LABELS]
        file.write(",".join(["tags", "guess", *names]) + "\n")
        for true, scores in zip(SETS_TRUE, SCORES, strict=True):
            guess = [label for label in LABELS if scores[label] >= 0.5]
            flags = [str(int(label in true)) for label in LABELS]
            cells = ["|".join(true), " | ".join(guess), *flags, *map(str, scores.values())]
            file.write(",".join(cells) + "\n")
    with Path("s.jsonl").open("w") as file:
        for true, scores in zip(SETS_TRUE, SCORES, strict=True):
            record = {"tags": true, "scores": scores, "listed": list(scores.values())}
            file.write(json.dumps(record) + "\n")


def values(run: Command, command: str) -> dict[str, float]:
    done = run(*shlex.split(command), "--format", "json")
    assert done.code in (0, 4), done.err
    return {name: row["value"] for name, row in json.loads(done.out)["metrics"].items()}


ML = "--task multilabel --y-true"


@pytest.mark.parametrize(
    "command",
    [
        SETS,
        COLUMNS,
        f"evaluate s.csv {ML} y_* --score p_*",
        f"evaluate s.csv {ML} y_* --proba spam=p_spam,toxic=p_toxic,ad=p_ad "
        "--threshold spam=.5,ad=.5,toxic=0.5",
        f"evaluate s.csv {ML} spam=y_spam,toxic=y_toxic,ad=y_ad --proba p_*",
        f"evaluate s.jsonl {ML} tags --proba scores",
        f"evaluate s.jsonl {ML} tags --proba listed --labels spam,toxic,ad",
        f"evaluate s.csv {ML} tags --label-separator | --proba p_*",
    ],
)
def test_every_form_of_sets_gives_scikit_learns_numbers(run: Command, command: str) -> None:
    found = values(run, f"{command} --metrics f1_micro,hamming_loss,accuracy")
    truth = [[label in true for label in LABELS] for true in SETS_TRUE]
    guess = [[scores[label] >= 0.5 for label in LABELS] for scores in SCORES]
    theirs = {
        "f1_micro": reference.f1_score(truth, guess, average="micro"),
        "hamming_loss": reference.hamming_loss(truth, guess),
        "accuracy": reference.accuracy_score(truth, guess),
    }
    assert found == pytest.approx(theirs, abs=1e-12)


def test_a_rule_chooses_the_thresholds_of_labels(run: Command) -> None:
    best = run(*shlex.split(f"{COLUMNS} --threshold f1 --format json"))
    view = se.evaluate("s.csv", task="multilabel", y_true="y_*", proba="p_*")
    pairs = ",".join(f"{label}={cut.threshold:.6g}" for label, cut in view.thresholds("f1").items())
    assert f"--threshold {pairs}: the best by f1 of these events" in best.err
    again = values(run, f"{COLUMNS} --threshold {pairs} --metrics f1_micro")
    assert again["f1_micro"] == json.loads(best.out)["metrics"]["f1_micro"]["value"]


def test_states_slices_gates_and_pictures_of_numbers(run: Command) -> None:
    gate = "--fail-if 'max_error > 1' --fail-if 'slice.site mean_absolute_error > 1'"
    pictures = "--report page.html --plot residuals.svg"
    done = run(*shlex.split(f"{NUMBERS} --slice site --intervals .95 {gate} {pictures}"))
    assert done.code == 4
    assert "site=b" in done.out.partition("worst first")[2].splitlines()[3]
    assert "failed: max_error > 1" in done.err
    # What only the gate and the picture read is kept, and is not shown.
    assert "max_error" not in done.out
    assert "dotted: no error" in Path("residuals.svg").read_text()
    page = Path("page.html").read_text()
    assert ("Residuals" in page, "classes" in page) == (True, False)
    head, *rows = Path("n.csv").read_text().splitlines()
    for name, some in (("a", rows[:80]), ("b", rows[80:])):
        Path(f"{name}.csv").write_text("\n".join([head, *some]) + "\n")
        command = f"{NUMBERS.replace('n.csv', f'{name}.csv')} --save {name}.state"
        assert run(*command.split()).code == 0
    assert values(run, "merge a.state b.state") == values(run, NUMBERS)
    assert "mean_absolute_error" in run("diff", "a.state", "b.state").out


OF_MODELS = {
    "compare n.csv --task regression --y-true y --y-pred old=p --y-pred new=y": (
        "mean_absolute_error", "paired t"),
    "compare s.csv --task multilabel --y-true tags --label-separator | --y-pred old=guess "
    "--y-pred new=tags": ("f1_micro", "paired t, delta method"),
    "compare s.jsonl --task multilabel --y-true tags --score old=scores --score new=scores": (
        "hamming_loss", "paired t"),
}  # fmt: skip


@pytest.mark.parametrize("line", OF_MODELS)
def test_several_models(line: str, command: Command) -> None:
    metric, test = OF_MODELS[line]
    done = command(*shlex.split(line), "--format", "json", "--save", "c.state")
    assert done.code == 0, done.err
    found = json.loads(done.out)["metrics"][metric]
    assert found["differences"][0]["method"] == test
    saved = se.Comparison.load("c.state")
    assert found["models"] == {name: saved[name][metric] for name in ("old", "new")}
    assert saved["old"].support == 200
    page = command(*shlex.split(line), "--report", "page.html")
    assert page.code == 0, page.err


@pytest.mark.parametrize("command", [NUMBERS, SETS, COLUMNS])
def test_several_processes_count_the_same(
    run: Command, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = run(*shlex.split(command), "--save", "one.state", "--workers", "1")
    for name in ("_HEAD_BYTES", "_LEAST_TASK", "_LARGEST_TASK"):
        monkeypatch.setattr(parts, name, 1_000)
    two = run(*shlex.split(command), "--save", "two.state", "--workers", "2")
    assert (one.code, two.code) == (0, 0), one.err + two.err
    assert two.out == one.out
    assert se.load("two.state") == se.load("one.state")


# Bad numbers and sets: tests/golden/bad_records.json.
REFUSED = [
    ("evaluate n.csv --y-true y --y-pred p",
     "--y-true: expected labels in 'y', got numbers, such as 1."),
    ("evaluate n.csv --y-true y --y-pred p", "true numbers require --task regression; if"),
    (f"evaluate s.csv {ML} tags --y-pred guess",
     "s.csv:2: tags: expected a list of labels, got the text"),
    (f"{SETS} --labels spam,ad", "tags: expected labels out of ['spam', 'ad'], got 'toxic'"),
    (f"{COLUMNS} --labels spam,ad",
     "s.csv: expected one column for each of --labels, for --y-true 'y_*', got y_spam, y_to"),
    (f"{COLUMNS} --threshold spam=.5", "--threshold: expected a threshold of each label, got"),
    (f"evaluate s.csv {ML} p_* --y-pred y_*", "p_spam: expected 0 or 1, or"),
    ("predictions n.csv --y-pred p --task regression", "--task regression requires --y-true"),
    ("evaluate n.csv --y-true y --task regression",
     "options that name the prediction, got y, p"),
    (f"{NUMBERS} --plot roc.svg", "the curve roc is of scores, and a regression has numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "message"), REFUSED)
def test_refusals(run: Command, command: str, message: str) -> None:
    done = run(*shlex.split(command))
    assert done.code in (1, 2), done.out
    assert message in done.err


def test_of_labels_in_one_text_the_bad_one_is_named(run: Command) -> None:
    Path("bad.csv").write_text("tags,guess\n1|2,1\n1|x,2\n")
    done = run(*shlex.split(f"{SETS.replace('s.csv', 'bad.csv')} --label-type int"))
    assert done.code == 2
    assert "bad.csv:3: tags: expected an integer label" in done.err
    assert "got 'x'; choose the type with --label-type" in done.err
