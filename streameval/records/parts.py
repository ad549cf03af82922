"""Large files, and many, counted in parts by several processes whose states are merged.

States merge exactly, so that the result has the same bytes as that of one process. Where it
might not have, or a record stops the run, nothing is returned and one process counts all
records, which is also what words the error: there is one way to count, and a faster one for
what is plain.

The processes take tasks of some megabytes from one queue. The first task is counted before any
other: the other processes begin with what it says of the labels and their types.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from copy import deepcopy
from io import BytesIO
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from streameval.errors import InputError, OptionError, StreamevalError, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.events.values import MAX_CLASSES
from streameval.metrics.registry import find
from streameval.records.chunk import KEPT, MAX_REASONS, RecordError
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import (
    ByteRange,
    InputFile,
    can_be_cut,
    column_names,
    lines_of,
    read_source,
)
from streameval.records.record_counter import RecordCounter
from streameval.records.remote import is_remote
from streameval.records.spec import Spec
from streameval.windows.cumulative import Cumulative

LEAST_BYTES = 256 << 20
"""Size of the files from which on several processes are worth their memory: one process takes
some two seconds, of which another needs a quarter of a second before it counts."""

_HEAD_BYTES = 4 << 20
_LEAST_TASK = 4 << 20
_LARGEST_TASK = 32 << 20

_RECEIVED = 16
"""A process takes no further task when what is left is this part of what it has counted: its state
is received while the last tasks are counted here."""

_SERVE = "from streameval.records.parts import serve; serve()"


class Piece(NamedTuple):
    """A file, or a part of one."""

    source: InputFile
    span: ByteRange | None
    """None: all of the file."""


def processes(workers: int | None, spec: Spec, sources: Sequence[InputFile]) -> int:
    """How many processes count the records of files; without ``workers`` by their size."""
    option = spec.wording.option
    if workers is None:
        small = sum(source.size or 0 for source in sources) < LEAST_BYTES
        return 1 if small or _needs_one(spec, sources) else _cores()
    if type(workers) is not int or not 1 <= workers <= 1000:
        where = spec.wording.where("workers")
        raise InputError(where, expected="a number from 1 to 1000", got=shown(workers))
    reason = _needs_one(spec, sources)
    if workers > 1 and reason:
        remedy = "one process counts it"
        raise OptionError.conflicts(option("workers", str(workers)), reason, remedy=remedy)
    return workers


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _needs_one(spec: Spec, sources: Sequence[InputFile]) -> str:
    """What has to be counted by one process, as options name it; empty where nothing has."""
    option = spec.wording.option
    if spec.window is not None and not isinstance(spec.window, Cumulative):
        return f"{option('window')}, whose events depend on their order"
    names = (*(spec.metrics or ()), *spec.also_kept)
    ordered = [name for name in names if find(name, spec.measured).ordered]
    if ordered or spec.arguments.get("temporal"):
        return f"{(*ordered, 'temporal')[0]}, which is about the order of events"
    if any(source.path == "-" or is_remote(source.path) for source in sources):
        return "the standard input, or a URL"
    if any(source.is_pipe for source in sources):
        return "a pipe, which can be read once"
    return "" if sys.executable else "an interpreter that cannot be started"


def counted_in_parts(
    spec: Spec,
    sources: Sequence[InputFile],
    types: LabelTypes,
    *,
    skip: bool,
    workers: int,
    advance: Callable[[int], None] = lambda count: None,
) -> RecordCounter | None:
    """The counter of all records, counted by several processes; None where one has to."""
    if workers < 2:
        return None
    try:
        tasks = _tasks(sources, workers)
        if len(tasks) < 3:
            return None
        with ExitStack() as ends:
            count = min(workers, len(tasks) - 1) - 1
            others = [ends.enter_context(closing(_Other())) for _ in range(count)]
            return _Run(spec, types, tasks, skip, advance).count(others)
    except (StreamevalError, OSError, EOFError, pickle.PickleError):
        # One process finds it again, at its place among the records.
        return None


def _tasks(sources: Sequence[InputFile], workers: int) -> list[list[Piece]]:
    """The pieces of all files, in order: a few megabytes first, small ones last."""
    left = sum(source.size or 0 for source in sources)
    tasks: list[list[Piece]] = [[]]
    room = _HEAD_BYTES
    for source in sources:
        size = source.size or 0
        cut = size > room and can_be_cut(source)
        of_csv = source.format in ("csv", "tsv")
        columns = column_names(source) if cut and of_csv else None
        begin = 0
        while not begin or begin < size:
            end = min(size, begin + room) if cut else max(size, 1)
            span = ByteRange(begin, end, size, columns) if cut else None
            tasks[-1].append(Piece(source, span))
            room -= end - begin
            left -= end - begin
            begin = end
            if room <= 0:
                tasks.append([])
                # Shorter towards the end, where a process waits for the others.
                room = max(_LEAST_TASK, min(_LARGEST_TASK, left // (4 * workers)))
    return [task for task in tasks if task]


def _count(counter: RecordCounter, types: LabelTypes, task: Sequence[Piece]) -> None:
    """Add the records of a task; raises what stops the run."""
    wanted = counter.spec.field_requests()
    for source, span in task:
        for chunk in read_source(source, wanted, types, BytesIO(), span=span):
            counter.add(chunk)


def _bytes_of(task: Sequence[Piece]) -> int:
    return sum(
        (source.size or 0) if span is None else span.end - span.begin for source, span in task
    )


class _Run:
    """The tasks of one call, and what became of them."""

    def __init__(
        self,
        spec: Spec,
        types: LabelTypes,
        tasks: Sequence[Sequence[Piece]],
        skip: bool,
        advance: Callable[[int], None],
    ) -> None:
        self._counter = RecordCounter(spec, skip=skip)
        self._spec = spec
        self._types = deepcopy(types)  # the caller's may be needed again
        self._tasks = tasks
        self._left = deque(tasks)
        self._bytes_left = sum(map(_bytes_of, tasks))
        self._lock = threading.Lock()
        self._advance = advance
        self._parts: list[RecordCounter] = []
        self._failed = False

    def count(self, others: Sequence[_Other]) -> RecordCounter | None:
        """Count all tasks here and in the other processes; None where one has to count them."""
        while self._counter.evaluator is None and (task := self._next()):
            self._count_here(task)
            self._counter.flush()
        if not self._can_be_shared():
            return None
        start = pickle.dumps((self._counter, self._types), pickle.HIGHEST_PROTOCOL)
        threads = [threading.Thread(target=self._count_there, args=(one, start)) for one in others]
        for thread in threads:
            thread.start()
        try:
            while task := self._next():
                self._count_here(task)
            self._counter.flush()
        except BaseException:
            self._failed = True  # the others take no further task
            raise
        finally:
            for thread in threads:
                thread.join()
        if self._failed or self._left or len(self._parts) < len(others):
            return None
        return self._whole()

    def _next(self, spare: int = 0) -> Sequence[Piece] | None:
        """The next task; None where only ``spare`` bytes are left, or a process failed."""
        with self._lock:
            if self._failed or not self._left or (spare and self._bytes_left <= spare):
                return None
            task = self._left.popleft()
            self._bytes_left -= _bytes_of(task)
            return task

    def _note(self, task: Sequence[Piece]) -> None:
        with self._lock:
            self._advance(_bytes_of(task))

    def _count_here(self, task: Sequence[Piece]) -> None:
        _count(self._counter, self._types, task)
        self._note(task)

    def _count_there(self, other: _Other, start: bytes) -> None:
        """Have another process count tasks; its state is received when there are none left."""
        counted = 0
        try:
            other.send(start)
            while task := self._next(counted // _RECEIVED):
                other.send(pickle.dumps(task))
                other.receive()
                counted += _bytes_of(task)
                self._note(task)
            if not self._failed:
                other.send(pickle.dumps(None))
                self._parts.append(other.receive())
        except Exception:
            # Whatever it is, one process finds it again, or counts what this one could not.
            self._failed = True

    def _can_be_shared(self) -> bool:
        """Whether what has been counted says all that the other processes need to know."""
        labels = {want.path for want in self._spec.field_requests() if want.holds_labels}
        of_text = any(
            piece.source.format in ("csv", "tsv") or piece.source.partitions
            for task in self._left
            for piece in task
        )
        return self._has_whole_weights() and (not of_text or self._types.knows(labels))

    def _has_whole_weights(self) -> bool:
        # Sums of other weights depend on the order of the merges.
        evaluator = self._counter.evaluator
        return isinstance(evaluator, Evaluator) and evaluator.has_whole_weights

    def _whole(self) -> RecordCounter | None:
        """The counter of all parts; None where one process might have counted otherwise."""
        counter, spec = self._counter, self._spec
        evaluator = counter.evaluator
        assert isinstance(evaluator, Evaluator)
        before = evaluator.labels
        while self._parts:
            counter.add_part(self._parts.pop())
        bad = counter.bad
        bad.first = self._in_files(bad.first)
        labels = evaluator.labels
        surprising = (
            not self._has_whole_weights(),
            # A limit may have been reached by all parts together.
            len(labels) > MAX_CLASSES,
            evaluator.retained.get("slices", 0) >= spec.max_slices,
            len(bad.reasons) >= MAX_REASONS,
            # The first records say which label is positive; there, more of them are looked at.
            bad.count and spec.binary and spec.positive is None and spec.labels is None,
            spec.proba is not None and labels != before,
        )
        return None if any(surprising) else counter

    def _in_files(self, records: Sequence[RecordError]) -> list[RecordError]:
        """The first of the records, in order, with the lines of their files."""
        spans: dict[str, list[ByteRange]] = {}
        sources: dict[str, InputFile] = {}
        for source, span in chain.from_iterable(self._tasks):
            sources[source.name] = source
            of_file = spans.setdefault(source.name, [])
            if span is not None and source.format != "parquet":  # whose rows are those of the file
                of_file.append(span)
        order = {name: number for number, name in enumerate(sources)}
        found: list[RecordError] = []
        begin, lines, name = 0, 0, ""
        for record in sorted(records, key=lambda one: (order[one.source], one.place))[:KEPT]:
            if record.source != name:
                begin, lines, name = 0, 0, record.source
            place = max(
                (span.begin for span in spans[name] if span.begin < record.place), default=0
            )
            lines += lines_of(sources[name], begin, place)
            begin = place
            found.append(record.at(record.source, record.place - begin + lines))
        return found


class _Other:
    """Another process that counts tasks: see :func:`serve`."""

    def __init__(self) -> None:
        places = [os.path.abspath(place) for place in sys.path]
        # Not multiprocessing: its processes import the caller's main module again, or are
        # forks of a process that may have threads.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            pipesize=1 << 20,  # of the state that is received
            start_new_session=True,  # an interrupt is for this process, which ends the others
        )

    def send(self, data: bytes) -> None:
        """Send what is pickled; raises OSError if the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def receive(self) -> Any:
        """What the process has sent; raises EOFError if it has ended."""
        return pickle.load(self._process.stdout)  # type: ignore[arg-type]

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Count tasks of another process: they are read from the standard input, results written."""
    # First a counter and the types of labels are read, then tasks, each answered by None; then
    # None, answered by the counter of all tasks. An error ends the process, and one process
    # raises it again.
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no result
    with suppress(EOFError, BrokenPipeError):  # the other process has ended
        answer(sys.stdin.buffer, results)


def answer(tasks: BinaryIO, results: BinaryIO) -> None:
    """As :func:`serve`, of other streams."""
    # Pickles are those of the process that started this one.
    whole, types = pickle.load(tasks)
    counter = whole.part()
    del whole
    while (task := pickle.load(tasks)) is not None:
        _count(counter, types, task)
        pickle.dump(None, results)
        results.flush()
    counter.flush()
    pickle.dump(counter, results, pickle.HIGHEST_PROTOCOL)
    results.flush()
