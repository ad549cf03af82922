"""Files counted in parts by several processes: the same bytes, errors and counts as by one."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, OptionError, StateError
from streameval.records import parts
from streameval.records.blocks import LinesWithin
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import can_be_cut, find_sources, read_source
from streameval.records.record_counter import RecordCounter
from streameval.records.spec import Spec
from streameval.records.wording import CALL
from tests.support.command_runs import in_process

ROWS = 1_500


class InThisProcess:
    """Counts tasks as another process does, in a thread."""

    def __init__(self) -> None:
        (read, write), (read_back, write_back) = os.pipe(), os.pipe()
        self._tasks, self._results = os.fdopen(write, "wb"), os.fdopen(read_back, "rb")
        ends = os.fdopen(read, "rb"), os.fdopen(write_back, "wb")
        self._thread = threading.Thread(target=self._answer, args=ends)
        self._thread.start()

    @staticmethod
    def _answer(tasks: Any, results: Any) -> None:
        with suppress(Exception), tasks, results:  # at an error a process ends
            parts.answer(tasks, results)

    def send(self, data: bytes) -> None:
        self._tasks.write(data)
        self._tasks.flush()

    def receive(self) -> Any:
        return pickle.load(self._results)

    def close(self) -> None:
        self._results.close()
        with suppress(BrokenPipeError):
            self._tasks.close()
        self._thread.join()


@pytest.fixture
def small_tasks() -> Iterator[None]:
    """Files of some kilobytes are cut into several tasks, which threads count."""
    with cut_at(1_000, 2_000, 9_000):
        yield


def rows_of(seed: int, rows: int = ROWS) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "y_true": rng.choice(["spam", "ham"], rows).tolist(),
        "score": rng.random(rows).round(3).tolist(),
        "weight": rng.integers(1, 4, rows).tolist(),
        "country": rng.choice(["PT", "DE", 'a "b",\nc'], rows).tolist(),
        "user": rng.integers(0, 50, rows).tolist(),
    }


ENDINGS = ("jsonl", "csv", "parquet")


def write(path: Path, table: dict[str, list[Any]]) -> None:
    frame = pd.DataFrame(table, dtype=object)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False, lineterminator="\r\n")
    elif path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=200)
    else:
        frame.to_json(path, orient="records", lines=path.suffix == ".jsonl")


def in_parts(
    request: Spec, paths: list[str], *, skip: bool = False, workers: int = 2
) -> RecordCounter | None:
    sources = find_sources(paths)
    return parts.counted_in_parts(request, sources, LabelTypes(), skip=skip, workers=workers)


def by_one(request: Spec, paths: list[str], *, skip: bool = False) -> RecordCounter:
    feed, types = RecordCounter(request, skip=skip), LabelTypes()
    for source in find_sources(paths):
        for chunk in read_source(source, request.field_requests(), types, io.BytesIO()):
            feed.add(chunk)
    feed.finish()
    return feed


def assert_same(feed: RecordCounter | None, other: RecordCounter) -> None:
    assert feed is not None
    evaluators = feed.finish(), other.finish()
    assert evaluators[0].to_bytes() == evaluators[1].to_bytes()
    assert evaluators[0].provenance == evaluators[1].provenance
    assert feed.rows == other.rows
    assert feed.slices_without_value == other.slices_without_value
    assert feed.bad.first == other.bad.first
    assert feed.bad.most_common() == other.bad.most_common()


REQUESTS = {
    "scores": Spec(score="score", positive="spam", wording=CALL),
    "labels": Spec(y_pred="y_true", wording=CALL),
    "weights and slices": Spec(
        score="score", positive="spam", weight="weight", slices=(("country",), ("country", "user"))
    ),
    "bootstrap": Spec(
        score="score", positive="spam", unit="user", more={"bins": 4}, metrics=("accuracy",)
    ),
    "limited scores": Spec(score="weight", positive="spam", max_scores=1024),
}


def pairs() -> list[Any]:
    """Every request with two formats, and every format with each kind of request."""
    endings = ENDINGS * 4
    return [
        pytest.param(endings[number + step], request, id=f"{endings[number + step]}-{name}")
        for number, (name, request) in enumerate(REQUESTS.items())
        for step in (0, 1)
    ]


@pytest.mark.parametrize(("ending", "request_"), pairs())
def test_parts_have_the_bytes_of_the_whole(
    small_tasks: None, tmp_path: Path, ending: str, request_: Spec
) -> None:
    table = rows_of(7)
    if ending == "csv":  # a row that is cut inside its quotes has another test
        table["country"] = [name.replace("\n", " ") for name in table["country"]]
    path = tmp_path / f"a.{ending}"
    write(path, table)
    assert_same(in_parts(request_, [str(path)]), by_one(request_, [str(path)]))


def test_many_files_of_several_formats(small_tasks: None, tmp_path: Path) -> None:
    for number, ending in enumerate([*ENDINGS, "json"] * 5):
        folder = tmp_path / f"country={'NO' if number % 2 else 'SE'}"
        folder.mkdir(exist_ok=True)
        table = rows_of(number, 20 + 40 * number)
        del table["country"]
        write(folder / f"{number:02}.{ending}", table)
    request = Spec(score="score", positive="spam", slices=(("country",),))
    assert_same(in_parts(request, [str(tmp_path)]), by_one(request, [str(tmp_path)]))


@pytest.mark.parametrize(
    ("name", "data", "cut"),
    [
        ("a.json", b"{}\n", True),
        ("a.json", b"\xef\xbb\xbf \n[{}]", False),
        ("a.json", "{}\n".encode("utf-16"), False),
        ("a.csv", b"y_true,score\n1, 2\n", True),
        ("a.csv", b"y_true, score\n1,2\n", False),
        ("a.csv", b"", False),
    ],
)
def test_files_that_cannot_be_cut(tmp_path: Path, name: str, data: bytes, cut: bool) -> None:
    (tmp_path / name).write_bytes(data)
    (source,) = find_sources([str(tmp_path / name)])
    assert can_be_cut(source) is cut


BYTES = st.lists(
    st.sampled_from(
        [
            *(b"\n", b"\r\n", b"\xef\xbb\xbf", b"\xff", b" ", b'"', b",,", b"y_true,score\n"),
            *(b"a,1\n", b"b,.5\n", b'"a","2"\n', b'"a\nb",3\n', b"b,x\n", b'a"b,4\n'),
            *(b'{"y_true": "a", "score": 1}\n', b'{"y_true": "b", "score": "x"}\n', b"{}\n"),
        ]
    ),
    max_size=40,
).map(b"".join)


@contextmanager
def cut_at(head: int, least: int = 0, largest: int = 0) -> Iterator[None]:
    """Tasks of so many bytes, which threads count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_HEAD_BYTES", head)
        patch.setattr(parts, "_LEAST_TASK", least or head)
        patch.setattr(parts, "_LARGEST_TASK", largest or head)
        patch.setattr(parts, "_Other", InThisProcess)
        yield


