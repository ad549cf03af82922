"""Tables of events, how to evaluate them, and the evaluator of all their events at once.

What carries a table, and into which parts it is cut, must not change a bit of the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

import streameval as se

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Case:
    """One table.

    Args:
        name: Of the test.
        columns: The table, as lists.
        keywords: Of the call that evaluates it.
        options: Of the evaluator that is expected.
        given: The expected evaluator's arguments, from their names to columns.
        slices: The columns that it is sliced by.
    """

    name: str
    columns: Columns
    keywords: dict[str, Any]
    options: dict[str, Any]
    given: dict[str, Any]
    slices: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def expected(self) -> se.Evaluator:
        """One evaluator of all events, in the order of their times where they have some."""
        rows = range(self.rows)
        if "event_time" in self.given:
            times = self.columns[self.given["event_time"]]
            rows = sorted(rows, key=times.__getitem__)

        def column(path: Any) -> Any:
            if isinstance(path, dict):
                return {label: column(inner) for label, inner in path.items()}
            return [self.columns[path][row] for row in rows]

        evaluator = se.Evaluator(**self.options)
        arguments = {name: column(path) for name, path in self.given.items()}
        if self.slices:
            arguments["slices"] = {name: column(name) for name in self.slices}
        evaluator.update_many(**arguments)
        return evaluator

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
        "when": [start + timedelta(minutes=int(n)) for n in minutes],
        "seconds": (1_700_000_000 + minutes * 60).tolist(),
        "distinct": rng.random(rows).tolist(),
        "day": [None if n % 7 == 0 else start.date() + timedelta(n % 3) for n in range(rows)],
    }
    names = {"ant": "p_ant", "bee": "p_bee", "cow": "p_cow"}
    spam_options: dict[str, Any] = {"positive": "spam"}
    several = {"task": "multiclass"}
    known = {**several, "labels": ["ant", "bee", "cow"]}
    binary = {"y_true": "label", "score": "p"}
    animal = {"y_true": "animal"}

    def case(name: str, keywords: Any, options: Any, given: Any, slices: Any = ()) -> Case:
        used = {path for path in given.values() if isinstance(path, str)} | set(slices)
        used |= {
            path for group in given.values() if isinstance(group, dict) for path in group.values()
        }
        if isinstance(keywords.get("proba"), str) and not keywords["proba"].endswith("*"):
            used.add(keywords["proba"])
        table = {path: values for path, values in columns.items() if path in used}
        return Case(name, table, keywords, options, given, tuple(slices))

    return [
        case("scores", binary | spam_options, spam_options, binary),
        case(
            "weights and slices",
            binary | spam_options | {"weight": "w", "by": ["country", ("country", "model")]},
            spam_options | {"slices": ["country", ("country", "model")]},
            binary | {"weight": "w"},
            ("country", "model"),
        ),
        case(
            "slices of dates",
            binary | spam_options | {"by": "day"},
            spam_options | {"slices": ["day"]},
            binary,
            ("day",),
        ),
        case(
            "predicted labels",
            {"y_true": "label", "y_pred": "guess"} | spam_options,
            spam_options,
            {"y_true": "label", "y_pred": "guess"},
        ),
        case(
            "binary probabilities",
            {"y_true": "label", "proba": "p"} | spam_options,
            spam_options,
            {"y_true": "label", "proba": "p"},
        ),
        case(
            "several classes",
            animal | {"y_pred": "animal_guess"},
            several,
            animal | {"y_pred": "animal_guess"},
        ),
        case("a column a label", animal | {"proba": names}, several, animal | {"proba": names}),
        case("a prefix", animal | {"proba": "p_*"}, several, animal | {"proba": names}),
        case(
            "columns in order",
            animal | known | {"proba": list(names.values())},
            known,
            animal | {"proba": names},
        ),
        case("lists", animal | known | {"proba": "shares"}, known, animal | {"proba": names}),
        case(
            "panes",
            binary | spam_options | {"time": "when", "window": se.Panes("2d", pane="6h")},
            spam_options | {"window": se.Panes("2d", pane="6h")},
            binary | {"event_time": "when"},
        ),
        case(
            "panes of numbers, by slice",
            binary
            | spam_options
            | {"time": "seconds", "time_unit": "s", "window": se.Panes("3d"), "by": ["model"]},
            spam_options | {"time_unit": "s", "window": se.Panes("3d"), "slices": ["model"]},
            binary | {"event_time": "seconds"},
            ("model",),
        ),
        case(
            "fading",
            binary | spam_options | {"time": "when", "window": se.Fading("12h")},
            spam_options | {"window": se.Fading("12h")},
            binary | {"event_time": "when"},
        ),
        case(
            "bounded scores and intervals",
            {"y_true": "label", "score": "distinct", "max_scores": 1024, "intervals": True}
            | spam_options,
            spam_options | {"max_scores": 1024, "intervals": True},
            {"y_true": "label", "score": "distinct"},
        ),
        case(
            "replicates",
            binary
            | spam_options
            | {"unit": "user", "bootstrap": se.Bootstrap(replicates=20, unit="user")},
            spam_options | {"bootstrap": se.Bootstrap(replicates=20, unit="user")},
            binary | {"unit": "user"},
        ),
        case(
            "metrics of labels",
            binary | spam_options | {"metrics": ["f1", "accuracy"]},
            spam_options | {"metrics": ["f1", "accuracy"]},
            binary,
        ),
    ]
