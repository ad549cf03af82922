from typing import final

from streameval.events.values import BoolArray, FloatArray, IntArray, Label
from streameval.states.probability import ProbabilitySums

__all__ = ["LabelRun", "NativeEventQueue", "NativeLossTally"]

@final
class NativeLossTally:
    def __init__(self, sums: ProbabilitySums) -> None: ...
    def update(self, positive: bool, score: float) -> bool: ...
    def take(self) -> tuple[int, int, int, list[tuple[int, int, int, int]]] | None: ...
    def log_loss(self) -> float: ...
    def brier_score(self) -> float: ...

@final
class NativeEventQueue:
    def take(self) -> list[tuple[BoolArray, FloatArray, IntArray | None, int]]: ...

class LabelRun:
    last: Label | None
    events: int
    pairs: int
    repeats: int
