"""``streameval run``: its rate beside a bare loop's, its memory, its delays."""

from __future__ import annotations

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

from benchmarks.dashboard import first_paint
from benchmarks.memory import measured
from benchmarks.timing import Part, Row
from benchmarks.topics import bare_loop, fill
from streameval.errors import StoreError
from streameval.service.config.evaluators import fingerprint
from streameval.service.config.load import settings_from_text
from streameval.service.decode.decoder import RecordDecoder
from streameval.service.publish.snapshot import Publisher
from streameval.service.run.loop import ReadLoop
from streameval.service.run.runner import Runner
from streameval.service.run.service import run_service
from streameval.service.run.unit import Unit
from streameval.service.sources.raw import LagUnit, PartitionStatus, RawBatch
from streameval.service.store.postgres import PostgresStore
from streameval.service.store.store import open_store, read_store
from tests.support.brokers import Broker, free_port, running_broker
from tests.support.postgres_server import running_postgres

__all__ = ["fetched", "parts", "run", "until"]

_RUN = """
store = "{store}"
[serve]
enabled = false
[evaluator]
metrics = ["accuracy", "f1", "roc_auc"]
[fields]
id = "id"
score = "score"
"""

_KAFKA = f"""{_RUN}
[kafka]
stop_at_end = true
{{topics}}
[kafka.properties]
"bootstrap.servers" = "{{bootstrap}}"
"""

_JOIN = '\n[join]\nwait = "1h"\n'


def parts(quick: bool) -> list[Part]:
    """Every row of the service."""
    repeats = 1 if quick else 5
    pairs = 100_000 if quick else 1_000_000
    # Enough for several checkpoints: beside the last one nothing is read.
    complete, shared = (500_000, 800_000) if quick else (2_000_000, 6_000_000)
    return [
        partial(_with_a_broker, without_join, complete, repeats),
        partial(_with_a_broker, with_join, pairs, repeats),
        partial(_with_a_broker, by_two_workers, shared, 1 if quick else 3),
        partial(joined_from_files, pairs, repeats),
        partial(on_postgresql, 100_000 if quick else 2_000_000, repeats),
        partial(checkpointed, *((100, 10) if quick else (1000, 40))),
        partial(waiting, 1_000_000 if quick else 10_000_000),
        partial(posted_to_visible, 5 if quick else 20),
        painted,
    ]


def _with_a_broker(measure: Callable[[Broker, int, int], Row], records: int, repeats: int) -> Row:
    with running_broker() as broker:
        return measure(broker, records, repeats)


def _records(count: int, *, labels: bool) -> Iterator[bytes]:
    """66 bytes each: a prediction with its label in it, or one without."""
    for n in range(count):
        score = (n * 7919 % 1_000_003) / 1_000_003
        end = f', "y_true": {"true" if score * 7 % 1 < score else "false"}' if labels else ""
        yield f'{{"id": "event-{n:09d}", "score": {score:.6f}{end}}}'.encode()


def _labels(count: int) -> Iterator[bytes]:
    for n in range(count):
        yield f'{{"id": "event-{n:09d}", "y_true": {"true" if n % 3 else "false"}}}'.encode()


