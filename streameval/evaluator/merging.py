"""The states of many shards to one, in a tree: of n shards, log₂ n states are held at once."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from streameval.errors import StateError, listed
from streameval.evaluator.evaluator import Evaluator, from_bytes, load

Shard: TypeAlias = Evaluator | bytes | str | os.PathLike[str]
"""An evaluator, what :meth:`Evaluator.to_bytes` wrote, or the path of what ``save`` wrote."""

State = TypeVar("State", bound=Any)


def merge(shards: Iterable[Shard]) -> Evaluator:
    """One evaluator of all the shards' events; the operands are unchanged.

    The result's bits do not depend on the order of the shards while all weights
    are whole. A weight that is not makes sums floats, whose last bits depend on
    the order in which they are added.

    Args:
        shards: Evaluators, their bytes, or paths of saved ones. An iterator is read one by one,
            so that ten thousand shards need the memory of about fourteen.

    Cost:
        Each event's state is merged log₂ n times at most.

    Raises:
        StateError: There are none, they were set up differently, or one object
            is given twice; pass its :meth:`~Evaluator.copy` where its events
            shall count twice.

    >>> shards = [Evaluator(), Evaluator()]
    >>> shards[0].update(True, score=0.9)
    >>> shards[1].update(False, score=0.4)
    >>> merge(shards)["roc_auc"]
    1.0
    >>> merge(shard.to_bytes() for shard in shards) == merge(shards)
    True
    """
    if not isinstance(shards, Iterator):
        shards = listed(shards, "merge", "a list of evaluators")
    result: Evaluator | None = merged(_owned(shards), default=None)
    if result is None:
        raise StateError("expected at least one evaluator to merge, got none")
    return result


def _owned(shards: Iterable[Shard]) -> Iterator[tuple[str, Evaluator]]:
    """The shards by name; every other one, from the first, may be changed."""
    # Not the evaluators themselves: an iterator may load one after another.
    seen: dict[int, tuple[int, weakref.ref[Evaluator]]] = {}
    for position, shard in enumerate(shards):
        name = f"evaluators[{position}]"
        if isinstance(shard, bytes):
            yield name, from_bytes(shard)
            continue
        if isinstance(shard, (str, os.PathLike)):
            yield os.fspath(shard), load(shard)
            continue
        if not isinstance(shard, Evaluator):
            got = type(shard).__name__
            remedy = "; call the method merge of the first one" if got == "Comparison" else ""
            raise StateError(
                f"{name}: expected an Evaluator, its bytes or its path, got {got}{remedy}"
            )
        before, earlier = seen.get(id(shard), (0, None))
        if earlier is not None and earlier() is shard:
            raise StateError(
                f"{name}: expected each evaluator once, got that of "
                f"evaluators[{before}] again, whose events would count twice; pass copy() "
                "of it if they shall"
            )
        key = id(shard)

        def forget(_: object, key: int = key) -> None:
            seen.pop(key, None)

        seen[key] = position, weakref.ref(shard, forget)
        # Those at even places are merged into, those at odd ones only read.
        own = shard.copy() if position % 2 == 0 else shard
        del shard  # an iterator's evaluator is held by nothing else now
        yield name, own


def merged(states: Iterable[tuple[str, State]], default: Any = ...) -> State:
    """The merge of states in their order, as a binary counter adds: equal sizes first.

    Args:
        states: Each with its name in errors; they are changed.
        default: Returned where there are none.

    Raises:
        StateError: Two cannot be merged; the error begins with the names of both, or of the first
            states of the groups that have been merged to them.
    """
    levels: list[tuple[int, str, Any]] = []
    for name, state in states:
        levels.append((0, name, state))
        del state
        while len(levels) > 1 and levels[-1][0] == levels[-2][0]:
            _join_last(levels)
    while len(levels) > 1:
        _join_last(levels)
    return levels[0][2] if levels else default  # type: ignore[no-any-return]


def _join_last(levels: list[tuple[int, str, Any]]) -> None:
    """Merge the last state of a stack into the one before it."""
    _, name, state = levels.pop()
    level, first, total = levels.pop()
    try:
        total.merge(state)
    except StateError as error:
        raise StateError(f"{first} and {name}: {error}") from None
    levels.append((level + 1, first, total))
