"""Run the command line, and kill it like a power cut at a chosen call of a chosen step.

    python -m tests.crash.killed_at STEP N ARGUMENTS...

is ``streameval ARGUMENTS...``, ended by SIGKILL at the n-th time that STEP
(a name of ``STEPS``) is entered or left. What is in the product stays as it is:
the steps are wrapped from outside.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from streameval.cli import main

# Name -> module, class, method; killed before it or after it.
STEPS: dict[str, tuple[str, str, str]] = {
    "decode": ("streameval.service.decode.decoder", "RecordDecoder", "decode"),
    "join": ("streameval.service.join.label_join", "LabelJoin", "add"),
    "join written": ("streameval.service.join.label_join", "LabelJoin", "write"),
    "opened": ("streameval.service.store.store", "Store", "reading"),
    "states written": ("streameval.service.store.state_rows", "StateRows", "write"),
    "states merged": ("streameval.service.store.state_rows", "StateRows", "_merge"),
    "states changed": ("streameval.service.store.state_rows", "StateRows", "change"),
    "positions written": ("streameval.service.store.positions", "Positions", "write"),
    "checkpoint": ("streameval.service.run.loop", "ReadLoop", "_checkpoint"),
    "rotation": ("streameval.service.sources.followed_file", "FollowedFile", "_open_next"),
    "look": ("streameval.service.sources.files", "FilesSource", "_follow_or_note"),
    "cut": ("streameval.service.sources.followed_file", "FollowedFile", "_cut"),
    "inbox": ("streameval.service.sources.inbox", "Inbox", "append"),
    "inbox segment": ("streameval.service.sources.inbox", "_Tail", "_next_segment"),
    "inbox dropped": ("streameval.service.sources.inbox", "InboxSource", "checkpointed"),
}

# Small enough that a short stream fills some, and their rows are merged.
_SMALL = (
    ("streameval.service.sources.inbox", "_SEGMENT_BYTES", 16 * 1024),
    ("streameval.service.store.state_rows", "_MANY_ROWS", 8),
)


def make_small() -> None:
    """Segments and rows of states that fill up soon."""
    for module, name, value in _SMALL:
        found = importlib.import_module(module)
        assert hasattr(found, name)
        setattr(found, name, value)


def arm(step: str, number: int) -> None:
    """Wrap a step so that the process dies at its n-th entry or, for even n, exit."""
    module, owner, name = STEPS[step]
    found = getattr(importlib.import_module(module), owner)
    calls = 0

    def dies(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            mine = calls
            if mine == number and number % 2:
                os.kill(os.getpid(), signal.SIGKILL)
            result = original(*arguments, **options)
            if mine == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    # A store is one of two classes.
    for kind in getattr(found, "__args__", (found,)):
        setattr(kind, name, dies(getattr(kind, name)))


if __name__ == "__main__":
    make_small()
    arm(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
