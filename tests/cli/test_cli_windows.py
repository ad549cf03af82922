"""Windows, slices, series and pictures on the command line equal the evaluator's."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import streameval as se
from streameval.records import record_counter
from streameval.state_files.codec import decompressed
from tests.cli.test_cli_evaluate import (
    SCORE,
    TIMED,
    Events,
    stream,
    write_jsonl,
    write_parquet,
    written,
)
from tests.cli.test_cli_evaluate import evaluated as one_by_one
from tests.support.command_runs import Command

# That each option of a window is the evaluator's to the bit: tests/cli/test_cli_evaluate.py. Its
# texts: tests/golden/option_errors.json. Bad times and slices: tests/golden/bad_records.json.
FIELDS = ("--y-true", "label", "--score", "score")
TIME = ("--time", "at")
SLICES = ("--slice", "country,country+model")
DIMENSIONS: Any = ("country", ("country", "model"))


def evaluated(events: Events, **setup: Any) -> se.Evaluator:
    fields = SCORE if setup.get("window") is None else TIMED
    return one_by_one(events, fields, positive=1, **setup)


def test_batches_of_any_size_keep_the_order_of_the_stream(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = stream(late=0.3)
    paths = [
        write_jsonl(tmp_path / f"{n}.jsonl", events[n * 100 : n * 100 + 100]) for n in (0, 1, 2)
    ]
    monkeypatch.setattr(record_counter, "BATCH_ROWS", 7)
    for text, window in (
        ("last:50", se.Last(50)),
        ("panes:2h/10m,lateness=30m,retain=1d", se.Panes("2h", "10m", "30m", "1d")),
        ("fading:1h", se.Fading("1h")),
    ):
        fields, time = (SCORE, ()) if text == "last:50" else (TIMED, TIME)
        state = tmp_path / "state"
        options = (*FIELDS, *time, "--window", text, *SLICES, "--max-slices", "5")
        assert run("evaluate", *paths, *options, "--save", state).code == 0
        expected = one_by_one(events, fields, window=window, slices=DIMENSIONS, max_slices=5)
        assert expected.slices_overflowed > 0
        assert decompressed(state.read_bytes()) == expected.to_bytes()


@pytest.mark.parametrize(
    ("declared", "ending"), [("ms", "jsonl"), ("us", "csv"), ("ns", "parquet")]
)
def test_a_wrong_unit_of_times_is_refused(
    run: Command, tmp_path: Path, ending: str, declared: str
) -> None:
    numbers: list[dict[str, Any]] = [
        {**event, "at": int(datetime.fromisoformat(event["at"]).timestamp()) + 1}
        for event in stream(60)
    ]
    numbers[0]["at"] = 0  # how some writers say that there is no time
    path = written(tmp_path / f"a.{ending}", numbers)
    options = (*TIME, "--time-unit", declared, "--window", "panes:10m", "--on-bad", "skip")
    result = run("evaluate", path, *FIELDS, *options, "--save", tmp_path / "state")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("streameval: --time-unit: expected the unit of the times in 'at'")
    assert result.err.endswith("in s it is a time of 2026-03-01: declare that unit\n")
    assert not (tmp_path / "state").exists()


def test_one_slice_from_every_kind_of_file(run: Command, tmp_path: Path) -> None:
    events = [
        {"y_true": y, "p": 1, "v": v}
        for y, v in [(1, "7"), (0, "7b"), (1, None), (0, "07"), (1, "")]
    ]
    write_jsonl(tmp_path / "text.jsonl", events)
    csv = ["y_true,p,v", *(f"{e['y_true']},1,{e['v'] or ''}" for e in events)]
    (tmp_path / "a.csv").write_text("\n".join(csv) + "\n")
    write_jsonl(tmp_path / "numbers.jsonl", [{"y_true": 1, "p": 1, "v": 7}, {"y_true": 1, "p": 1}])
    with (tmp_path / "numbers.jsonl").open("a") as file:
        file.write('{"y_true": 1, "p": 1, "v": NaN}\n')
    write_parquet(tmp_path / "text.parquet", events)
    write_parquet(
        tmp_path / "numbers.parquet",
        [{"y_true": 1, "p": 1, "v": 7}, {"y_true": 1, "p": 1, "v": None}],
    )
    names = ["text.jsonl", "a.csv", "numbers.jsonl", "text.parquet", "numbers.parquet"]
    paths = [tmp_path / name for name in names]
    result = run("evaluate", *paths, "--y-pred", "p", "--slice", "v", "--format", "json")
    found = json.loads(result.out)
    # An empty cell of CSV has no value; an empty text of JSON and Parquet is one.
    assert [(row["slice"]["v"], row["support"]) for row in sorted(
        found["slices"]["slices"], key=lambda row: str(row["slice"]["v"])
    )] == [("", 2), ("(missing)", 7), ("07", 3), (7, 5), ("7b", 3)]  # fmt: skip
    without = json.loads(run("evaluate", *paths, "--y-pred", "p", "--format", "json").out)
    assert found["metrics"] == without["metrics"]


def test_a_nested_slice_may_be_missing_with_the_object_around_it(
    run: Command, tmp_path: Path
) -> None:
    metas: list[Any] = [{"meta": {"country": "PT"}}, {"meta": {"country": 7}}, {}]
    metas += [{"meta": meta} for meta in (None, {}, {"country": None}, {"country": True})]
    events = [{"y_true": 1, "p": number % 2, **meta} for number, meta in enumerate(metas)]
    path = write_jsonl(tmp_path / "a.jsonl", events)
    words = ("--y-pred", "p", "--slice", "meta.country,contry,p", "--by", "accuracy")
    result = run("evaluate", path, *words, "--format", "json")
    slices = json.loads(result.out)["slices"]
    assert slices["metric"] == "accuracy"
    assert {json.dumps(row["slice"]): row["value"] for row in slices["slices"]} == {
        '{"meta.country": "PT"}': 0.0,
        '{"meta.country": 7}': 1.0,
        '{"meta.country": 1}': 0.0,
        '{"meta.country": "(missing)"}': 0.5,
        '{"contry": "(missing)"}': 3 / 7,
        '{"p": 0}': 0.0,
        '{"p": 1}': 1.0,
    }
    assert result.err == (
        "streameval: --slice contry: no record has a value there, so all are in contry=(missing)\n"
    )


PANES = (*FIELDS, *TIME, "--window", "panes:5h/1h,lateness=10m,retain=6h")


def test_json_has_the_window_arrivals_series_and_slices(run: Command, tmp_path: Path) -> None:
    """Tables of them are in docs/command-line.md."""
    events = stream(late=0.3)
    path = write_jsonl(tmp_path / "a.jsonl", events)
    # One metric is all that is reported, so the slices are compared by it.
    fbeta = ("--metrics", "fbeta:beta=2")
    named = ("--series", "accuracy", "--worst", "2", *fbeta, "--max-slices", "5")
    window = se.Panes("5h", pane="1h", lateness="10m", retain="6h")
    ev = evaluated(events, window=window, slices=DIMENSIONS, max_slices=5)
    values = json.loads(run("evaluate", path, *PANES, *SLICES, *named, "--format", "json").out)
    assert values["window"] == ev.report().to_dict()["window"]
    assert values["arrivals"] == ev.arrivals
    assert min(ev.arrivals.values()) > 0
    worst = ev.slice_report(("fbeta", {"beta": 2}), worst=2)
    state = tmp_path / "a.state"
    for command in (
        ("evaluate", path, *PANES, *SLICES, *named, "--save", state),
        ("report", state, *fbeta, "--slice", "country"),
    ):
        assert "\nslices by fbeta:beta=2, worst first\n" in run(*command).out
    assert values["slices"] == json.loads(json.dumps(worst.to_dict()))
    assert values["slices_overflowed"] == ev.slices_overflowed > 0
    assert values["series"]["metric"] == "accuracy"
    assert [
        (one["start"], one["end"], one["value"], one["support"])
        for one in values["series"]["panes"]
    ] == [
        (row.start, row.end, row.value if row.support else None, row.support)
        for row in ev.series("accuracy")
    ]


def test_fairness_between_the_groups_of_a_slice(run: Command, tmp_path: Path) -> None:
    """Tables and CSV of it are in docs/fairness.md."""
    events = stream()
    path, state = write_jsonl(tmp_path / "a.jsonl", events), str(tmp_path / "a.state")
    ev = evaluated(events, slices=DIMENSIONS, metrics=["f1", "accuracy"])
    chosen = ("--fairness", "model+country", "--intervals", "0.9")
    command = ("evaluate", path, *FIELDS, *SLICES, "--metrics", "f1", "--save", state, *chosen)
    assert "\nfairness between 8 groups by country+model\n" in run(*command).out
    values = json.loads(run("report", state, *chosen, "--format", "json").out)["fairness"]
    report = ev.fairness(("country", "model"), level=0.9)
    assert values == {"country+model": json.loads(report.to_json())}
    large = ("--fairness", "country", "--min-support", "1", "--format", "html")
    heading = "<h2>Fairness between 4 groups by country</h2>"
    assert heading in run("report", state, *large).out
    wrong = run("report", state, "--fairness", "models")
    assert wrong.code == 2
    assert "slices that are kept: country, country+model, got 'models'" in wrong.err
    labels = ("--y-true", "country", "--y-pred", "country", "--slice", "model")
    named = run("evaluate", path, *labels, "--fairness", "model:label=PT")
    assert "predictive_equality_ratio" in named.out


def test_a_table_of_very_many_slices_is_cut_and_says_so(run: Command, tmp_path: Path) -> None:
    events = [{"y_true": n % 2, "p": 1, "user": f"u{n % 50}"} for n in range(500)]
    path = write_jsonl(tmp_path / "a.jsonl", events)
    options = ("--y-pred", "p", "--positive", "1", "--slice", "user")
    out = run("evaluate", path, *options).out
    assert out.count("user=u") == 20
    assert out.endswith("\n30 more slices: --worst N or --format json shows them\n")
    assert run("evaluate", path, *options, "--worst", "40").out.count("user=u") == 40
    every = json.loads(run("evaluate", path, *options, "--format", "json").out)
    assert len(every["slices"]["slices"]) == 50
    full = run("evaluate", path, *options, "--max-slices", "10").out
    assert full.endswith(
        "\n400 times an event went into a slice (other), as the limit was reached: --max-slices\n"
    )


def test_fading_shows_slices_of_any_support_and_what_came_too_late(
    run: Command, tmp_path: Path
) -> None:
    events = stream(100, late=0)
    events = [{**event, "country": "PT" if n else "DE"} for n, event in enumerate(events)]
    path = write_jsonl(tmp_path / "a.jsonl", [*events, {**events[0], "at": "2020-01-01T00:00Z"}])
    options = (*FIELDS, *TIME, "--window", "fading:10m", "--slice", "country")
    shown = run("evaluate", path, *options).out
    assert "\n\narrivals: 1 too late to have any weight\n\n" in shown
    assert "\ncountry=DE" in shown
    assert "country=DE" not in run("evaluate", path, *options, "--min-support", "1").out


def test_saved_states_show_what_evaluate_showed(run: Command, tmp_path: Path) -> None:
    path, state = write_jsonl(tmp_path / "a.jsonl", stream()), tmp_path / "a.state"
    # Metrics of series and slices are kept beside those of the report.
    shown = ("--series", "f1", "--worst", "3", "--min-support", "8", "--by", "recall")
    shown = (*shown, "--metrics", "roc_auc")
    whole = run("evaluate", path, *PANES, *SLICES, *shown, "--save", state)
    assert whole.code == 0
    for command in ("report", "merge"):
        assert run(command, state, *shown) == whole._replace(err="")

    def slices(*options: str) -> Any:
        return json.loads(run("report", state, "--format", "json", *options).out)["slices"]

    one = slices("--slice", "country")
    assert {tuple(row["slice"]) for row in one["slices"]} == {("country",)}
    assert one["below_support"] == 0
    some = slices("--slice", "country", "--min-support", "70")
    assert len(some["slices"]) + some["below_support"] == 4
    assert some["below_support"] > 0
    assert slices(*SLICES) == slices()


def test_states_that_do_not_have_what_is_requested(run: Command, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", stream())
    plain, sliced = tmp_path / "plain", tmp_path / "sliced"
    run("evaluate", path, *FIELDS, "--save", plain)
    run("evaluate", path, *FIELDS, *SLICES, "--metrics", "f1", "--save", sliced)
    for options, message in (
        ((plain, "--series", "f1"), "--series: expected a state of a window of panes, got another"),
        (
            (sliced, "--slice", "model"),
            "expected slices of this state: country, country+model, got",
        ),
        ((plain, "--slice", "model"), "--slice: expected a state with slices, got one without"),
        ((plain, "--worst", "3"), "--worst: expected a state with slices, got one without"),
        ((sliced, "--by", "roc_auc"), "roc_auc is not kept"),
        ((plain, "--plot", "series.png"), "--plot series.png requires --series"),
    ):
        result = run("report" if sliced in options else "merge", *options)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
        assert result.err.count("\n") == 1


# Formats and refusals of pictures: tests/cli/test_cli_results.py.
def test_plots(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    displays = pytest.importorskip("streameval.plots.display")
    path, state = write_jsonl(tmp_path / "a.jsonl", stream()), tmp_path / "a.state"
    options = ("--series", "f1", "--plot", tmp_path / "p.svg")
    result = run("evaluate", path, *PANES, "--save", state, *options)
    assert (result.code, result.err) == (0, "")
    assert options[-1].read_bytes().startswith(b"<?xml")
    options[-1].unlink()
    assert run("merge", state, *options) == result
    assert options[-1].exists()
    refused = run("report", state, *options[:-1], tmp_path / "no" / "a.png")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "a.png: cannot be written: there is no directory" in refused.err

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    # At the last moment it does not cost the report.
    monkeypatch.setattr(displays, "save_figure", full)
    failed = run("report", state, *options)
    assert (failed.code, failed.out) == (1, result.out)
    assert failed.err == f"streameval: {options[-1]}: cannot be written: No space left on device\n"


@pytest.mark.parametrize("command", ["evaluate", "report", "merge"])
def test_panes_that_a_series_lacks_are_reported(run: Command, tmp_path: Path, command: str) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{**event, "n": 3} for event in stream()])
    state, series = tmp_path / "state", ("--series", "f1")
    given = (path, *FIELDS, *TIME, "--weight", "n", "--window")
    assert run("evaluate", *given, "panes:10m", *series).err == ""
    window = (*given, "panes:10m,retain=20m", "--save", state)
    result = run("evaluate", *window, *series * (command == "evaluate"))
    if command != "evaluate":
        assert result.err == ""
        result = run(command, state, *series)
    since = se.load(state).retained["since"]
    assert result.err == (
        f"streameval: --series: panes before {since} are not kept; evaluate with a longer "
        "retain= in --window to keep them\n"
    )
    assert result.code == 0


# Tables of intervals: docs/command-line.md.
def test_slices_series_states_and_json_have_intervals(run: Command, tmp_path: Path) -> None:
    path, state = write_jsonl(tmp_path / "a.jsonl", stream()), tmp_path / "a.state"
    options = (*SLICES, "--by", "accuracy", "--metrics", "accuracy", "--series", "f1")
    command = ("evaluate", path, *PANES, *options, "--intervals", "0.9")
    values = json.loads(run(*command, "--format", "json").out)
    panes = values["series"]["panes"]
    ends = {"low", "high", "method", "n"}
    for row in (values["metrics"]["accuracy"], *values["slices"]["slices"], *panes):
        assert set(row["interval"]) == ends
    assert (len(panes), panes[0]["interval"]["method"]) == (5, "delta")
    assert run(*command).out.count("low") == 3
    assert run(*command, "--format", "markdown").out.count("| low | high | interval |") == 3

    anytime = ("--intervals", "0.95", "--anytime", "--metrics", "recall,f1", "--format", "json")
    result = run("evaluate", path, *FIELDS, *anytime, "--save", state)
    recall = evaluated(stream()).interval("recall", method="anytime")
    assert json.loads(result.out)["metrics"]["recall"]["interval"] == recall.to_dict()
    for saved in ("report", "merge"):
        assert run(saved, state, *anytime).out == result.out
    run("evaluate", path, *FIELDS, "--window", "last:5", "--save", state)
    refused = run("report", state, *anytime)
    assert (refused.code, refused.out) == (2, "")
    assert "--anytime: expected a state of all events, got one of a window: last" in refused.err
