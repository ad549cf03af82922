"""The built site: what search finds first, how long pages are, what the copy button copies."""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._driver import compute_driver_executable

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"

pytestmark = pytest.mark.skipif(
    not SITE.exists(), reason="NOT TESTED: build the site first, as `make docs` does"
)

MEANT = {
    "accuracy": "reference/metrics/accuracy/",
    "alert": "run/",
    "auc": "reference/metrics/roc_auc/",
    "backup": "run-store/",
    "bootstrap": "reference/python/Bootstrap/",
    "brier score": "reference/metrics/brier_score/",
    "compare models": "comparing/",
    "confidence interval": "intervals/",
    "csv": "reading-files/",
    "dead letter queue": "kafka/",
    "docker": "operations/",
    "drift of labels": "drift/",
    "evaluator": "reference/python/Evaluator/",
    "exit code": "compatibility/",
    "f1": "reference/metrics/f1/",
    "glossary": "glossary/",
    "http api": "serving/",
    "install": "start/",
    "jupyter": "start/",
    "kafka": "kafka/",
    "late labels": "run-join/",
    "log loss": "reference/metrics/log_loss/",
    "merge": "saved-states/",
    "nan": "definitions/",
    "nannyml": "coming-from/nannyml/",
    "pandas": "tables/",
    "parquet": "reading-files/",
    "pip install": "start/",
    "plot": "displays/",
    "pr_auc": "reference/metrics/average_precision/",
    "prometheus": "serving/",
    "river": "coming-from/river/",
    "s3": "reading-files/",
    "sample_weight": "scikit-learn/",
    "slices": "windows/",
    "sliding window": "windows/",
    "spark": "spark/",
    "threshold": "definitions-scores/",
    "torchmetrics": "coming-from/torchmetrics/",
    "watermark": "glossary/",
    "weights": "windows/",
}
"""Query -> the page that its first hit is on."""

INTERNAL = re.compile(r"(changelog|contributing|design|native|state-(format|contents))")


@pytest.fixture(scope="module")
def index() -> list[dict[str, Any]]:
    text = (SITE / "search" / "search_index.json").read_text("utf-8")
    found: list[dict[str, Any]] = json.loads(text)["docs"]
    return found


@pytest.fixture(scope="module")
def hits() -> dict[str, list[str]]:
    node, _ = compute_driver_executable()  # Playwright brings it
    done = subprocess.run(
        [node, str(ROOT / "tests" / "support" / "search_site.js"), str(SITE)],
        input=json.dumps(sorted(MEANT)),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_the_first_hit_is_what_was_meant(hits: dict[str, list[str]]) -> None:
    first = {query: found[0].partition("#")[0] if found else "" for query, found in hits.items()}
    assert first == MEANT


def test_internals_come_last(hits: dict[str, list[str]]) -> None:
    early = {
        query: found[:3] for query, found in hits.items() if any(map(INTERNAL.match, found[:3]))
    }
    assert {query for query, found in early.items() if len(hits[query]) > 6} == set()


def test_no_page_is_longer_than_3000_words(index: list[dict[str, Any]]) -> None:
    words: Counter[str] = Counter()
    for part in index:
        page = part["location"].partition("#")[0]
        words[page] += len(re.sub(r"<[^>]+>", " ", part["text"]).split())
    del words["changelog/"]
    assert {page: count for page, count in words.items() if count > 3000} == {}


def test_the_copy_button_copies_what_can_be_run() -> None:
    sessions = 0
    for page in SITE.rglob("index.html"):
        text = page.read_text("utf-8")
        for attribute, block in re.findall(
            r'<div class="[\w -]*highlight"( data-copy="[^"]*")?><pre>(.*?)</pre></div>', text, re.S
        ):
            shown = html.unescape(re.sub(r"<[^>]+>", "", block))
            copied = html.unescape(attribute)[12:-1] if attribute else shown
            sessions += bool(attribute)
            assert not re.search(r"^(>>> |\$ )", copied, re.MULTILINE), (page, shown)
    assert sessions > 200
