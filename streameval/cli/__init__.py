"""The ``streameval`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from streameval.cli.output import (
    CLOSED_PIPE,
    FAILURE,
    INTERRUPTED,
    ClosedPipeError,
    say,
    write_version,
)

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if arguments == ["--version"]:
            write_version()  # the commands need not be loaded for this
            return 0
        # Inside the try, so that Ctrl-C while modules load is quiet as well.
        from streameval.cli.app import run

        return run(arguments)
    except ClosedPipeError:
        return CLOSED_PIPE
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except OSError as error:  # a full disk under the output of --version
        say(str(error))
        return FAILURE


if __name__ == "__main__":
    sys.exit(main())
