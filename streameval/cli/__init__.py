"""The ``streameval`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from streameval import __version__
from streameval.cli.output import ClosedPipeError, write
from streameval.states.score_index import backend

__all__ = ["main"]

_FAILURE = 1
_INTERRUPTED = 130
_CLOSED_PIPE = 141  # as shells report a command that SIGPIPE ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    Exit codes: 0; 1 for a failure; 2 for bad usage or bad input; 130 after
    Ctrl-C; 141 when the reader of the output has gone away.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if arguments == ["--version"]:
            write(
                f"streameval {__version__} ({backend()} score index)"
            )  # the commands need not be loaded for this
            return 0
        # Inside the try, so that Ctrl-C while modules load is quiet as well.
        from streameval.cli.app import run

        return run(arguments)
    except ClosedPipeError:
        return _CLOSED_PIPE
    except KeyboardInterrupt:
        _say("interrupted")
        return _INTERRUPTED
    except OSError as error:  # a full disk under the output of --version
        _say(str(error))
        return _FAILURE


def _say(message: str) -> None:
    if sys.stderr is not None:
        print("streameval:", message, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
