"""``--fail-if``: what its rules say, when they fail, and the recipes of the page on CI."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
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
from tests.support.command_runs import COMMAND, Command, Result

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text("utf-8")

# f1 is 0.75 of all, 1 of PT, 0.5 of DE and undefined of SE.
EVENTS = [
    {"id": n, "country": country, "plan": plan, "label": label, "score": score, "other": 1 - score}
    for n, (country, plan, label, score) in enumerate(
        [
            ("PT", "a", 1, 0.91),
            ("PT", "b", 0, 0.35),
            ("PT", "a", 1, 0.62),
            ("DE", "a", 1, 0.83),
            ("DE", "b", 0, 0.58),
            ("DE", "b", 1, 0.44),
            ("DE", "b", 0, 0.08),
            ("SE", "b", 0, 0.12),
        ],
        1,
    )
]
SCORED = ("--y-true", "label", "--score", "score")
SLICED = "--slice country,country+plan"
MODELS = ("--y-true", "label", "--score", "old=other", "--score", "new=score")
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
    for command, options in (("evaluate", SCORED), ("compare", MODELS)):
        for source in (path, part):
            found.append(path.with_name(f"{command}-{source.stem}.state"))
            words = [command, str(source), *options, *SLICED.split(), "--save", str(found[-1])]
            assert main(words) == 0
    return tuple(found)


PLAIN: dict[tuple[str | Path, ...], Result] = {}
"""What commands print without a rule; each is run once."""


def failed(run: Command, rule: str, *words: str | Path) -> str:
    """What is said of a rule that fails; empty where it passes."""
    if words not in PLAIN:
        PLAIN[words] = run(*words)
    plain, result = PLAIN[words], run(*words, "--fail-if", rule)
    assert result.out == plain.out
    assert result.code == (4 if result.err else plain.code)
    return result.err.removeprefix(f"streameval: failed: {rule}: ").rstrip("\n")


@pytest.mark.parametrize(
    ("rule", "options", "line"),
    [
        ("f1 < 0.75", "", ""),
        ("f1 <= 0.75", "", "f1 is 0.75, support 8"),
        ("f1 > .75", "", ""),
        ("f1>=7.5e-1", "", "f1 is 0.75, support 8"),
        ("f1 below 0.8", "--metrics accuracy", "f1 is 0.75, support 8"),
        ("log_loss above 0.3", "", "log_loss is 0.3861443844, support 8"),
        ("fbeta:beta=2 < .8", "--metrics f1", "fbeta:beta=2 is 0.75, support 8"),
        ("f1.low < 0.5", "", "f1 is 0.75 [0.371502, 0.93837], support 8"),
        ("f1.high < 0.94", "", "f1 is 0.75 [0.371502, 0.93837], support 8"),
        ("f1.high < 0.93", "", ""),
        ("f1.high < 0.93", "--intervals 0.5", "f1 is 0.75 [0.619099, 0.847031], support 8"),
        ("f1 < .8", "--intervals 0.5", "f1 is 0.75 [0.619099, 0.847031], support 8"),
        ("support < 8", "", ""),
        ("support < 9", "", "support is 8"),
        ("support < 37", "--weight id", "support is 36"),
        ("slice.country accuracy < .6", SLICED, "accuracy of country=DE is 0.5, support 4"),
        (
            "slice.country accuracy > .4",
            SLICED,
            "accuracy of country=PT is 1, support 3; also country=SE 1, country=DE 0.5",
        ),
        (
            "slice.country accuracy <= 1",
            SLICED,
            "accuracy of country=DE is 0.5, support 4; also country=PT 1, country=SE 1",
        ),
        (
            "slice.country f1 < .6",
            SLICED,
            "f1 of country=DE is 0.5, support 4; also country=SE undefined",
        ),
        ("slice.country f1 < .4", SLICED, f"f1 of country=SE cannot be judged: {UNDEFINED}"),
        ("slice.country f1 < .4", f"{SLICED} --undefined 0.5", ""),
        ("slice.country f1 < .4", f"{SLICED} --min-support 2", ""),
        (
            "slice.country f1 < .4",
            f"{SLICED} --min-support 5",
            "f1 cannot be judged: no slice country has a support of 5",
        ),
        ("slice.country=PT f1 < .9", SLICED, ""),
        ("slice.country=DE f1 < .9", SLICED, "f1 of country=DE is 0.5, support 4"),
        ("slice.country=XX f1 < .9", SLICED, "f1 cannot be judged: no slice country=XX has events"),
        (
            "slice.plan+country accuracy < .5",
            SLICED,
            "accuracy of country=DE, plan=b is 0.3333333333, support 3",
        ),
        ("slice.country=DE, plan=b support < 4", SLICED, "support of country=DE, plan=b is 3"),
        (
            "f1.low < 1",
            "--anytime --intervals .95",
            "f1 cannot be judged: f1 has no anytime interval; it has delta, bootstrap",
        ),
    ],
)
def test_of_one_model(run: Command, path: Path, rule: str, options: str, line: str) -> None:
    assert failed(run, rule, "evaluate", path, *SCORED, *options.split()) == line


@pytest.mark.parametrize(
    ("rule", "options", "line"),
    [
        ("difference f1 < 0", "", ""),
        (
            "difference f1 < 0.7",
            "",
            "difference of f1 of new is 0.5 [-0.690555, 1.69055], p = 0.2737, support 8",
        ),
        (
            "difference.new accuracy.high < 1",
            "--level .5",
            "difference of accuracy of new is 0.5 [0.204514, 0.595486], p = 0.2891, support 8",
        ),
        (
            "difference roc_auc.p_value < 1",
            "",
            "difference of roc_auc of new is 0.875 [0.528524, 1.22148], p = 7.431e-07, support 8",
        ),
        (
            "difference fbeta:beta=2 > 0",
            "",
            "difference of fbeta:beta=2 of new is 0.5 [-0.871716, 1.87172], p = 0.33, support 8",
        ),
        (
            "slice.country difference accuracy > 0.9",
            SLICED,
            "difference of accuracy of country=PT of new is 1 [-0.101218, 1], p = 0.25, support 3; "
            "also country=SE of new 1",
        ),
        ("accuracy < .5", "", "accuracy of old is 0.25 [0.0714792, 0.590725], support 8"),
        ("model.new accuracy < .5", "", ""),
        (
            "slice.country=DE model.new accuracy < .6",
            SLICED,
            "accuracy of country=DE of new is 0.5 [0.150039, 0.849961], support 4",
        ),
        (
            "difference f1 > 0",
            "--anytime",
            "difference of f1 of new cannot be judged: the difference of f1 has no anytime test; "
            "it has bootstrap",
        ),
        ("support < 9", "", "support of old is 8; also new 8"),
    ],
)
def test_of_several_models(run: Command, path: Path, rule: str, options: str, line: str) -> None:
    assert failed(run, rule, "compare", path, *MODELS, *options.split()) == line


@pytest.mark.parametrize(
    ("rule", "command", "line"),
    [
        ("f1 < .8", "report 0", "f1 is 0.75, support 8"),
        ("slice.country accuracy < .6", "report 0", "accuracy of country=DE is 0.5, support 4"),
        (
            "difference accuracy > 0",
            "report 2",
            "difference of accuracy of new is 0.5 [-0.168052, 0.968052], p = 0.2891, support 8",
        ),
        ("difference accuracy.low < 0", "report 2 --intervals .5", ""),
        ("f1 < .8", "merge 0", "f1 is 0.75, support 8"),
        ("f1 < .8", "diff 1 0", "f1 is 0.75 [0.371502, 0.93837], support 8"),
        (
            "difference f1 < 0",
            "diff 1 0",
            "difference of f1 is -0.1071428571 [-0.504349, 0.33972], support 8",
        ),
        (
            "difference fbeta:beta=2.low < 0",
            "diff 1 0",
            "difference of fbeta:beta=2 is -0.1875 [-0.599179, 0.240902], support 8",
        ),
        ("slice.country difference accuracy < 0", "diff 1 0", ""),
        (
            "slice.country=SE difference accuracy < 0",
            "diff 1 0",
            "difference of accuracy cannot be judged: no slice country=SE has events in both "
            "states",
        ),
        ("support < 8", "diff 0 1", "support is 5"),
        (
            "difference f1 < 0",
            "diff 3 2",
            "difference of f1 of new is -0.1071428571 [-0.504349, 0.33972], support 8",
        ),
        (
            "difference.new f1 < 0",
            "diff 3 2",
            "difference of f1 of new is -0.1071428571 [-0.504349, 0.33972], support 8",
        ),
        (
            "slice.country=PT model.new f1 <= 1",
            "diff 3 2",
            "f1 of country=PT of new is 1 [0.480319, 1], support 3",
        ),
    ],
)
def test_of_states(
    run: Command, states: tuple[Path, ...], rule: str, command: str, line: str
) -> None:
    words = [states[int(word)] if word.isdigit() else word for word in command.split()]
    assert failed(run, rule, *words) == line


@pytest.mark.parametrize(
    ("rule", "command", "error"),
    [
        (
            "slice.plan f1 < 1",
            "report 0",
            " requires slices by plan; evaluate with --slice plan",
        ),
        (
            "slice.contry f1 < 1",
            "diff 1 0",
            " requires slices by contry; did you mean 'country'?",
        ),
        (
            "model.nw f1 < 1",
            "report 2",
            ": expected a model: old, new, got 'nw'; did you mean 'new'?",
        ),
        ("difference.old f1 < 1", "report 2", ": expected a model: new, got 'old'"),
        ("difference f1.p_value < 1", "diff 3 2", ": expected low or high in diff, got p_value"),
        (
            "difference f1 < 1",
            "report 0",
            ": expected a rule of one model, got one of several; "
            "`compare` has several, and `diff` the difference of two states",
        ),
        ("f3 < 1", "merge none.state", ", character 1: no metric is called 'f3'; write"),
    ],
)
def test_a_rule_that_does_not_fit_the_state_is_refused(
    run: Command, states: tuple[Path, ...], rule: str, command: str, error: str
) -> None:
    words = [states[int(word)] if word.isdigit() else word for word in command.split()]
    result = run(*words, "--fail-if", rule)
    assert (result.code, result.out) == (2, "")
    assert f"--fail-if {rule!r}{error}" in result.err


def test_a_metric_of_another_task_is_refused(run: Command, states: tuple[Path, ...]) -> None:
    result = run("report", states[0], "--fail-if", "roc_auc_ovr < 1")
    assert result == (2, "", "streameval: roc_auc_ovr is for multi-class tasks; use roc_auc\n")


def test_a_metric_that_a_state_does_not_keep_fails(
    run: Command, path: Path, tmp_path: Path
) -> None:
    state = tmp_path / "f1.state"
    run("evaluate", path, *SCORED, "--metrics", "f1", "--save", state)
    line = failed(run, "roc_auc < 0", "report", state)
    assert line.startswith("roc_auc cannot be judged: roc_auc is not kept; ")


def test_a_bound_within_the_bounds_of_joined_scores_cannot_be_judged(
    run: Command, tmp_path: Path
) -> None:
    events = [{"label": n % 3 % 2, "score": (n * 7919 % 4001) / 4001} for n in range(4000)]
    words = (write_jsonl(tmp_path / "a.jsonl", events), *SCORED, "--max-scores", "1024")
    bounds = se.evaluate(words[0], y_true="label", score="score", max_scores=1024).bounds("roc_auc")
    value = (bounds.low + bounds.high) / 2
    line = failed(run, f"roc_auc < {value!r}", "evaluate", *words)
    assert line == f"roc_auc cannot be judged: of joined scores: the exact value is in {bounds}"
    assert failed(run, f"roc_auc < {bounds.low!r}", "evaluate", *words) == ""
    assert failed(run, f"roc_auc <= {bounds.high!r}", "evaluate", *words).startswith(
        "roc_auc is 0."
    )


def test_a_slice_whose_events_have_left_the_window_is_not_judged(
    run: Command, tmp_path: Path
) -> None:
    events = [{**event, "at": 3600 * (event["country"] != "PT")} for event in EVENTS]
    words = (write_jsonl(tmp_path / "a.jsonl", events), *SCORED, *SLICED.split())
    window = ("--window", "panes:10m,retain=7d", "--time", "at", "--time-unit", "s")
    assert failed(run, "slice.country accuracy < .5", "evaluate", *words, *window) == ""
    line = failed(run, "slice.country=PT f1 < 1", "evaluate", *words, *window)
    assert line == "f1 cannot be judged: no slice country=PT has events"


def test_a_file_without_events_fails(run: Command, tmp_path: Path) -> None:
    result = run("evaluate", write_jsonl(tmp_path / "a.jsonl", []), *SCORED, "--fail-if", "f1 < 0")
    assert result.code == 4
    assert "failed: f1 < 0: f1 cannot be judged: no event has been counted yet\n" in result.err


def test_a_gate_has_all_rules(run: Command, path: Path) -> None:
    rules = ("f1 < 0.8", "roc_auc.low < 0.1", "slice.country f1 < 0.6")
    words = [word for rule in rules for word in ("--fail-if", rule)]
    options = ("--slice", "country", "--format", "json", *words)
    result = run("evaluate", path, *SCORED, *options)
    assert result.code == 4
    assert [line.split(": ")[2] for line in result.err.splitlines()] == [rules[0], rules[2]]
    found = {one["rule"]: one for one in json.loads(result.out)["gate"]}
    assert {rule: one["passed"] for rule, one in found.items()} == dict(
        zip(rules, (False, True, False), strict=True)
    )
    assert found["f1 < 0.8"]["values"] == [
        {"of": "total", "value": 0.75, "support": 8, "passed": False}
    ]
    whole = se.evaluate(path, y_true="label", score="score").interval("roc_auc")
    (ends,) = found["roc_auc.low < 0.1"]["values"]
    assert (ends["low"], ends["high"]) == (whole.low, whole.high)
    slices = {one.pop("of"): one for one in found["slice.country f1 < 0.6"]["values"]}
    assert {name: one["passed"] for name, one in slices.items()} == {
        "country=DE": False,
        "country=PT": True,
        "country=SE": False,
    }
    unknown = {"value": None, "support": 1, "passed": False, "reason": UNDEFINED}
    assert slices["country=SE"] == unknown
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


METRICS = st.sampled_from(["f1", "roc_auc", "fbeta:beta=2", "partial_roc_auc:max_fpr=.1"])
NAMES = st.text("abé.=-_'9 ", min_size=1).filter(lambda text: text.strip() == text != "")


@given(
    metric=METRICS,
    end=st.sampled_from(["", ".low", ".high"]),
    sign=st.sampled_from(["<", " <= ", " > ", ">=", " below ", "  above "]),
    bound=st.floats(allow_nan=False, allow_infinity=False),
    part=st.none() | NAMES,
    model=st.none() | NAMES,
    paired=st.booleans(),
)
def test_a_rule_is_read_as_it_is_written(
    metric: str,
    end: str,
    sign: str,
    bound: float,
    part: str | None,
    model: str | None,
    paired: bool,
) -> None:
    scope = f"difference.{model} " if paired and model else "difference " if paired else ""
    scope = f"model.{model} " if model and not paired else scope
    rule = gate.parse(
        f"{'' if part is None else f'slice.{part} '}{scope}{metric}{end}{sign}{bound!r}"
    )
    assert (rule.slice, rule.model, rule.difference) == (part or "", model or "", paired)
    assert (rule.metric, f".{rule.end}" if rule.end else "") == (metric.partition(":")[0], end)
    assert rule.bound == bound
    assert rule.beyond(bound + 1, bound) is (">" in sign or "above" in sign) or bound + 1 == bound


@given(st.text("f1slice.difference<=> below0:", max_size=30))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    refused = ""
    try:
        gate.parse(text)
    except se.StreamevalError as error:
        refused = str(error)
    assert refused == "" or refused.startswith(f"--fail-if {text!r}")


def test_the_slice_of_a_rule_is_written_as_in_tables() -> None:
    key = (("city", "A, B=c"), ("n", 7))
    rule = gate.parse(f"slice.{slice_name(key)} f1 < 1")
    assert rule.covers(key)
    assert rule.fields == ("city", "n")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def commands(found: Any) -> list[str]:
    """The commands of a pipeline that are streameval's."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        return [command for one in found for command in commands(one)]
    return [found] if isinstance(found, str) and found.startswith("streameval ") else []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page gives and names."""
    (lines,) = re.findall(r"\$ cat predictions.jsonl\n((?:\{.*\n)*)", PAGE)
    for name in ("predictions", "old", "new"):
        (tmp_path / f"{name}.jsonl").write_text(lines)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="the page is written for a POSIX shell")
@pytest.mark.parametrize("block", blocks("yaml"), ids=["GitHub", "GitLab"])
def test_the_commands_of_a_pipeline_pass(run: Command, folder: Path, block: str) -> None:
    if "--report" in block:
        pytest.importorskip("matplotlib")
    (command,) = commands(yaml.safe_load(block))
    summary = folder / "summary.md"
    summary.touch()
    line = command.replace("streameval", shlex.join(COMMAND), 1)
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary)}
    done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True)
    assert (done.returncode, "failed: " in done.stderr) == (0, False), done.stderr
    assert "roc_auc" in done.stdout + summary.read_text()
    stricter_line = command.replace("< 0.", "< 1.").replace("--report report.html", "")
    _, *words = shlex.split(stricter_line.partition(" >>")[0])
    stricter = run(*words)
    assert (stricter.code, "failed: " in stricter.err) == (4, True)


def test_the_tests_of_the_page_pass_and_fail(folder: Path) -> None:
    (text,) = blocks("python")
    for name, threshold in (("model", "0.8"), ("better", "0.99")):
        (folder / f"test_{name}.py").write_text(text.replace("0.8", threshold))
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA"]
    done = subprocess.run([*words, "test_model.py", "test_better.py"], capture_output=True)
    found = re.findall(rb"^(FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    assert found == [(b"FAILED", b"test_better.py::test_ranking")]
    assert done.stdout.count(b"PASSED test_model.py::") == text.count("def test_")