def _seconds(text: str) -> float:
    """What a run takes in a process of its own, as a user's does."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_measured, text).result()


def _measured(text: str) -> float:
    """From the first records to the last checkpoint; without connecting, as in the bare loop."""
    collected: list[float] = []
    written: list[float] = []

    def started(runner: Runner, url: object) -> None:
        def collect(batch: RawBatch) -> bool:
            collected.append(time.perf_counter())
            return Runner.collect(runner, batch)

        def committed() -> None:
            Runner.committed(runner)
            written.append(time.perf_counter())

        runner.collect, runner.committed = collect, committed  # type: ignore[method-assign]

    run_service(settings_from_text(text), started=started)
    return written[-1] - collected[0]


def without_join(broker: Broker, records: int, repeats: int) -> Row:
    """Complete records to accuracy, F1 and AUC, beside consuming and decoding alone."""
    topic = f"complete-{time.time_ns()}"
    broker.make_topic(topic)
    fill(broker.bootstrap, topic, _records(records, labels=True))
    mine, theirs = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            text = _KAFKA.format(
                store=f"{folder}/run.db", topics=f'records = "{topic}"', bootstrap=broker.bootstrap
            )
            mine.append(_seconds(text))
        theirs.append(bare_loop(broker.bootstrap, topic, records))
    ratio = statistics.median(b / a for a, b in zip(mine, theirs, strict=True))
    return Row(
        "Kafka to accuracy, F1 and AUC, checkpoints each second",
        statistics.median(mine) / records * 1e6,
        statistics.median(theirs) / records * 1e6,
        ratio,
        "≥ 0.7×",
        ratio >= 0.7,
        "confluent-kafka and msgspec, doing nothing with it",
        "µs a record",
    )


def with_join(broker: Broker, pairs: int, repeats: int) -> Row:
    """Predictions and labels of two topics, joined, beside consuming and decoding one of them."""
    names = {kind: f"{kind}-{time.time_ns()}" for kind in ("predictions", "labels")}
    for name in names.values():
        broker.make_topic(name)
    fill(broker.bootstrap, names["predictions"], _records(pairs, labels=False))
    fill(broker.bootstrap, names["labels"], _labels(pairs))
    topics = "\n".join(f'{kind} = "{name}"' for kind, name in names.items())
    mine, theirs = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            text = _KAFKA.format(
                store=f"{folder}/run.db", topics=topics, bootstrap=broker.bootstrap
            )
            mine.append(_seconds(text + _JOIN))
        theirs.append(bare_loop(broker.bootstrap, names["predictions"], pairs))
    ratio = statistics.median(b / a for a, b in zip(mine, theirs, strict=True))
    return Row(
        "Kafka, predictions and labels joined, checkpoints each second; µs a pair",
        statistics.median(mine) / pairs * 1e6,
        statistics.median(theirs) / pairs * 1e6,
        ratio,
        "≥ 0.2×",
        ratio >= 0.2,
        "confluent-kafka and msgspec over the predictions alone; µs a record",
        "µs",
    )


_FILES = f"""{_RUN}
[files]
predictions = ["{{folder}}/predictions.jsonl"]
labels = ["{{folder}}/labels.jsonl"]
follow = false
"""


_WORKERS = """
[kafka]
records = "{topic}"
assignment = "group"
[kafka.properties]
"bootstrap.servers" = "{bootstrap}"
"group.id" = "{topic}"
"group.instance.id" = ""
# They stand still until the topic is full.
"session.timeout.ms" = 40000
"""

_PARTITIONS = 12
_CORES = os.cpu_count() or 1


def by_two_workers(broker: Broker, records: int, repeats: int) -> list[Row]:
    """Two workers of one group beside one, on two cores that broker and database use as well."""
    found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        postgres = stack.enter_context(running_postgres(folder / "postgres"))
        for n in range(repeats):
            for workers, rows in found.items():
                store = postgres.address(f"workers_{n}_{workers}")
                rows.append(_by_workers(broker, folder / f"{n}-{workers}", store, records, workers))
    wall, cpu, busy = (
        {workers: statistics.median(row[part] for row in rows) for workers, rows in found.items()}
        for part in (0, 1, 2)
    )
    measures = []
    # Broker and database run beside one worker already: what they use is missing for a second one.
    most = _CORES * wall[1] / busy[1]
    limit = f" (with all on {_CORES} cores at most {most:.2f}×)"
    for what, seconds, ratio, target, reached in (
        (limit, wall, wall[1] / wall[2], "≥ 1.6×", wall[1] / wall[2] >= 1.6),
        *(
            (f", CPU time of the {whose}", one, one[2] / one[1], "≤ 1.25×", one[2] <= 1.25 * one[1])
            for whose, one in (("workers", cpu), ("machine", busy))
        ),
    ):
        measures.append(
            Row(
                f"Kafka, {_PARTITIONS} partitions, two workers and PostgreSQL{what}",
                seconds[2] / records * 1e6,
                seconds[1] / records * 1e6,
                ratio,
                target,
                reached,
                "one worker",
                "µs a record",
            )
        )
    return measures


def _by_workers(
    broker: Broker, place: Path, store: str, records: int, workers: int
) -> tuple[float, float, float]:
    """From a full topic to the last checkpoint: seconds, and CPU seconds of workers and machine."""
    topic = f"shared-{time.time_ns()}"
    broker.make_topic(topic, _PARTITIONS)
    text = _RUN.format(store=store) + _WORKERS.format(topic=topic, bootstrap=broker.bootstrap)
    with ExitStack() as stack:
        lives = []
        for n in range(workers):
            folder = place / str(n)
            folder.mkdir(parents=True)
            lives.append(stack.enter_context(run(folder, text)))
        until(lambda: _shares(store) == [_PARTITIONS // workers] * workers)
        for life in lives:
            life.send_signal(signal.SIGSTOP)
        lines = list(_records(records // _PARTITIONS, labels=True))
        for partition in range(_PARTITIONS):
            fill(broker.bootstrap, topic, lines, partition)
        # One connection: opening one at each look would use a good part of a core.
        counts = stack.enter_context(closing(cast("PostgresStore", read_store(store))))
        before, busy = sum(map(_cpu_seconds, lives)), _busy_seconds()
        begun = time.perf_counter()
        for life in lives:
            life.send_signal(signal.SIGCONT)
        until(lambda: _records_of(counts) >= len(lines) * _PARTITIONS)
        seconds = time.perf_counter() - begun
        return seconds, sum(map(_cpu_seconds, lives)) - before, _busy_seconds() - busy


def _records_of(store: PostgresStore) -> int:
    """Records of all units up to their last checkpoints."""
    query = "SELECT coalesce(sum(records), 0) FROM unit_positions"
    (records,) = store.executed(lambda raw: raw.execute(query).fetchone()) or (0,)
    return int(records)


def _shares(store: str) -> list[int]:
    """How many units each worker has claimed, of the claims that are the newest."""
    try:
        with closing(read_store(store)) as opened:
            holders = opened.connection.execute("SELECT worker FROM claims").fetchall()
    except StoreError:
        return []
    return sorted(Counter(worker for (worker,) in holders).values())


def _cpu_seconds(life: subprocess.Popen[bytes]) -> float:
    """Of a process that runs."""
    fields = Path(f"/proc/{life.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    """CPU time of the machine but for this process; there is nothing else to do meanwhile."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - time.process_time()


