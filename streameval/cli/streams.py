"""Standard streams and exit codes of the commands, which load no other part of the package."""

from __future__ import annotations

import os
import sys

from streameval import __version__
from streameval.states.backend import backend, slow_because

FAILURE = 1
BAD_INPUT = 2
TOO_MANY_BAD = 3
GATE_FAILED = 4
INTERRUPTED = 130
CLOSED_PIPE = 141  # as shells report a command that SIGPIPE ended


class ClosedPipeError(Exception):
    """The reader of the output has closed it (``| head -1``)."""


def write(text: str) -> None:
    """Write text and a newline to the standard output, always as UTF-8."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.buffer.write(text.encode(errors="backslashreplace") + b"\n")
        sys.stdout.flush()
    except OSError as error:
        # Python flushes again at exit, and would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise ClosedPipeError from None
        raise


def write_version() -> None:
    """Write the version, which score index runs, and where it is slow, the remedy."""
    write(f"streameval {__version__} ({backend()} score index)")
    if slow := slow_because():
        write(slow)


def say(message: str) -> None:
    """Print one line on the standard error."""
    if sys.stderr is not None:
        print("streameval:", " ".join(message.split()), file=sys.stderr)
