"""Tables of events, how to evaluate them, and the evaluator of all their events at once.

What carries a table, and into which parts it is cut, must not change a bit of the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

import streameval as se
from tests.support import carried_events

Columns = dict[str, list[Any]]
SHARES = {"ant": "p_ant", "bee": "p_bee", "cow": "p_cow"}


@dataclass(frozen=True)
class Case:
    """One table, and the keywords of the call that evaluates it."""

    name: str
    columns: Columns
    keywords: dict[str, Any]

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def expected(self) -> se.Evaluator:
        """One evaluator of all events, in the order of their times where they have some."""
        call, columns = self.keywords, self.columns
        several = call.get("proba", "p") != "p" and call["proba"] != "shares"
        rows: Any = range(self.rows)
        if "time" in call:
            rows = sorted(rows, key=columns[call["time"]].__getitem__)
        case = carried_events.Case(
            self.part(rows),
            call,
            {"task": "multiclass"} if call["y_true"] == "animal" else {},
            shares=SHARES if several else {},
            flags={name: f"is_{name}" for name in SHARES} if call["y_true"] == "is_*" else {},
        )
        return se.from_bytes(case.state())

    def part(self, rows: list[int]) -> Columns:
        """These rows of the table."""
        return {name: [values[row] for row in rows] for name, values in self.columns.items()}

    def records(self, rows: list[int]) -> list[dict[str, Any]]:
        """These rows as dicts."""
        return [{name: values[row] for name, values in self.columns.items()} for row in rows]


def cases(rows: int = 600, seed: int = 0) -> list[Case]:
    """One case of each way to name columns, and of each option that changes what is kept."""
    rng = np.random.default_rng(seed)
    # Sorted, so that some parts hold one class only.
    spam = np.sort(rng.choice(["ham", "spam"], rows)).tolist()
    scores = rng.integers(0, 200, rows) / 200
    shares = rng.dirichlet([1, 1, 1], rows)
    animals = np.sort(rng.choice(["ant", "bee", "cow"], rows)).tolist()
    minutes = rng.permutation(rows) * 61
    start = datetime(2026, 1, 1, tzinfo=UTC)
    columns: Columns = {
        "label": spam,
        "p": scores.tolist(),
        "guess": rng.choice(["ham", "spam"], rows).tolist(),
        "w": rng.integers(1, 9, rows).tolist(),
        "country": rng.choice(["PT", "ES", None], rows).tolist(),
        "model": rng.integers(1, 4, rows).tolist(),
        "user": [f"u{n}" for n in rng.integers(0, 40, rows)],
        "animal": animals,
        "animal_guess": rng.choice(["ant", "bee", "cow"], rows).tolist(),
        "p_ant": shares[:, 0].tolist(),
        "p_bee": shares[:, 1].tolist(),
        "p_cow": shares[:, 2].tolist(),
        "shares": shares.tolist(),
        "tags": [[["ant", "cow"], [], ["bee"]][n] for n in rng.integers(0, 3, rows)],
        **{f"is_{name}": rng.integers(0, 2, rows).tolist() for name in SHARES},
        "when": [start + timedelta(minutes=int(n)) for n in minutes],
        "seconds": (1_700_000_000 + minutes * 60).tolist(),
        "distinct": rng.random(rows).tolist(),
        "day": [None if n % 7 == 0 else start.date() + timedelta(n % 3) for n in range(rows)],
    }
    label: dict[str, Any] = {"y_true": "label", "positive": "spam"}
    binary = label | {"score": "p"}
    animal = {"y_true": "animal"}
    known = animal | {"task": "multiclass", "labels": list(SHARES)}
    replicates = se.Bootstrap(replicates=20, unit="user")
    keywords: dict[str, dict[str, Any]] = {
        "scores": binary,
        "weights and slices": binary | {"weight": "w", "by": ["country", ("country", "model")]},
        "slices of dates": binary | {"by": "day"},
        "predicted labels": label | {"y_pred": "guess"},
        "binary probabilities": label | {"proba": "p"},
        "several classes": animal | {"y_pred": "animal_guess"},
        "a column a label": animal | {"proba": SHARES},
        "a prefix": animal | {"proba": "p_*"},
        "columns in order": known | {"proba": list(SHARES.values())},
        "lists": known | {"proba": "shares"},
        "panes": binary | {"time": "when", "window": se.Panes("2d", pane="6h")},
        "panes of numbers, by slice": binary
        | {"time": "seconds", "time_unit": "s", "window": se.Panes("3d"), "by": ["model"]},
        "fading": binary | {"time": "when", "window": se.Fading("12h")},
        "bounded scores and intervals": label
        | {"score": "distinct", "max_scores": 1024, "intervals": True},
        "replicates": binary | {"unit": "user", "bootstrap": replicates},
        "numbers": {"y_true": "p", "y_pred": "distinct", "task": "regression", "by": "model"},
        "label sets": {"y_true": "tags", "y_pred": "tags", "task": "multilabel"},
        "columns of label sets": {"y_true": "is_*", "proba": SHARES, "task": "multilabel"},
        "metrics of labels": binary | {"metrics": ["f1", "accuracy"]},
    }

    def used(name: str, given: dict[str, Any]) -> bool:
        """Whether a call names a column, or the shares that are expected of it."""
        shared = given.get("proba", "p") != "p" and name in SHARES.values()
        shared |= given["y_true"] == "is_*" and name.startswith("is_")
        keys = ("y_true", "y_pred", "score", "proba", "weight", "unit", "time", "by")
        return shared or repr(name) in repr([given.get(key) for key in keys])

    return [
        Case(name, {key: column for key, column in columns.items() if used(key, given)}, given)
        for name, given in keywords.items()
    ]
