"""An HTTP error response: status, cause, and remedy for the client."""

from __future__ import annotations

import msgspec

from streameval.errors import StreamevalError


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was expected, what was received, where, and what to do about it."""

    expected: str
    got: str
    where: str
    remedy: str


class Error(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of every answer that is an error."""

    error: Fault


class RefusedError(StreamevalError):
    """A request that is rejected with an HTTP status; ``got`` is short and never a secret."""

    def __init__(
        self,
        status: int,
        *,
        expected: str,
        got: str,
        where: str,
        remedy: str = "",
        headers: tuple[tuple[str, str], ...] = (),
        retry_seconds: int | None = None,
    ) -> None:
        self.status = status
        self._fault = Fault(expected, got, where, remedy)
        retry = () if retry_seconds is None else (("retry-after", str(retry_seconds)),)
        self.headers = retry + headers
        super().__init__(f"{where}: expected {expected}, got {got}")

    def body(self) -> bytes:
        """The answer's JSON."""
        return msgspec.json.encode(Error(self._fault))
