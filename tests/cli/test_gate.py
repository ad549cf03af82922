"""``--fail-if``: what its rules say, when they fail, and the recipes of the page on CI."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import streameval as se
from streameval.cli import gate, main
from streameval.evaluator.slices import slice_name
from tests.cli.test_cli_evaluate import write_jsonl
from tests.support.command_runs import Command

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text("utf-8")

# f1 is 0.75 of all, 1 of PT, 0.5 of DE and undefined of SE.
EVENTS = [
    {"id": n, "country": country, "plan": plan, "label": label, "score": score, "other": 1 - score}
    for n, (country, plan, label, score) in enumerate(
        [
            *(("PT", "a", 1, 0.91), ("PT", "b", 0, 0.35), ("PT", "a", 1, 0.62)),
            *(("DE", "a", 1, 0.83), ("DE", "b", 0, 0.58), ("DE", "b", 1, 0.44)),
            *(("DE", "b", 0, 0.08), ("SE", "b", 0, 0.12)),
        ],
        1,
    )
]
SCORED = ("--y-true", "label", "--score", "score")
SLICED = "--slice country,country+plan"
MODELS = ("--y-true", "label", "--score", "old=other", "--score", "new=score")
NO_ANYTIME = "f1 has no anytime interval; it has delta, bootstrap"
UNDEFINED = "no event is truly 1 or was predicted so"

NO_DEVICE = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device to write to")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("gate") / "a.jsonl", EVENTS)


@pytest.fixture(scope="module")
def states(path: Path) -> tuple[Path, ...]:
    """A state, one of the first events only, one of a comparison, and one of its first events."""
    part = write_jsonl(path.with_name("part.jsonl"), EVENTS[:5])
    found = []
    for command, options in (("evaluate", SCORED), ("compare", (*MODELS, "--metrics", "f1"))):
        for source in (path, part):
            found.append(path.with_name(f"{command}-{source.stem}.state"))
            words = [command, str(source), *options, *SLICED.split(), "--save", str(found[-1])]
            assert main(words) == 0
    return tuple(found)


def said(run: Command, rules: Iterable[str], *words: str | Path) -> list[str]:
    """What is said of each rule; empty of one that passes."""
    plain = run(*words)
    result = run(*words, *(word for rule in rules for word in ("--fail-if", rule)))
    assert result.out == plain.out
    assert result.code == (4 if result.err else plain.code)
    lines = (line.partition("failed: ")[2] for line in result.err.splitlines())
    failed = {rule: text for rule, _, text in (line.partition(": ") for line in lines)}
    assert failed.keys() <= {*rules}
    return [failed.get(rule, "") for rule in rules]


F1 = "f1 is 0.75 [0.371502, 0.93837], support 8"
F1_HALF = "f1 is 0.75 [0.619099, 0.847031], support 8"
ACCURACY = "difference of accuracy of new is 0.5"
CHANGE = "difference of f1 of new is -0.1071428571 [-0.504349, 0.33972], support 8"
FILES = {"evaluate": SCORED, "compare": MODELS}
# Few metrics, as the differences of others are those of a bootstrap.
FEW = "--metrics accuracy"
# Of each command line, where numbers are those of states and EVENTS of the files, rules and what is
# said of them.
RULES = {
    "evaluate": {
        "f1 < 0.75": "",
        "f1 <= 0.75": "f1 is 0.75, support 8",
        "f1 > .75": "",
        "f1>=7.5e-1": "f1 is 0.75, support 8",
        "log_loss above 0.3": "log_loss is 0.3861443844, support 8",
        "f1.low < 0.5": F1,
        "f1.high < 0.94": F1,
        "f1.high < 0.93": "",
        "support < 8": "",
        "support < 9": "support is 8",
    },
    "evaluate --metrics accuracy": {"f1 below 0.8": "f1 is 0.75, support 8"},
    "evaluate --metrics f1": {"fbeta:beta=2 < .8": "fbeta:beta=2 is 0.75, support 8"},
    "evaluate --intervals 0.5": {"f1.high < 0.93": F1_HALF, "f1 < .8": F1_HALF},
    "evaluate --weight id": {"support < 37": "support is 36"},
    f"evaluate {SLICED}": {
        "slice.country accuracy < .6": "accuracy of country=DE is 0.5, support 4",
        "slice.country accuracy > .4": (
            "accuracy of country=PT is 1, support 3; also country=SE 1, country=DE 0.5"
        ),
        "slice.country accuracy <= 1": (
            "accuracy of country=DE is 0.5, support 4; also country=PT 1, country=SE 1"
        ),
        "slice.country f1 < .6": "f1 of country=DE is 0.5, support 4; also country=SE undefined",
        "slice.country f1 < .4": f"f1 of country=SE cannot be judged: {UNDEFINED}",
        "slice.country=PT f1 < .9": "",
        "slice.country=XX f1 < .9": "f1 cannot be judged: no slice country=XX has events",
        "slice.plan+country support below 1": "",
        "slice.country=DE, plan=b accuracy < .5": (
            "accuracy of country=DE, plan=b is 0.3333333333, support 3"
        ),
    },
    f"evaluate {SLICED} --undefined 0.5": {"slice.country f1 < .4": ""},
    f"evaluate {SLICED} --min-support 2": {"slice.country f1 < .4": ""},
    f"evaluate {SLICED} --min-support 5": {
        "slice.country f1 < .4": "f1 cannot be judged: no slice country has a support of 5"
    },
    "evaluate --anytime --intervals .95": {"f1.low < 1": f"f1 cannot be judged: {NO_ANYTIME}"},
    f"compare {FEW}": {
        "difference f1 < 0": "",
        "difference f1 < 0.7": (
            "difference of f1 of new is 0.5 [-0.690555, 1.69055], p = 0.2737, support 8"
        ),
        "difference roc_auc.p_value < 1": (
            "difference of roc_auc of new is 0.875 [0.528524, 1.22148], p = 7.431e-07, support 8"
        ),
        "accuracy < .5": "accuracy of old is 0.25 [0.0714792, 0.590725], support 8",
        "model.new accuracy < .5": "",
        "support < 9": "support of old is 8; also new 8",
    },
    f"compare {FEW} --level .5": {
        "difference.new accuracy.high < 1": (
            f"{ACCURACY} [0.204514, 0.595486], p = 0.2891, support 8"
        )
    },
    f"compare {FEW} {SLICED}": {
        "slice.country difference accuracy > 0.9": (
            "difference of accuracy of country=PT of new is 1 [-0.101218, 1], p = 0.25, support 3; "
            "also country=SE of new 1"
        ),
        "slice.country=DE model.new accuracy < .6": (
            "accuracy of country=DE of new is 0.5 [0.150039, 0.849961], support 4"
        ),
    },
    f"compare {FEW} --anytime": {
        "difference f1 > 0": (
            "difference of f1 of new cannot be judged: the difference of f1 has no anytime test; "
            "it has bootstrap"
        )
    },
    "report 0": {"slice.country accuracy < .6": "accuracy of country=DE is 0.5, support 4"},
    f"report 2 {FEW}": {
        "difference accuracy > 0": f"{ACCURACY} [-0.168052, 0.968052], p = 0.2891, support 8"
    },
    f"report 2 {FEW} --intervals .5": {"difference accuracy.low < 0": ""},
    "merge 0": {"f1 < .8": "f1 is 0.75, support 8"},
    "diff 1 0": {
        "f1 < .8": F1,
        "difference fbeta:beta=2.low < 0": (
            "difference of fbeta:beta=2 is -0.1875 [-0.599179, 0.240902], support 8"
        ),
        "slice.country difference accuracy < 0": "",
        "slice.country=SE difference accuracy < 0": (
            "difference of accuracy cannot be judged: no slice country=SE has events in both states"
        ),
    },
    "diff 0 1": {"support < 8": "support is 5"},
    f"diff 3 2 {FEW}": {
        "difference f1 < 0": CHANGE,
        "difference.new f1 < 0": CHANGE,
        "slice.country=PT model.new f1 <= 1": (
            "f1 of country=PT of new is 1 [0.480319, 1], support 3"
        ),
    },
}


def typed(path: Path, states: tuple[Path, ...], command: str) -> list[str | Path]:
    name, *words = command.split(" ")
    if name in FILES:
        return [name, path, *FILES[name], *words]
    return [name, *(states[int(word)] if word in "0123" else word for word in words)]


@pytest.mark.parametrize("command", RULES)
def test_rules_of_a_command(
    run: Command, path: Path, states: tuple[Path, ...], command: str
) -> None:
    rules = RULES[command]
    assert said(run, rules, *typed(path, states, command)) == list(rules.values())


REFUSED = {
    ("report 0", "slice.plan f1 < 1"): " requires slices by plan; evaluate with --slice plan",
    ("diff 1 0", "slice.contry f1 < 1"): " requires slices by contry; did you mean 'country'?",
    (f"report 2 {FEW}", "model.nw f1 < 1"): (
        ": expected a model: old, new, got 'nw'; did you mean 'new'?"
    ),
    (f"report 2 {FEW}", "difference.old f1 < 1"): ": expected a model: new, got 'old'",
    (f"diff 3 2 {FEW}", "difference f1.p_value < 1"): ": expected low or high in diff, got p_value",
    ("report 0", "difference f1 < 1"): (
        ": expected a rule of one model, got one of several; "
        "`compare` has several, and `diff` the difference of two states"
    ),
    ("merge none.state", "f3 < 1"): ", character 1: no metric is called 'f3'; write",
}


def test_rules_that_do_not_fit_the_state_are_refused(
    run: Command, path: Path, states: tuple[Path, ...]
) -> None:
    for (command, rule), error in REFUSED.items():
        result = run(*typed(path, states, command), "--fail-if", rule)
        assert (result.code, result.out) == (2, "")
        assert f"--fail-if {rule!r}{error}" in result.err
    result = run("report", states[0], "--fail-if", "roc_auc_ovr < 1")
    assert result == (2, "", "streameval: roc_auc_ovr is for multi-class tasks; use roc_auc\n")


def test_a_bound_within_the_bounds_of_joined_scores_cannot_be_judged(
    run: Command, tmp_path: Path
) -> None:
    events = [{"label": n % 3 % 2, "score": (n * 7919 % 4001) / 4001} for n in range(4000)]
    words = (write_jsonl(tmp_path / "a.jsonl", events), *SCORED, "--max-scores", "1024")
    bounds = se.evaluate(words[0], y_true="label", score="score", max_scores=1024).bounds("roc_auc")
    value = (bounds.low + bounds.high) / 2
    rules = [f"roc_auc < {value!r}", f"roc_auc < {bounds.low!r}", f"roc_auc <= {bounds.high!r}"]
    between, below, above = said(run, rules, "evaluate", *words)
    assert between == f"roc_auc cannot be judged: of joined scores: the exact value is in {bounds}"
    assert below == ""
    assert above.startswith("roc_auc is 0.")


def test_what_there_is_not_cannot_be_judged(run: Command, path: Path, tmp_path: Path) -> None:
    state = tmp_path / "f1.state"
    run("evaluate", path, *SCORED, "--metrics", "f1", "--save", state)
    (line,) = said(run, ["roc_auc < 0"], "report", state)
    assert line.startswith("roc_auc cannot be judged: roc_auc is not kept; ")
    empty = write_jsonl(tmp_path / "empty.jsonl", [])
    result = run("evaluate", empty, *SCORED, "--fail-if", "f1 < 0")
    assert result.code == 4
    assert "failed: f1 < 0: f1 cannot be judged: no event has been counted yet\n" in result.err
    # Nor is a slice whose events have left the window.
    events = [{**event, "at": 3600 * (event["country"] != "PT")} for event in EVENTS]
    words = (write_jsonl(tmp_path / "a.jsonl", events), *SCORED, *SLICED.split())
    window = ("--window", "panes:10m,retain=7d", "--time", "at", "--time-unit", "s")
    rules = ["slice.country accuracy < .5", "slice.country=PT f1 < 1"]
    none = "f1 cannot be judged: no slice country=PT has events"
    assert said(run, rules, "evaluate", *words, *window) == ["", none]


def test_a_gate_has_all_rules(run: Command, path: Path) -> None:
    rules = ("f1 < 0.8", "roc_auc.low < 0.1", "slice.country f1 < 0.6")
    words = [word for rule in rules for word in ("--fail-if", rule)]
    options = ("--slice", "country", "--format", "json", *words)
    result = run("evaluate", path, *SCORED, *options)
    assert result.code == 4
    assert [line.split(": ")[2] for line in result.err.splitlines()] == [rules[0], rules[2]]
    gate_ = json.loads(result.out)["gate"]
    assert [(one["rule"], one["passed"]) for one in gate_] == [
        *zip(rules, (False, True, False), strict=True)
    ]
    total, ranked, sliced = (one["values"] for one in gate_)
    assert total == [{"of": "total", "value": 0.75, "support": 8, "passed": False}]
    whole = se.evaluate(path, y_true="label", score="score").interval("roc_auc")
    assert (ranked[0]["low"], ranked[0]["high"]) == (whole.low, whole.high)
    passed = {one["of"]: one["passed"] for one in sliced}
    assert passed == {"country=DE": False, "country=PT": True, "country=SE": False}
    unknown = {"value": None, "support": 1, "passed": False, "reason": UNDEFINED}
    assert {"of": "country=SE", **unknown} in sliced
    assert "gate" not in json.loads(run("evaluate", path, *SCORED, "--format", "json").out)


@pytest.mark.parametrize(
    ("options", "bad", "code"),
    [
        (("--on-bad", "skip"), 1, 3),
        (("--on-bad", "skip", "--max-bad", "1"), 1, 4),
        (("--on-bad", "skip"), len(EVENTS), 2),
        pytest.param(("--save", "/dev/full"), 0, 1, marks=NO_DEVICE),
    ],
    ids=["too many bad", "allowed", "none counted", "not written"],
)
def test_other_errors_come_first(
    run: Command, tmp_path: Path, options: tuple[str, ...], bad: int, code: int
) -> None:
    events = [{**event, "score": "x"} if n < bad else event for n, event in enumerate(EVENTS)]
    path = write_jsonl(tmp_path / "a.jsonl", events)
    result = run("evaluate", path, *SCORED, *options, "--fail-if", "f1 < 2")
    assert result.code == code
    assert "failed: f1 < 2: f1" in result.err


@given(st.text("f1slice.difference<=> below0:", max_size=30))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    refused = f"--fail-if {text!r}"
    try:
        gate.parse(text)
    except se.StreamevalError as error:
        refused = str(error)
    assert refused.startswith(f"--fail-if {text!r}")


def test_the_slice_of_a_rule_is_written_as_in_tables() -> None:
    key = (("city", "A, B=c <"), ("n", 7))
    rule = gate.parse(f"slice.{slice_name(key)} f1 < 1")
    assert (rule.covers(key), rule.fields, rule.bound) == (True, ("city", "n"), 1)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that the page gives and names."""
    (lines,) = re.findall(r"\$ cat predictions.jsonl\n((?:\{.*\n)*)", PAGE)
    for name in ("predictions", "old", "new"):
        (tmp_path / f"{name}.jsonl").write_text(lines)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("block", blocks("yaml"), ids=["GitHub", "GitLab"])
def test_the_commands_of_a_pipeline_pass(run: Command, block: str) -> None:
    (command,) = re.findall(r'"(streameval [^"\\]*)', json.dumps(yaml.safe_load(block)))
    # The shell's part; and the page of pictures, which tests/cli/test_cli_results.py draws.
    line = command.partition(" >>")[0].replace("--report report.html", "")
    done = run(*shlex.split(line)[1:])
    assert (done.code, "failed: " in done.err) == (0, False), done.err
    assert "roc_auc" in done.out
    stricter = run(*shlex.split(line.replace("< 0.", "< 1."))[1:])
    assert (stricter.code, "failed: " in stricter.err) == (4, True)


def test_the_tests_of_the_page_pass_and_fail(folder: Path) -> None:
    (text,) = blocks("python")
    text = text.replace('@pytest.fixture(scope="module")\n', "")
    for threshold, failing in (("0.8", set()), ("0.99", {"test_ranking"})):
        page: dict[str, Any] = {}
        exec(text.replace("0.8", threshold), page)
        found, failed = page["found"](), set()
        for name in page:
            try:
                if name.startswith("test_"):
                    page[name](found)
            except AssertionError:
                failed.add(name)
        assert failed == failing