def joined_from_files(pairs: int, repeats: int) -> Row:
    """The same pairs out of two files."""
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, records in (
            ("predictions", _records(pairs, labels=False)),
            ("labels", _labels(pairs)),
        ):
            with Path(folder, f"{kind}.jsonl").open("wb") as file:
                file.writelines(line + b"\n" for line in records)
        for n in range(repeats):
            text = _FILES.format(store=f"{folder}/{n}.db", folder=folder)
            rates.append(pairs / _seconds(text + _JOIN))
    rate = statistics.median(rates)
    return Row(
        "files, predictions and labels joined, checkpoints each second",
        rate,
        150_000,
        rate / 150_000,
        "≥ 150,000 a second",
        rate >= 150_000,
        "the requirement",
        "pairs a second",
    )


def on_postgresql(records: int, repeats: int) -> Row:
    """The same records out of a file, counted into a schema of PostgreSQL and into a file."""
    seconds: dict[str, list[float]] = {"file": [], "postgresql": []}
    with tempfile.TemporaryDirectory(prefix="pg") as folder, ExitStack() as stack:
        server = stack.enter_context(running_postgres(Path(folder, "data")))
        with Path(folder, "records.jsonl").open("wb") as file:
            file.writelines(line + b"\n" for line in _records(records, labels=True))
        read = f'[files]\nrecords = ["{folder}/records.jsonl"]\nfollow = false\n'
        for n in range(repeats):
            stores = {"file": f"{folder}/{n}.db", "postgresql": server.address(f"n{n}")}
            for kind, store in stores.items():
                seconds[kind].append(_seconds(_RUN.format(store=store) + read))
    rates = {kind: records / statistics.median(each) for kind, each in seconds.items()}
    ratio = rates["postgresql"] / rates["file"]
    return Row(
        "records of files counted into a store on PostgreSQL, one process",
        rates["postgresql"],
        rates["file"],
        ratio,
        "≥ 0.8×",
        ratio >= 0.8,
        "the same into a SQLite file",
        "records a second",
    )


