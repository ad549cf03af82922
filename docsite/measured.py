"""The measured ratios of the README and of the comparison, from benchmarks/results.json."""

from __future__ import annotations

import json
from typing import Any

from docsite.markdown import table
from docsite.reference import ROOT

_ROWS = [
    (
        "Arrays at once",
        "update_many of 10,000,000",
        "scikit-learn",
        "10 million labels and scores: accuracy, F1, MCC, kappa, AUC",
    ),
    (
        "Tables",
        "evaluate() of a pandas table",
        "scikit-learn",
        "a pandas table of 2 million rows: accuracy, F1, AUC, log loss",
    ),
    (
        "One event at a time",
        "AUC after every event, 1,000,000 distinct scores (native)",
        "River",
        "AUC after every event, a million distinct scores",
    ),
    (
        "One event at a time",
        "evaluator with scores, five metrics",
        "River",
        "five metrics read after every event",
    ),
    (
        "One event at a time",
        "six label metrics read after every event, 1,000 classes",
        "River",
        "six metrics of 1,000 classes read after every event",
    ),
    (
        "Windows",
        "AUC of the last 1,000 after every event (native)",
        "River",
        "AUC of the last 1,000 after every event",
    ),
    (
        "Windows",
        "AUC of the last 100,000 after every event (native)",
        "River",
        "AUC of the last 100,000 after every event",
    ),
    (
        "Every public path",
        "Fading(10,000): score, and AUC",
        "River",
        "AUC of a fading window after every event",
    ),
    (
        "Every public path",
        "probabilities of 1,000 classes, 2,000 rows: update_many, log loss",
        "scikit-learn",
        "2,000 rows of 1,000 probabilities: log loss, one-vs-rest AUC",
    ),
]
"""Section, beginning of a row's name, peer, and what it is in words."""


def measured_rows() -> list[tuple[str, dict[str, Any]]]:
    """The rows in words, with their measurement; raises LookupError where one is missing."""
    data = json.loads((ROOT / "benchmarks" / "results.json").read_text("utf-8"))
    found = []
    for section, name, peer, words in _ROWS:
        rows = [
            row
            for row in data["sections"][section]
            if row["name"].startswith(name) and row["peer_name"].startswith(peer)
        ]
        if len(rows) != 1:
            raise LookupError(f"benchmarks/results.json: {section}: {len(rows)} rows of {name!r}")
        found.append((words, rows[0]))
    return found


def _shown(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def measured() -> str:
    """The table."""
    rows = []
    for words, row in measured_rows():
        peer = row["peer_name"].split(",")[0].split(" ")[0].rstrip(":")
        unit = row["unit"].replace(" an event", "")
        note = "" if row["peer_exact"] == "exact" else f" ({row['peer_exact']})"
        note = note.replace("all but AUC, which has ", "").replace(
            ": 0.500 where 0.895 is true", ", not exact"
        )
        rows.append(
            [
                words,
                _shown(row["ours"], unit),
                f"{peer} {_shown(row['peer'], unit)}{note}",
                _shown(row["ratio"], "×"),
            ]
        )
    return table(["what", "streameval", "peer", "ratio"], rows)
