"""What is done with a file that was found: every row of the table, for each kind of match."""

from __future__ import annotations

import pytest

from streameval.service.sources.file_decision import Action, Decision, decide
from streameval.service.sources.file_marks import Mark
from streameval.service.sources.known_files import FileMatch, KnownFile, MatchKind

SIZE = 100
PART = "its first 60 bytes are what another file holds; that part is not counted"
COPY = "holds what another file holds; is not counted"
READ = Decision(Action.READ)


def known(counted: int = 40, *, length: int = SIZE, current: bool = False) -> KnownFile:
    return KnownFile(Mark(counted, "head", "tail", length), 1, current)


OWN = known(current=True)


def going_on(counted: int) -> Decision:
    return Decision(Action.CONTINUE, counted)


COUNTED, LEAVE, WAIT = (Decision(one) for one in (Action.COUNTED, Action.LEAVE, Action.WAIT))
BEHIND, NOTE = Decision(Action.READ, 60, PART), Decision(Action.NOTE_COPY, text=COPY)
ROWS = [
    # kind, known file, copied bytes, decision of a followed name, of another name
    (MatchKind.ARCHIVE, None, 0, COUNTED, COUNTED),
    (MatchKind.NEW, None, 0, READ, READ),
    (MatchKind.KNOWN, OWN, 0, going_on(40), going_on(40)),
    (MatchKind.KNOWN, known(current=True), 0, LEAVE, LEAVE),
    (MatchKind.KNOWN, known(), 0, going_on(40), going_on(40)),
    (MatchKind.KNOWN, known(SIZE), 0, going_on(SIZE), COUNTED),
    (MatchKind.LONGER, known(), 60, BEHIND, BEHIND),
    (MatchKind.COPY, known(90), 90, Decision(Action.READ, 90, COPY), NOTE),
    (MatchKind.COPY, known(89), 90, WAIT, NOTE),
    (MatchKind.COPY, OWN, 90, WAIT, NOTE),
    (MatchKind.REPLACEMENT, OWN, 90, going_on(40), NOTE),
    (MatchKind.REPLACEMENT, known(), 90, WAIT, NOTE),
]


@pytest.mark.parametrize(("kind", "file", "copied", "live", "other"), ROWS)
def test_what_is_done(
    kind: MatchKind, file: KnownFile | None, copied: int, live: Decision, other: Decision
) -> None:
    match = FileMatch(kind, file, SIZE, copied)
    assert decide(match, live=True, own=OWN) == live
    assert decide(match, live=False, own=OWN) == other
    assert {row[0] for row in ROWS} | {MatchKind.SHORTER} == set(MatchKind)


@pytest.mark.parametrize("length", [SIZE, SIZE + 1])
def test_a_file_that_may_be_an_older_state_of_a_counted_one(length: int) -> None:
    match = FileMatch(MatchKind.SHORTER, known(200, length=length), SIZE)
    refused = decide(match, live=False)
    assert refused.action is Action.REFUSE
    assert refused.text == (
        "its 100 bytes begin as a file of which 200 were counted and which is not there any more, "
        "so it may be a copy of that one: expected a file that is longer, or begins otherwise"
    )
    # The head of a file that is followed by its name must be as long as the marked one.
    assert decide(match, live=True) == (refused if length == SIZE else READ)
