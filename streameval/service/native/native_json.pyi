from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

__all__ = ["NativeRecords", "lines"]

@final
class NativeRecords:
    def __init__(self, fields: Sequence[tuple[str, str]]) -> None: ...
    @staticmethod
    def takes(fields: Sequence[tuple[str, str]]) -> bool: ...
    def read(
        self, messages: list[bytes]
    ) -> tuple[list[npt.NDArray[np.float64] | npt.NDArray[np.bool_] | list[Any]], list[int]]: ...

def lines(
    data: bytes, stop: int, start: int
) -> tuple[list[bytes], npt.NDArray[np.int64], bool]: ...