@given(data=BYTES, size=st.integers(1, 60), ending=st.sampled_from(["csv", "jsonl"]))
@settings(max_examples=150)
def test_whatever_the_bytes_are_and_wherever_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, size: int, ending: str
) -> None:
    path = tmp_path_factory.mktemp("cut") / f"a.{ending}"
    head = b"y_true,score\na,1\nb,2\n"
    path.write_bytes((head if ending == "csv" else b'{"y_true": "a", "score": 1}\n' * 2) + data)
    request = Spec(score="score", positive="a", slices=(("y_true",),))
    with cut_at(size):
        feed = in_parts(request, [str(path)], skip=True)
    if feed is not None:
        assert_same(feed, by_one(request, [str(path)], skip=True))


@given(data=st.data(), names=st.sampled_from(["jsonl", "csv", "jsonl csv", "csv jsonl csv"]))
@settings(max_examples=50, deadline=None)
def test_the_first_bad_records_of_all_parts_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, names: str
) -> None:
    """With two processes more, and tasks that hold whole files as well as parts of others."""
    folder = tmp_path_factory.mktemp("bad")
    for number, ending in enumerate(names.split()):
        rows = data.draw(st.integers(1, 150))
        bad = data.draw(st.sets(st.integers(0, rows - 1), max_size=14))
        scores = ["x" if row in bad else row / 8 for row in range(2 * rows)]
        if not number:
            scores[:2] = [0.5, 0.5]
        table = {"y_true": ["a", "b"] * rows, "score": scores}
        write(folder / f"{number}.{ending}", table)
    request = Spec(score="score", positive="a", negative="b")
    with cut_at(data.draw(st.integers(40, 900))):
        feed = in_parts(request, [str(folder)], skip=True, workers=3)
    if feed is not None:
        assert_same(feed, by_one(request, [str(folder)], skip=True))


