"""The states of many shards to one, in a tree: of n shards, log₂ n states are held at once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from streameval.errors import StateError, listed
from streameval.evaluator.evaluator import Evaluator, from_bytes, load
from streameval.state_files.disk import provenance_in, read_provenance
from streameval.state_files.provenance import Collection, Provenance

Shard: TypeAlias = Evaluator | bytes | str | os.PathLike[str]
"""An evaluator, what :meth:`Evaluator.to_bytes` wrote, or the path of what ``save`` wrote."""

State = TypeVar("State", bound=Any)


def merge(shards: Iterable[Shard], *, allow_overlap: bool = False) -> Evaluator:
    """One evaluator of all the shards' events; the operands are unchanged.

    The result's bits do not depend on the order of the shards while all weights are whole;
    with others its sums are floats, whose last bits do.

    Of a shard with several epochs (:meth:`~Evaluator.name_shard`) the newest counts, and a
    UserWarning names each evaluator that is left out. An iterator has to give the newest first.
    Equal bytes of fewer than 1,000 events may be of different events: they are counted, with one
    UserWarning.

    Args:
        shards: Evaluators, their bytes, or paths of saved ones. An iterator is read one by one,
            so that ten thousand shards need the memory of about fourteen.
        allow_overlap: Merge all of them, without looking at shards and epochs.

    Raises:
        StateError: There are none, they were set up differently, or events of one
            would count twice: one object or shard is given twice.

    >>> shards = [Evaluator(), Evaluator()]
    >>> _ = shards[0].update(True, score=0.9)
    >>> _ = shards[1].update(False, score=0.4)
    >>> merge(shards)["roc_auc"]
    1.0
    >>> merge(shard.to_bytes() for shard in shards) == merge(shards)
    True
    """
    known: list[tuple[str, Provenance]] = []
    if not isinstance(shards, Iterator):
        shards = listed(shards, "merge", "a list of evaluators")
        known = [] if allow_overlap else list(_provenances(shards))
    together = None if allow_overlap else Collection(known)
    # The collection has compared all of them, so that no merge has to.
    result: Evaluator | None = merged(_owned(shards, together), allow_overlap=True, default=None)
    if result is None:
        raise StateError("expected at least one evaluator to merge, got none")
    if together is not None and together.doubts:
        more = len(together.doubts) - 1
        warnings.warn(together.doubts[0] + (f" (and {more} more)" if more else ""), stacklevel=2)
    return result


def _provenances(shards: Iterable[Shard]) -> Iterator[tuple[str, Provenance]]:
    """What is known of shards before they are read: of files and bytes what their headers say."""
    for number, shard in enumerate(shards):
        if isinstance(shard, Evaluator):
            yield _name(number, shard), shard._provenance
            continue
        # What cannot be read is refused where it is read.
        with suppress(StateError):
            data = None
            if isinstance(shard, bytes):
                data = provenance_in(shard)
            elif isinstance(shard, (str, os.PathLike)):
                data = read_provenance(shard)[0]
            if data is not None:
                yield _name(number, shard), Provenance.from_data(data)


def _owned(shards: Iterable[Shard], together: Collection | None) -> Iterator[tuple[str, Evaluator]]:
    """The shards that count, by name; every other one, from the first, may be changed."""
    given = 0
    for number, shard in enumerate(shards):
        name = _name(number, shard)
        if isinstance(shard, Evaluator):
            state = shard
        elif isinstance(shard, bytes):
            state = from_bytes(shard)
        elif isinstance(shard, (str, os.PathLike)):
            state = load(shard)
        else:
            got = type(shard).__name__
            remedy = "; call the method merge of the first one" if got == "Comparison" else ""
            raise StateError(
                f"{name}: expected an Evaluator, its bytes or its path, got {got}{remedy}"
            )
        if together is not None:
            replaced = together.replaced(name, state._provenance, live=not state.is_empty)
            if replaced is not None:
                warnings.warn(replaced, stacklevel=5)
                continue
        # Those at even places are merged into, those at odd ones only read.
        own = state.copy() if given % 2 == 0 and state is shard else state
        del shard, state  # an iterator's evaluator is held by nothing else now
        given += 1
        yield name, own


def _name(number: int, shard: Shard) -> str:
    return os.fspath(shard) if isinstance(shard, (str, os.PathLike)) else f"evaluators[{number}]"


def merged(
    states: Iterable[tuple[str, State]], *, allow_overlap: bool = False, default: Any = ...
) -> State:
    """The merge of states, each with its name in errors, as a binary counter adds; changes them."""
    levels: list[tuple[int, str, Any]] = []
    for name, state in states:
        levels.append((0, name, state))
        del state
        while len(levels) > 1 and levels[-1][0] == levels[-2][0]:
            _join_last(levels, allow_overlap)
    while len(levels) > 1:
        _join_last(levels, allow_overlap)
    return levels[0][2] if levels else default  # type: ignore[no-any-return]


def _join_last(levels: list[tuple[int, str, Any]], allow_overlap: bool) -> None:
    """Merge the last state of a stack into the one before it."""
    _, name, state = levels.pop()
    level, first, total = levels.pop()
    try:
        total.merge(state, allow_overlap=allow_overlap)
    except StateError as error:
        raise StateError(f"{first} and {name}: {error}") from None
    levels.append((level + 1, first, total))
