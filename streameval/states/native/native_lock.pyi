from typing import Self, final

__all__ = ["NativeLock"]

@final
class NativeLock:
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object) -> None: ...
