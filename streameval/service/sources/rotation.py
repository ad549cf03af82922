"""Files that were rotated from a path, in the order in which they were written."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from streameval.service.sources.file_marks import Inode
from streameval.service.sources.log_file import COMPRESSED, inode_of, one_file


class RotatedFile(NamedTuple):
    """A rotated file at the time of a look."""

    changed: int
    """When it was last written, at the latest: a younger one was written after it."""
    path: Path
    inode: Inode


def rotated_from(path: Path) -> list[RotatedFile]:
    """The files that were rotated from a path, oldest first."""
    found = _looked_at(path)
    # The look may have missed a file that was renamed during it.
    while (again := _looked_at(path)) != found:
        found = again
    return found


def _looked_at(path: Path) -> list[RotatedFile]:
    """Rotated files by the number or date in their names; several kinds of names by time."""
    # A program that compresses, copies or restores a file may leave a later time, but no earlier
    # one: a file was last written at its own time or the time of a file that its name ranks as
    # younger, whichever is the earliest.
    kinds: dict[object, list[tuple[tuple[int, ...], RotatedFile]]] = {}
    names: list[str] = []
    with one_file():
        names = os.listdir(path.parent)
    for name in names:
        suffix = name.removeprefix(path.name)
        if suffix == name or suffix[:1] not in (".", "-", "_"):
            continue
        with suppress(OSError):
            stat = (path.parent / name).stat()
            rotated = RotatedFile(stat.st_mtime_ns, path.parent / name, inode_of(stat))
            kind, rank = _rank_of(suffix, stat.st_mtime_ns)
            kinds.setdefault(kind, []).append((rank, rotated))
    found = []
    for ranked in kinds.values():
        ranked.sort(reverse=True)
        latest = ranked[0][1].changed
        for n, (_, rotated) in enumerate(ranked):
            latest = min(latest, rotated.changed)
            found.append((latest, -n, rotated._replace(changed=latest)))
    return [rotated for *_, rotated in sorted(found)]


def _rank_of(suffix: str, changed: int) -> tuple[object, tuple[int, ...]]:
    """The kind of a suffix, and a rank: the highest is the youngest file of this kind."""
    for compressed in COMPRESSED:
        suffix = suffix.removesuffix(compressed)
    numbers = re.findall("[0-9]+", suffix)
    is_number = suffix[1:].isdecimal() and len(suffix) <= 6
    number = -int(suffix[1:]) if is_number else 0
    if is_number and suffix[0] == ".":
        return 1, (number,)
    # A date has eight digits at least; it begins with the year, or counts seconds.
    if sum(map(len, numbers)) >= 8:
        return len(numbers[0]), tuple(map(int, numbers))
    # Of -1 and -2 either may be the younger one.
    return 0, (changed, number)
