from collections.abc import Callable, Iterable
from typing import Any, TypeVar, final

from streameval.states.native.event_ring import NativeEventRing
from streameval.states.native.native_loss_tally import NativeLossTally

__all__ = [
    "DequeWay",
    "EvaluatorWay",
    "MergeReader",
    "PanesWay",
    "RingWay",
    "StateWay",
    "TimelineWay",
]

_Class = TypeVar("_Class", bound=type)
_Kind = TypeVar("_Kind", bound=tuple[Any, ...])

class WindowWay: ...

@final
class StateWay(WindowWay):
    def serve(
        self,
        binary: bool,
        index: Any,
        losses: NativeLossTally | None,
        others: tuple[Any, ...] | None,
        counts: Any,
    ) -> None: ...
    def close(self) -> None: ...
    def roc_auc(self) -> float: ...
    def roc_auc_interval(
        self, factor: float, fewest: int, level: float, kind: type[_Kind]
    ) -> _Kind | None: ...
    def accuracy(self) -> float: ...
    def precision_macro(self) -> float: ...
    def recall_macro(self) -> float: ...
    def f1_macro(self) -> float: ...
    def matthews_corrcoef(self) -> float: ...
    def cohen_kappa(self) -> float: ...
    def precision(self) -> float: ...
    def recall(self) -> float: ...
    def f1(self) -> float: ...
    def log_loss(self) -> float: ...
    def brier_score(self) -> float: ...

@final
class RingWay(WindowWay):
    def __init__(self, window: Any, ring: NativeEventRing, states: StateWay) -> None: ...

@final
class DequeWay(WindowWay):
    def __init__(self, window: Any, most: int, states: StateWay) -> None: ...

class PanesWay(WindowWay): ...

@final
class MergeReader:
    def __init__(self, window: PanesWay, metric: str) -> None: ...
    def read(self) -> float: ...

class TimelineWay: ...

class EvaluatorWay:
    _readers: dict[Any, Callable[[], Any]]
    _plain_open: bool
    def _lead(
        self,
        lock: Any,
        truth: dict[Any, Any],
        binary: bool,
        threshold: float,
        whole: WindowWay | None,
        dimensions: Iterable[tuple[str, ...]],
        locate: Callable[[tuple[str, ...], tuple[Any, ...]], WindowWay | None],
        timeline: Any,
        time_unit: str | None,
        timed: bool,
    ) -> None: ...
    def __getitem__(self, name: str) -> float: ...

def compiled_methods(cls: _Class) -> _Class: ...
