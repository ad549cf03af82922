"""A request that is refused: its status, and what the asker should do about it."""

from __future__ import annotations

import msgspec

from streameval.errors import StreamevalError

__all__ = ["Error", "RefusedError"]


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
    """A request that is not answered as asked.

    Args:
        status: The HTTP status, 4xx or 503.
        expected: What would have been taken, in words.
        got: What came; never a secret, and cut to a length.
        where: The parameter, header or line.
        remedy: What to do, a full clause; may be empty.
        headers: Further headers of the answer.

    >>> RefusedError(400, expected="a whole number", got="'x'", where="limit").body()
    b'{"error":{"expected":"a whole number","got":"\\'x\\'","where":"limit","remedy":""}}'
    """

    def __init__(
        self,
        status: int,
        *,
        expected: str,
        got: str,
        where: str,
        remedy: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.status = status
        self.expected = expected
        self.got = got
        self.where = where
        self.remedy = remedy
        self.headers = headers
        super().__init__(f"{where}: expected {expected}, got {got}")

    def body(self) -> bytes:
        """The answer's JSON."""
        fault = Fault(self.expected, self.got, self.where, self.remedy)
        return msgspec.json.encode(Error(fault))
