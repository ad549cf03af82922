"""How errors write the options of a front end: a command, a call, an engine's call or TOML keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streameval.windows.kinds import KINDS, window_forms


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How a front end writes its options.

    >>> COMMAND.option("y_pred"), CALL.option("y_pred"), CALL.option("positive", "LABEL")
    ('--y-pred', 'y_pred=', 'positive=LABEL')
    >>> KEYS.option("y_pred"), KEYS.option("task", KEYS.text("binary"))
    ('fields.y_pred', 'evaluator.task = "binary"')
    """

    command: bool = False
    """Whether it is the command line."""
    joined: str = "="
    """Between an option and its value."""
    end: str = ""
    """After an option without a value."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Options that have another name than the field of the Spec."""
    forms: Mapping[str, str] = field(default_factory=dict)
    """Options with certain values, by the names that rules have for them."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """From a rule to its error, where that differs in this front end."""
    others: tuple[str, ...] | None = None
    """The rules beside those of ``texts`` that hold; None: all that no front end has alone."""

    def option(self, name: str, value: str = "") -> str:
        """An option, or an option with its value."""
        name = self.names.get(name, name)
        if self.command:
            name = f"--{name.replace('_', '-')}"
        return f"{name}{self.joined}{value}" if value else name + self.end

    def where(self, name: str) -> str:
        """The option as the place of an error."""
        return self.option(name).removesuffix("=")

    def text(self, value: str) -> str:
        """A text as the value of an option."""
        return value if self.command else f'"{value}"'


COMMAND = Wording(
    command=True,
    joined=" ",
    names={"slices": "slice"},
    forms={
        "no_probabilities": "--no-probabilities",
        "last_window": "--window last",
        "ordered_window": "--window last:10000",
        "panes_window": "--window panes:1h",
        "timed_windows": " or ".join(f"--window {form}" for form in window_forms(timed=True)),
        "proba_pairs": "LABEL=FIELD,LABEL=FIELD",
    },
)

CALL = Wording(
    end="=",
    names={"slices": "by", "unit": "bootstrap"},
    forms={
        "no_probabilities": "probabilities=False",
        "last_window": "window=Last(n)",
        "ordered_window": "window=streameval.Last(10_000)",
        "panes_window": 'window=streameval.Panes("1h")',
        "timed_windows": " or ".join(
            f"window=streameval.{kind.spec.__name__}(...)"
            for kind in KINDS.values()
            if kind.clock != "events"
        ),
        "proba_pairs": "{LABEL: FIELD, ...}",
    },
    texts={"utc needs time": "utc requires {time}; add {time:FIELD}"},
)

ENGINE = Wording(
    others=(
        *("a known task", "proba or score", "a window of parts", "score of numbers"),
        *("proba of numbers", "separator of label sets"),
    ),
    texts={
        "a prediction": "evaluate: expected y_pred=, score= or proba=, got none of them; name the "
        "column that holds the prediction",
        "score of the task": "{score} conflicts with {this_task}; name probabilities with proba=",
        "time needs window": '{time} requires {window}; pass window=Panes("1h")',
        "window needs time": "{window} requires {time}; name the column of the event time",
    },
)
"""The call of an engine, whose other rules are those of an evaluator."""

KEYS = Wording(
    joined=" = ",
    names={
        **{name: f"fields.{name}" for name in ("y_true", "y_pred", "score", "proba", "weight")},
        **{name: f"fields.{name}" for name in ("time", "time_unit")},
        **{name: f"evaluator.{name}" for name in ("task", "positive", "labels", "metrics")},
    },
    forms={
        "no_probabilities": "evaluator.probabilities = false",
        "multiclass": 'evaluator.task = "multiclass"',
    },
    others=(
        *("score of numbers", "proba of numbers", "labels of numbers"),
        *("metric of the task", "metric of counts"),
    ),
    texts={
        "a prediction": "fields: expected score, y_pred or proba: where a record has its "
        'prediction, got none of them; add score = "score" under [fields]',
        "proba or score": "{proba} conflicts with {score}; give one of them",
        "score of the task": "{score}: expected y_pred or proba in a multi-class run, got score; "
        'or set evaluator.task = "binary"',
        "time_unit needs time": "{time_unit} requires {time}",
        "probabilities of several classes": "{no_probabilities} requires {multiclass}; binary "
        "scores may be any numbers: name their field in {score}",
        "no probabilities without labels": "{no_probabilities} requires {labels}; an event has a "
        "score of each label",
        "no probabilities without proba": "{no_probabilities} requires {proba}; an event has a "
        "score of each label",
        "binary metric of scores": "{place} requires {score} or {proba}; {given} is computed from "
        "scores",
        "metric of scores": "{place} requires {proba}; {given} is computed from scores",
    },
)
"""The keys of a run: ``[evaluator]`` and ``[fields]``."""
