"""The standard output, which may be gone."""

from __future__ import annotations

import os
import sys

__all__ = ["ClosedPipeError", "write"]


class ClosedPipeError(Exception):
    """Whoever read the output has stopped reading (``| head -1``)."""


def write(text: str) -> None:
    """Text and a newline to the standard output, as UTF-8 wherever it goes.

    Raises:
        ClosedPipeError: Nobody reads it.
        OSError: It cannot be written, as on a full disk.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
        sys.stdout.flush()
    except OSError as error:
        # Python flushes again at exit, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ClosedPipeError from None
        raise
