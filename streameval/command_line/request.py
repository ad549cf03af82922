"""What a user asked ``evaluate`` for, checked before any file is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streameval.errors import InputError
from streameval.files.chunk import Wanted

__all__ = ["Request", "probability_pairs"]


@dataclass(frozen=True, slots=True)
class Request:
    """The fields to read and how to judge them; the options of ``evaluate``."""

    y_true: str = "y_true"
    y_pred: str | None = None
    score: str | None = None
    proba: str | None = None
    weight: str | None = None
    positive: str | None = None
    threshold: float | None = None
    task: str = "auto"
    metrics: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.y_pred is None and self.score is None and self.proba is None:
            raise InputError(
                "evaluate",
                expected="--y-pred, --score or --proba",
                got="none of them",
                remedy="name the field that holds the prediction",
            )
        if self.score is not None and self.proba is not None:
            raise InputError("--proba", expected="--score or --proba", got="both")
        if self.threshold is not None and self.score is None:
            raise InputError("--threshold", expected="it beside --score", got="no --score")
        if self.task == "multiclass":
            for option, value in (("--score", self.score), ("--positive", self.positive)):
                if value is not None:
                    raise InputError(
                        option, expected="it in a binary task only", got="--task multiclass"
                    )

    @property
    def binary(self) -> bool:
        """Whether the task is binary: declared, or because of --score or --positive."""
        if self.task != "auto":
            return self.task == "binary"
        return self.proba is None and (self.score is not None or self.positive is not None)

    def wanted(self) -> list[Wanted]:
        """The fields to read, each once."""
        fields = [Wanted(self.y_true, "label")]
        if self.y_pred is not None:
            fields.append(Wanted(self.y_pred, "label"))
        if self.score is not None:
            fields.append(Wanted(self.score, "number"))
        pairs = probability_pairs(self.proba)
        if pairs:
            fields.extend(Wanted(path, "number") for _, path in pairs)
        elif self.proba is not None:
            fields.append(Wanted(self.proba, "probabilities"))
        if self.weight is not None:
            fields.append(Wanted(self.weight, "weight"))
        return _each_once(fields)


def _each_once(fields: Sequence[Wanted]) -> list[Wanted]:
    kinds: dict[str, Wanted] = {}
    for field in fields:
        if kinds.setdefault(field.path, field) != field:
            raise InputError(
                field.path,
                expected="one use of the field",
                got=f"it as a {kinds[field.path].kind} and as a {field.kind}",
            )
    return list(kinds.values())


def probability_pairs(proba: str | None) -> list[tuple[str, str]]:
    """The ``label=column`` pairs of ``--proba``; none where it names one field.

    >>> probability_pairs("cat=p_cat,dog=p_dog"), probability_pairs("proba")
    ([('cat', 'p_cat'), ('dog', 'p_dog')], [])
    """
    if proba is None or "=" not in proba:
        return []
    pairs: list[tuple[str, str]] = []
    for part in proba.split(","):
        label, equals, column = part.partition("=")
        if not (label and equals and column) or label in dict(pairs):
            raise InputError(
                "--proba",
                expected="a field, or label=column,label=column with each label once",
                got=repr(proba),
            )
        pairs.append((label, column))
    return pairs
