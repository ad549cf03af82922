"""Where entries lie, by the hash of their key: sorted runs of two integers each.

Sixteen bytes an entry. New entries come as a run of their own; runs of like
size are merged, so that there are few of them and each entry is moved
O(log n) times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from streameval.events import BoolArray, IntArray

__all__ = ["KeyRuns", "key_hashes"]

_RATIO = 4
"""A run is merged with the one before it unless that is so many times larger."""


def key_hashes(keys: Sequence[str]) -> IntArray:
    """A number for each key; of this process only, as Python salts its hashes."""
    return np.fromiter(map(hash, keys), np.int64, len(keys))


class KeyRuns:
    """Locations of entries by their keys' hashes; of one key there may be several.

    >>> runs = KeyRuns()
    >>> runs.add(key_hashes(["a", "b"]), np.array([10, 20]))
    >>> runs.add(key_hashes(["a"]), np.array([30]))
    >>> indices, locations = runs.find(key_hashes(["c", "a"]))
    >>> indices.tolist(), locations.tolist()
    ([1, 1], [30, 10])
    """

    def __init__(self) -> None:
        self._runs: list[tuple[IntArray, IntArray]] = []

    def __len__(self) -> int:
        return sum(len(hashes) for hashes, _ in self._runs)

    def add(
        self,
        hashes: IntArray,
        locations: IntArray,
        alive: Callable[[IntArray], BoolArray] | None = None,
    ) -> None:
        """Add entries; runs that are merged now lose those that are not ``alive``."""
        if not len(hashes):
            return
        order = np.argsort(hashes, kind="stable")
        run = hashes[order], np.asarray(locations, dtype=np.int64)[order]
        while self._runs and len(self._runs[-1][0]) < _RATIO * len(run[0]):
            run = _merged(self._runs.pop(), run, alive)
        self._runs.append(run)

    def find(self, hashes: IntArray) -> tuple[IntArray, IntArray]:
        """Which of ``hashes`` may be meant by which entries.

        Returns:
            Indices into ``hashes``, ascending, and a location for each; of one
            index the largest location comes first. The keys themselves are not
            known here: compare them.
        """
        indices: list[IntArray] = []
        found: list[IntArray] = []
        # Sorted, neighbours are looked for in the same part of a run, which is then in the cache.
        order = np.argsort(hashes)
        wanted = hashes[order]
        for run, locations in self._runs:
            left = np.searchsorted(run, wanted)
            hit = np.flatnonzero(run[np.minimum(left, len(run) - 1)] == wanted)
            if not len(hit):
                continue
            starts = left[hit]
            counts = np.searchsorted(run, wanted[hit], side="right") - starts
            # Of each hit all places from its start on.
            shift = starts - (np.cumsum(counts) - counts)
            found.append(locations[np.repeat(shift, counts) + np.arange(counts.sum())])
            indices.append(np.repeat(order[hit], counts))
        if not indices:
            none = np.empty(0, dtype=np.int64)
            return none, none
        index, location = np.concatenate(indices), np.concatenate(found)
        order = np.lexsort((-location, index))
        return index[order], location[order]


def _merged(
    old: tuple[IntArray, IntArray],
    new: tuple[IntArray, IntArray],
    alive: Callable[[IntArray], BoolArray] | None,
) -> tuple[IntArray, IntArray]:
    if alive is not None:
        keep = alive(old[1])
        if not keep.all():
            old = old[0][keep], old[1][keep]
    # Where each of the new ones goes: a merge that needs no sort.
    places = np.searchsorted(old[0], new[0], side="right") + np.arange(len(new[0]))
    size = len(old[0]) + len(new[0])
    is_old = np.ones(size, dtype=bool)
    is_old[places] = False
    hashes = np.empty(size, dtype=np.int64)
    hashes[places] = new[0]
    hashes[is_old] = old[0]
    locations = np.empty(size, dtype=np.int64)
    locations[places] = new[1]
    locations[is_old] = old[1]
    return hashes, locations