@given(
    lengths=st.lists(st.sampled_from([0, 1, 20_000]), max_size=9),
    cuts=st.lists(st.integers(0, 90_000), max_size=5),
    ends=st.booleans(),
)
def test_lines_within_ranges_that_meet_are_all_lines_once(
    lengths: list[int], cuts: list[int], ends: bool
) -> None:
    data = b"\n".join(b"a" * length for length in lengths) + b"\n" * ends
    borders = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    found = []
    for begin, end in pairwise(borders):
        lines = LinesWithin(io.BytesIO(data), begin, end)
        found.append(b"".join(iter(lambda one=lines: one.read(1_000), b"")))  # type: ignore[misc]
        so_far = b"".join(found)
        assert so_far == data or so_far[-1:] in (b"\n", b"")
    assert b"".join(found) == data


def changed(path: Path, **at: tuple[int, Any]) -> list[str]:
    """A file of records, in which one value is another."""
    table = rows_of(3)
    for name, (row, value) in at.items():
        table[name][row] = value
    write(path, table)
    return [str(path)]


SCORES = Spec(score="score", positive="spam", weight="weight", slices=(("user",),))
ONLY_BY_ONE = {
    "a bad record stops the run": (SCORES, {"score": (1_450, "x")}),
    "a record that the evaluator refuses": (SCORES, {"y_true": (1_450, 3)}),
    "a weight that is not whole": (SCORES, {"weight": (1_450, 0.5)}),
    "a weight that is not whole, in the first records": (SCORES, {"weight": (1, 0.5)}),
    "more slices than are kept": (
        Spec(score="score", positive="spam", slices=(("user",),), max_slices=50),
        {"user": (1_450, "other")},
    ),
}


@pytest.mark.parametrize(("request_", "change"), ONLY_BY_ONE.values(), ids=ONLY_BY_ONE)
def test_what_is_left_to_one_process(
    small_tasks: None, tmp_path: Path, request_: Spec, change: dict[str, Any]
) -> None:
    assert in_parts(request_, changed(tmp_path / "a.jsonl", **change)) is None


def test_labels_that_parts_discover(small_tasks: None, tmp_path: Path) -> None:
    """Each part finds the negative label by itself, and the head may have seen none or another."""
    path, table, many = tmp_path / "a.jsonl", rows_of(1), ["spam"] * 600
    request = Spec(score="score", positive="spam")
    for y_true in (many[:100] + table["y_true"][100:], [*many, "ham", "eggs", *many, *many[:298]]):
        write(path, table | {"y_true": y_true})
        feed = in_parts(request, [str(path)], skip="eggs" in y_true)
        assert_same(feed, by_one(request, [str(path)], skip="eggs" in y_true))


def test_parts_that_discover_other_labels_are_refused(tmp_path: Path) -> None:
    feeds = [RecordCounter(Spec(score="score", positive="spam"), skip=True)]
    for name in ("spam", "ham", "eggs"):
        path = tmp_path / f"{name}.jsonl"
        write(path, {"y_true": ["spam", name], "score": [0.5, 0.5]})
        parts._count(feeds[-1], LabelTypes(), [parts.Piece(find_sources([str(path)])[0], None)])
        feeds[-1].flush()
        feeds.append(feeds[0].part())
    head, ham, eggs, _ = feeds
    head.add_part(ham)
    with pytest.raises(StateError, match="different negative labels"):
        head.add_part(eggs)


