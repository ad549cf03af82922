from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt

__all__ = ["NativeKeyRun", "NativeKeyTable", "hashes", "in_order", "merged"]

@final
class NativeKeyTable:
    def __init__(
        self,
        numbers: Sequence[bool],
        kinds: Mapping[int, Callable[..., Any]],
        encode: Callable[[Any], bytes],
    ) -> None: ...
    def __len__(self) -> int: ...
    def __sizeof__(self) -> int: ...
    def __reduce__(self) -> NoReturn: ...
    def reserve(self, count: int) -> None: ...
    def find(self, keys: Sequence[str]) -> list[Any]: ...
    def get(self, key: str) -> Any: ...
    def add(self, keys: Sequence[str], entries: Sequence[Any]) -> list[Any]: ...
    def put(self, keys: Sequence[str], entries: Iterable[Any]) -> None: ...
    def predict(
        self,
        keys: list[str],
        times: npt.NDArray[np.int64],
        partition: int,
        columns: list[Any],
        labels: list[Any] | None,
        older: NativeKeyTable,
        border: int,
        chosen: npt.NDArray[np.uint8],
    ) -> int: ...
    def label(
        self,
        keys: list[str],
        labels: list[Any],
        times: npt.NDArray[np.int64],
        wait: int,
        older: NativeKeyTable,
        border: int,
    ) -> tuple[
        npt.NDArray[np.bool_],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        npt.NDArray[np.int64],
        list[Any],
    ]: ...
    def versions(
        self,
    ) -> tuple[list[str], npt.NDArray[np.int64], bytes, npt.NDArray[np.int64]]: ...

@final
class NativeKeyRun:
    def __init__(self, hashes: npt.NDArray[np.int64]) -> None: ...
    def first(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]: ...

def merged(
    hashes: npt.NDArray[np.int64],
    places: npt.NDArray[np.int64],
    more_hashes: npt.NDArray[np.int64],
    more_places: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...
def hashes(keys: Sequence[str]) -> npt.NDArray[np.int64]: ...
def in_order(
    data: bytes, ends: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> tuple[bytes, npt.NDArray[np.int64]]: ...
