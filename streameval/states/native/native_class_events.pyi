from collections.abc import Iterable, Mapping
from typing import final

import numpy as np
import numpy.typing as npt

from streameval.events.event import EventFields
from streameval.events.values import FloatArray, IntArray, Label, Weight
from streameval.states.class_probability import ClassProbabilitySums
from streameval.states.class_scores import ClassScores
from streameval.states.ranking.compiled_index import NativeScoreIndex

__all__ = [
    "ClassCounter", "NativeClassTerms", "ScoreFields", "follow", "knows", "mean_share",
    "plain_event", "read_rows",
]  # fmt: skip

def plain_event(
    known: dict[object, Label],
    y_true: object,
    y_pred: object,
    proba: object,
    weight: object,
    tolerance: float,
) -> EventFields | None: ...
def knows(codes: Mapping[Label, int], true: Label, scores: Mapping[Label, float]) -> bool: ...
def read_rows(
    events: list[tuple[Label, Mapping[Label, float], Weight]],
    codes: Mapping[Label, int],
    names: tuple[Label, ...],
    scores: FloatArray,
    true: IntArray,
) -> bool: ...
def follow(
    rankings: Mapping[Label, NativeScoreIndex],
    true: Label,
    scores: Mapping[Label, float],
    weight: int = 1,
) -> None: ...
def mean_share(
    rankings: Mapping[Label, NativeScoreIndex], counts: Mapping[Label, int], total: int
) -> float: ...

@final
class NativeClassTerms:
    def __init__(self, edges: Iterable[float]) -> None: ...
    def count(
        self, y_true: Label, proba: Mapping[Label, float], y_pred: Label | None, weight: int = 1
    ) -> bool: ...
    def count_rows(
        self,
        proba: FloatArray,
        true: IntArray,
        predicted: IntArray,
        hit: npt.NDArray[np.uint8],
        places: IntArray,
    ) -> None: ...
    def take(
        self,
    ) -> tuple[int, int, list[tuple[int, int]], list[tuple[int, int, int, int]]] | None: ...

class ScoreFields: ...

@final
class ClassCounter:
    def __init__(
        self,
        scores: ClassScores | None,
        sums: ClassProbabilitySums | None,
        rows_most: int,
        weight_most: int,
    ) -> None: ...
