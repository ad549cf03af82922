"""What is done with a file that was found: read, continued, refused, or noted as counted."""

from __future__ import annotations

import logging
from enum import Enum
from typing import NamedTuple

from streameval.service.sources.known_files import FileMatch, KnownFile, KnownFiles, MatchKind
from streameval.service.sources.log_file import LogFile, UnreadableError

_log = logging.getLogger(__name__)


class Action(Enum):
    """What is done with a file."""

    READ = "read"
    """As a file of its own, from an offset."""
    CONTINUE = "continue"
    """From the mark of the known file."""
    WAIT = "wait"
    """Until more of its original is counted."""
    REFUSE = "refuse"
    """It may be a copy of a counted file; the text says so."""
    NOTE_COPY = "note copy"
    """Its mark advances with that of its original."""
    LEAVE = "leave"
    """To the reader of the known file."""
    COUNTED = "counted"
    """Nothing is left to read."""


class Decision(NamedTuple):
    """What is done with a file, the offset that it is read from, and what is reported of it."""

    action: Action
    offset: int = 0
    text: str = ""


def decide(match: FileMatch, *, live: bool, own: KnownFile | None = None) -> Decision:
    """What is done with a file under a followed name (``live``), whose reader had ``own``."""
    kind, known, size, copied = match
    if kind is MatchKind.ARCHIVE:
        return Decision(Action.COUNTED)
    if known is None:
        return Decision(Action.READ)
    counted = known.mark.offset
    match kind:
        case MatchKind.KNOWN if known is own:
            return Decision(Action.CONTINUE, counted)
        case MatchKind.KNOWN if known.current:
            return Decision(Action.LEAVE)
        case MatchKind.KNOWN if counted >= size and not live:
            return Decision(Action.COUNTED)
        case MatchKind.KNOWN:
            return Decision(Action.CONTINUE, counted)
        case MatchKind.LONGER:
            text = f"its first {copied} bytes are what another file holds; that part is not counted"
            return Decision(Action.READ, copied, text)
        case MatchKind.SHORTER if live and known.mark.length > size:
            # An equal first line proves little for a file that is followed by its name.
            return Decision(Action.READ)
        case MatchKind.SHORTER:
            text = (
                f"its {size} bytes begin as a file of which {counted} were counted and which "
                "is not there any more, so it may be a copy of that one: expected a file that is "
                "longer, or begins otherwise"
            )
            return Decision(Action.REFUSE, text=text)
        case MatchKind.REPLACEMENT if live and known is own:
            # Its own file was replaced by a copy: an editor does so.
            return Decision(Action.CONTINUE, counted)
    text = "holds what another file holds; is not counted"
    if not live:
        return Decision(Action.NOTE_COPY, text=text)
    if counted < copied:
        return Decision(Action.WAIT)
    return Decision(Action.READ, copied, text)


def carry_out(
    decision: Decision, match: FileMatch, files: KnownFiles, log: LogFile
) -> KnownFile | None:
    """The known file to read on from, or None; raises UnreadableError where it is refused."""
    known: KnownFile | None = None
    match decision.action:
        case Action.REFUSE:
            raise UnreadableError(decision.text)
        case Action.READ:
            known = files.add_unread(log, decision.offset)
        case Action.CONTINUE:
            known = match.known
        case Action.NOTE_COPY:
            assert match.known is not None
            files.add_copy(log, match.known)
    if decision.text:
        _log.info("%a: %s", str(log.path), decision.text)
    return known