class _Hourly:
    """Fills panes of an hour with five events a slice; then a tenth of the slices counts on.

    With every tenth batch of those the window moves on: all slices begin another pane.
    From one read to the next is a checkpoint and what is published after it, which is timed.
    """

    def __init__(self, slices: int, panes: int, checkpoints: int) -> None:
        self.left = [(pane, slices, 5) for pane in range(panes)]
        self.left += [
            (panes + n // 10, *((slices // 10, 10) if n % 10 else (slices, 5)))
            for n in range(checkpoints)
        ]
        self.seconds: list[float] = []
        self.begun = 0.0

    @property
    def lag_unit(self) -> LagUnit:
        return "records"

    @property
    def finished(self) -> bool:
        return not self.left

    def clock(self) -> float:
        """So long between two batches that everything is published after each."""
        return time.perf_counter() - 3600 * len(self.left)

    def read(self, most: int, timeout: float) -> list[RawBatch]:
        if self.begun:
            self.seconds.append(time.perf_counter() - self.begun)
        self.begun = 0.0
        if not self.left:
            return []
        pane, slices, events = self.left.pop(0)
        lines = [
            b'{"score": %.3f, "y_true": %s, "country": "%d", "time": %d}'
            % (n * 7919 % 997 / 997, b"true" if n % 3 else b"false", n % slices, pane * 3600)
            for n in range(slices * events)
        ]
        self.begun = time.perf_counter()
        return [RawBatch("a", "records", lines, range(len(lines)), {"offset": -len(self.left)})]

    def checkpointed(self, positions: object) -> None: ...

    def status(self) -> list[PartitionStatus]:
        return []

    def close(self) -> None: ...


def checkpointed(slices: int, checkpoints: int) -> Row:
    """The slowest of many checkpoints, published, beside a window that holds one pane only."""
    slowest = {}
    for panes in (1, 24):
        source = _Hourly(slices, panes, checkpoints)
        with tempfile.TemporaryDirectory() as folder:
            settings = settings_from_text(f"""
store = "{folder}/run.db"
[evaluator]
slices = ["country"]
[[window]]
name = "day"
length = "24h"
pane = "1h"
[fields]
score = "score"
time = "time"
time_unit = "s"
[files]
records = ["none"]
[checkpoint]
events = 1
""")
            store = open_store(settings.store, fingerprint(settings))
            decoder = RecordDecoder(settings.fields, settings.evaluator, join=False)
            unit = Unit(settings, store, decoder)
            Runner(unit, Publisher(), ReadLoop(settings, source.clock)).run([source])
            store.close()
        assert len(source.seconds) == panes + checkpoints
        slowest[panes] = max(source.seconds[-checkpoints:])
    ratio = slowest[1] / slowest[24]
    return Row(
        f"{slices:,} events in {slices // 10} slices to a checkpoint that is published (each tenth "
        f"begins a pane of all slices), slowest of {checkpoints}, {slices:,} slices × 24 panes",
        slowest[24],
        slowest[1],
        ratio,
        "≥ 0.5×",
        ratio >= 0.5,
        "the same with one pane there",
        "s",
    )


@contextmanager
def run(folder: Path, text: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    config = folder / "run.toml"
    config.write_text(text)
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streameval.cli", "run", str(config), *options],
            stderr=log,
            cwd=folder,
        )
    try:
        yield process
    finally:
        if process.returncode is None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def fetched(port: int, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        data = answer.read()
        return json.loads(data) if answer.status == 200 else None
    except (OSError, ValueError):
        return None
    finally:
        connection.close()


def until(done: Callable[[], bool], seconds: float = 600) -> float:
    begun = time.perf_counter()
    while not done():
        if time.perf_counter() - begun > seconds:
            raise TimeoutError
        time.sleep(0.01)
    return time.perf_counter() - begun


def waiting(count: int) -> list[Row]:
    """Memory with so many predictions waiting; the time to go on with a million of them."""
    text = """
store = "run.db"
[fields]
id = "id"
score = "score"
[files]
predictions = ["predictions.jsonl"]
labels = ["labels.jsonl"]
follow = false
[join]
wait = "24h"
[serve]
enabled = false
"""
    found = []
    for size in sorted({1_000_000, count}):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "labels.jsonl").touch()
            with (folder / "predictions.jsonl").open("wb") as file:
                file.writelines(line + b"\n" for line in _records(size, labels=False))
            (folder / "run.toml").write_text(text)
            command = [sys.executable, "-m", "streameval.cli", "run", "run.toml"]
            done = subprocess.run(measured(command), cwd=folder, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()
            peak = int(done.stdout.splitlines()[-1]) / 2**20
            if size == count:
                found.append(
                    Row(
                        f"memory with {size:,} predictions waiting",
                        peak,
                        1024,
                        1024 / peak,
                        "≤ 1 GB",
                        peak <= 1024,
                        "the requirement",
                        "MiB, peak",
                    )
                )
            if size == 1_000_000:
                found.append(_restart(folder, text))
    return found


def _restart(folder: Path, text: str) -> Row:
    port = free_port()
    serving = text.replace("enabled = false", f'listen = "127.0.0.1:{port}"')
    serving = serving.replace("follow = false", "follow = true")
    with run(folder, serving):
        seconds = until(lambda: fetched(port, "/readyz") is not None)
        found = fetched(port, "/api/join")
        assert found["join"]["predictions"] == 1_000_000
    return Row(
        "from start to ready with 1,000,000 predictions waiting",
        seconds,
        5,
        5 / seconds,
        "< 5 s",
        seconds < 5,
        "the requirement",
    )


def posted_to_visible(seconds: int, rate: int = 20_000) -> Row:
    """From sending a post to its events in an answer of the API, at so many events a second."""
    port = free_port()
    text = f"""
store = "run.db"
[evaluator]
slices = ["country"]
[fields]
id = "id"
score = "score"
[http]
[join]
wait = "1h"
[serve]
listen = "127.0.0.1:{port}"
"""
    size = 100
    posts = seconds * rate // size // 2
    sent: list[float] = []
    seen: list[tuple[float, int]] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            found = fetched(port, "/api/join")
            if found is not None and found["join"] is not None:
                seen.append((time.perf_counter(), found["join"]["joined"]))
            time.sleep(0.02)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with run(folder, text):
            until(lambda: fetched(port, "/api/status") is not None)
            watcher = threading.Thread(target=look)
            watcher.start()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            begun = time.perf_counter()
            for n in range(posts):
                ahead = begun + n * 2 * size / rate - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
                ids = range(n * size, (n + 1) * size)
                for kind, lines in (
                    (
                        "predictions",
                        [f'{{"id":"{i}","score":0.{i % 997:03d},"country":"PT"}}' for i in ids],
                    ),
                    ("labels", [f'{{"id":"{i}","y_true":{str(i % 3 == 0).lower()}}}' for i in ids]),
                ):
                    if kind == "labels":
                        sent.append(time.perf_counter())
                    connection.request("POST", f"/v1/{kind}", "\n".join(lines))
                    answer = connection.getresponse()
                    answer.read()
                    assert answer.status == 202
            reached = 2 * size * posts / (time.perf_counter() - begun)
            until(lambda: bool(seen) and seen[-1][1] >= posts * size, 60)
            done.set()
            watcher.join()
            connection.close()
    delays = []
    place = 0
    for n, moment in enumerate(sent):
        while seen[place][1] < (n + 1) * size:
            place += 1
        delays.append(seen[place][0] - moment)
    worst = statistics.quantiles(delays, n=100)[98]
    return Row(
        f"from a post to /api, 99th percentile, at {reached:,.0f} events a second",
        worst,
        1.1,
        1.1 / worst,
        "≤ 1.1 s at 20,000 a second",
        worst <= 1.1 and reached > 0.95 * rate,
        "the requirement",
    )


def painted() -> list[Row]:
    """The dashboard's first paint with 1,000 slices; no row without a browser."""
    paint = first_paint()
    if paint is None:
        return []
    return [
        Row(
            "the dashboard's first paint with 1,000 slices (Chromium)",
            paint.first,
            1,
            1 / paint.first,
            "< 1 s",
            paint.first < 1,
            "the requirement",
        )
    ]
