"""The metrics for Prometheus, and the rules and the dashboard made of them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import streameval
from streameval.service.http.prometheus import label_text
from tests.support.published_sample import HOSTILE, published_data
from tests.support.serve_runs import Running, serving

SERVE = Path(streameval.__file__).parent / "service" / "http"
DOCS = Path(__file__).parents[2] / "docs" / "serving.md"

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(
        published_data(slices=300, models=2, predictions=True), max_slices_exposed=50
    ) as it:
        yield it


def scrape(running: Running) -> str:
    response = running.client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return response.text


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation
        assert family.type in ("counter", "gauge"), family.name
        for sample in family.samples:
            series = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in series, f"{sample.name}{labels} twice"
            series[labels] = sample.value
    return found


def one(samples: Samples, name: str, **labels: str) -> float:
    return samples[name][tuple(sorted(labels.items()))]


def promtool(*arguments: str, text: str | None = None) -> None:
    """Run promtool, which must report nothing."""
    beside = Path(sys.executable).parent / "promtool"
    found = str(beside) if beside.exists() else shutil.which("promtool")
    if found is None:
        pytest.skip(
            "NOT TESTED: promtool is not installed (apt-get install prometheus, or run make test, "
            "which fetches it)"
        )
    done = subprocess.run(
        [found, *arguments], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize("classes", [2, 30])
def test_promtool_has_nothing_to_say(classes: int) -> None:
    data = published_data(classes=classes, models=2, predictions=True)
    # Equal names do not void a scrape.
    data |= {key: data[key] * 2 for key in ("alerts", "partitions")}
    for shown in (data, None):
        with serving(shown, published=shown is not None) as running:
            promtool("check", "metrics", text=scrape(running))
            parsed(scrape(running))


def test_the_values_are_the_snapshots(running: Running) -> None:
    samples = parsed(scrape(running))
    data = msgspec.to_builtins(running.publisher.current())
    for window in data["windows"]:
        name = window["name"]
        for metric, row in data["reports"][name]["metrics"].items():
            labels = {"metric": metric, "window": name, "slice": "total"}
            if row["value"] is None:
                assert tuple(sorted(labels.items())) not in samples["streameval_metric"]
                assert one(samples, "streameval_undefined", **labels) == 1
            else:
                assert one(samples, "streameval_metric", **labels) == row["value"]
            for side in ("low", "high"):
                found = samples[f"streameval_metric_{side}"]
                assert found.get(tuple(sorted(labels.items()))) == row.get(side)
        assert one(samples, "streameval_support", window=name, slice="total") == 40_001
    # All others are as they were in two runs: tests/service/test_frozen_run.py.


def test_what_predictions_say(running: Running) -> None:
    samples = parsed(scrape(running))
    data = msgspec.to_builtins(running.publisher.current())
    assert data["predictions"].keys() == {"all", "1h", "recent"}
    for window, report in data["predictions"].items():
        at = {"window": window}
        assert one(samples, "streameval_predictions", **at) == report["events"]
        assert one(samples, "streameval_predictions_unlabelled", **at) == report["unlabelled"]
        wanted: dict[tuple[str, str], float | None] = {}
        for family, field in (("prediction_metric", "metrics"), ("expected_metric", "expected")):
            for name, row in report[field].items():
                ends = (("", "value"), ("_low", "low"), ("_high", "high"))
                wanted |= {(family + end, name): row.get(key) for end, key in ends}
        for name, row in report["drift"].items():
            wanted |= {("drift", name): row["value"], ("drift_p_value", name): row.get("p_value")}
        for name, row in report["checks"].items():
            wanted["expected_metric_failed", name] = row["flagged"]
        assert len(wanted) == (18 if window == "1h" else 6)
        for (family, name), value in wanted.items():
            label = "measure" if family.startswith("drift") else "metric"
            labels = tuple(sorted({label: name, **at}.items()))
            assert samples[f"streameval_{family}"].get(labels) == value, (family, name)


def test_slices_are_capped_by_support(running: Running) -> None:
    samples = parsed(scrape(running))
    data = msgspec.to_builtins(running.publisher.current())
    for window, rows in data["slices"].items():
        largest = sorted((row["support"] for row in rows), reverse=True)[:50]
        shown = [
            value
            for labels, value in samples["streameval_support"].items()
            if ("window", window) in labels and ("slice", "total") not in labels
        ]
        assert sorted(shown, reverse=True) == largest
        assert one(samples, "streameval_slices_left_out", window=window) == 250
    assert not any(value != value for series in samples.values() for value in series.values())


def test_many_reasons_are_bounded_and_there_may_be_no_slices() -> None:
    data = published_data(slices=0, join=False)
    data["quarantine"]["reasons"] = {f"reason {number}": number for number in range(500)}
    with serving(data) as running:
        samples = parsed(scrape(running))
    series = samples["streameval_quarantined_total"]
    assert (len(series), sum(series.values())) == (51, sum(range(500)))
    assert one(samples, "streameval_slices_left_out", window="all") == 0
    assert not any(name.startswith("streameval_join") for name in samples)


def test_hostile_names_are_labels_and_nothing_else() -> None:
    with serving(published_data(slices=len(HOSTILE), classes=2)) as running:
        text = scrape(running)
        samples = parsed(text)
    assert not any("fake" in name for name in samples)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\u2028]", text)
    names = {dict(labels)["slice"] for labels in samples["streameval_support"]}
    # Every slice has a series of its own, also those that differ in character 5,000 only.
    assert len(names) == len(HOSTILE) + 1
    assert max(map(len, names)) <= 130
    # A series keeps its label from release to release.
    assert [label_text(name) for name in ("a=PT", "a\nb")] == ["a=PT", "a\ufffdb #7e18f737"]


@settings(max_examples=200)
@given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=200))
def test_label_texts_are_safe_and_stay_apart(one: str, other: str) -> None:
    safe = label_text(one)
    assert len(safe) <= 130
    assert safe.isprintable() or "\N{NO-BREAK SPACE}" in safe or not safe.isascii()
    safe.encode()
    assert (safe == label_text(other)) == (one == other)


def test_scrapes_within_a_second_share_a_text() -> None:
    with serving() as running:
        first = scrape(running)
        running.clock.now += 0.5
        assert scrape(running) == first
        running.clock.now += 0.6
        assert one(parsed(scrape(running)), "streameval_checkpoint_age_seconds") > 6
        sequence = int(one(parsed(scrape(running)), "streameval_published_sequence"))
        running.publisher.publish(published_data(sequence=sequence + 1))
        assert one(parsed(scrape(running)), "streameval_published_sequence") == sequence + 1


def series_names(text: str) -> set[str]:
    return set(re.findall(r"\bstreameval_[a-z0-9_]+", text))


def test_rules_and_dashboard_ask_for_what_there_is(running: Running, tmp_path: Path) -> None:
    there = set(parsed(scrape(running)))
    text = (SERVE / "prometheus_rules.yml").read_text(encoding="utf-8")
    assert series_names(re.sub(r"#.*", "", text)) <= there
    promtool("check", "rules", str(SERVE / "prometheus_rules.yml"))
    promtool("test", "rules", str(Path(__file__).with_name("prometheus_rules_test.yml")))
    dashboard = json.loads((SERVE / "grafana_dashboard.json").read_text(encoding="utf-8"))
    listed = [variable.get("definition", "") for variable in dashboard["templating"]["list"]]
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    assert series_names(" ".join(asked + listed)) <= there
    assert len(series_names(" ".join(asked))) > 15
    # Variables filled in, every query passes as a recording rule.
    rules = ["groups:", "- name: panels", "  rules:"]
    for number, query in enumerate(asked):
        filled = re.sub(r"\$(instance|window|metric|slice)", "x", query)
        filled = filled.replace("$__rate_interval", "5m")
        assert "$" not in filled
        rules += [f"  - record: panel:{number}", f"    expr: {json.dumps(filled)}"]
    (tmp_path / "rules.yml").write_text("\n".join(rules))
    promtool("check", "rules", str(tmp_path / "rules.yml"))


def test_every_series_is_in_the_document(running: Running) -> None:
    documented = series_names(DOCS.read_text(encoding="utf-8"))
    assert documented == set(parsed(scrape(running)))
