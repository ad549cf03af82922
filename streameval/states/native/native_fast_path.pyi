from collections.abc import Callable, Iterable
from typing import Any, TypeVar, final

from streameval.states.native.event_ring import NativeEventRing
from streameval.states.native.native_class_events import ClassCounter
from streameval.states.native.native_loss_tally import LabelRun, NativeLossTally

__all__ = [
    "EvaluatorFastPath",
    "LastFastPath",
    "MergeReader",
    "PanesFastPath",
    "StateFastPath",
    "TimelineFields",
]

_Kind = TypeVar("_Kind", bound=tuple[Any, ...])
_States = tuple[Any, ...]

class WindowFastPath: ...

@final
class StateFastPath(WindowFastPath):
    def bind(
        self,
        binary: bool,
        index: Any,
        losses: NativeLossTally | None,
        counts: Any,
        classes: ClassCounter | None,
        labels: LabelRun | None,
        queued: tuple[_States, _States],
        fed: tuple[_States, ...],
        every: tuple[_States, ...] | None,
        refusing: tuple[_States, ...],
    ) -> None: ...
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
class LastFastPath(WindowFastPath):
    def __init__(
        self,
        window: Any,
        most: int,
        ring: NativeEventRing | None,
        states: StateFastPath,
        binary: bool,
    ) -> None: ...

class PanesFastPath(WindowFastPath): ...

@final
class MergeReader:
    def __init__(self, window: PanesFastPath, metric: str) -> None: ...
    def read(self) -> float: ...

class TimelineFields: ...

class EvaluatorFastPath:
    _readers: dict[Any, Callable[[], Any]]
    _fast: bool
    def _bind(
        self,
        lock: Any,
        truth: dict[Any, Any],
        binary: bool,
        threshold: float,
        tolerance: float,
        total: WindowFastPath | None,
        dimensions: Iterable[tuple[str, ...]],
        locate: Callable[[tuple[str, ...], tuple[Any, ...]], WindowFastPath | None],
        timeline: Any,
        time_unit: str | None,
        timed: bool,
    ) -> None: ...
    def __getitem__(self, name: str) -> float: ...