def test_labels_that_only_some_parts_have(small_tasks: None, tmp_path: Path) -> None:
    table, request = rows_of(1), Spec(y_pred="country")
    table["y_true"][1_400] = "eggs"
    write(tmp_path / "a.jsonl", table)
    feed = in_parts(request, [str(tmp_path)])
    assert feed is not None
    with pytest.raises(InputError, match="some of the labels"):
        feed.finish()
    table["country"][750] = "eggs"
    write(tmp_path / "a.jsonl", table)
    assert_same(in_parts(request, [str(tmp_path)]), by_one(request, [str(tmp_path)]))


def test_rows_that_are_cut_inside_their_quotes(small_tasks: None, tmp_path: Path) -> None:
    write(tmp_path / "a.csv", rows_of(5) | {"country": ["a\n" * 300, "b"] * (ROWS // 2)})
    assert in_parts(Spec(score="score", positive="spam"), [str(tmp_path)]) is None
    assert se.evaluate(str(tmp_path), score="score", positive="spam").total.support == ROWS


class Killed(parts._Other):
    """A process that is killed before its first answer."""

    def receive(self) -> Any:
        self._process.kill()
        return super().receive()


class Surprised(InThisProcess):
    """Runs out of memory when the state of the process is received."""

    def receive(self) -> Any:
        found = super().receive()
        if isinstance(found, RecordCounter):
            raise MemoryError
        return found


@pytest.mark.parametrize("process", [Killed, Surprised])
def test_a_process_that_ends_or_raises_leaves_the_records_to_one(
    small_tasks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: type
) -> None:
    monkeypatch.setattr(parts, "_Other", process)
    paths = changed(tmp_path / "a.jsonl")
    assert in_parts(SCORES, paths) is None


def test_an_empty_file_is_no_less_an_error_in_a_task_of_its_own(
    small_tasks: None, tmp_path: Path
) -> None:
    # Tasks of 1,000 and then of 2,000 bytes, of which the last ends with the file.
    text = "y_true,score\n" + "1,0.2345\n0,0.1234\n" * 499 + "0,.5\n"
    assert len(text) == 9_000
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").touch()
    assert in_parts(Spec(score="score"), [str(tmp_path)]) is None


def test_small_files_and_a_pipe_are_counted_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = find_sources(changed(tmp_path / "a.jsonl"))
    monkeypatch.setattr(parts, "_cores", lambda: 8)
    assert parts.processes(None, SCORES, sources) == 1
    monkeypatch.setattr(parts, "LEAST_BYTES", 1_000)
    assert parts.processes(None, SCORES, sources) == 8
    assert parts.processes(None, Spec(score="score", window=se.Last(9)), sources) == 1
    os.mkfifo(tmp_path / "b.jsonl")
    with pytest.raises(OptionError, match="a pipe, which can be read once"):
        parts.processes(2, SCORES, find_sources([str(tmp_path / "b.jsonl")]))


def test_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_HEAD_BYTES", 1_000)
    monkeypatch.setattr(parts, "_LEAST_TASK", 2_000)
    paths = changed(tmp_path / "a.jsonl")
    given: dict[str, Any] = {"score": "score", "positive": "spam", "by": ["country", "user"]}
    one = se.evaluate(paths, workers=1, **given)
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            started.append(self)
            # An interrupt from the terminal is not theirs.
            assert os.getsid(self.pid) == self.pid

    monkeypatch.setattr(subprocess, "Popen", Noted)
    assert se.evaluate(paths, workers=3, **given).to_bytes() == one.to_bytes()
    assert len(started) == 2


def test_the_command_prints_and_saves_the_same_with_any_number_of_processes(
    small_tasks: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = in_process(capfd)
    paths = changed(tmp_path / "a.jsonl", score=(1_450, "x"), y_true=(750, "eggs"))
    command = ["evaluate", *paths, "--score", "score", "--positive", "spam", "--negative", "ham"]
    command += ["--slice", "country", "--format", "json", "--threshold", "f1"]
    one, several = (
        run(*command, "--on-bad", "skip", "--save", tmp_path / workers, "--workers", workers)
        for workers in "13"
    )
    assert several == one
    assert one.code == 0
    assert "a.jsonl:751: y_true" in one.err
    assert (tmp_path / "3").read_bytes() == (tmp_path / "1").read_bytes()
    assert run(*command, "--workers", "3") == run(*command, "--workers", "1")
