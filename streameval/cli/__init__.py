"""The ``streameval`` command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    try:
        return _run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    if sys.stderr is not None:
        sys.stderr.write("streameval: interrupted\n")
        sys.stderr.flush()
    return 130


def _end(number: int, frame: object) -> None:
    os._exit(_interrupted())


def _run(arguments: list[str]) -> int:
    handler = signal.getsignal(signal.SIGINT)
    at_once = handler is signal.default_int_handler and _in_main_thread()
    if at_once:
        # An exception within the import of numpy becomes an ImportError, and a traceback.
        signal.signal(signal.SIGINT, _end)
    try:
        from streameval.cli.streams import CLOSED_PIPE, FAILURE, ClosedPipeError, say, write_version
    finally:
        if at_once:
            signal.signal(signal.SIGINT, handler)
    try:
        if arguments == ["--version"]:
            write_version()  # the commands need not be loaded for this
            return 0
        from streameval.cli.app import run

        return run(arguments)
    except ClosedPipeError:
        return CLOSED_PIPE
    except OSError as error:  # a full disk under the output of --version
        say(str(error))
        return FAILURE


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()


if __name__ == "__main__":
    sys.exit(main())
