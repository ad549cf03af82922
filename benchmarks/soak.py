"""A long run under a steady load: memory has to stay flat, and the lag bounded.

    python -m benchmarks.soak --minutes 60 --rate 20000

Posts predictions and their labels over HTTP at so many events a second to a run
with a join, a window of panes and slices, and looks at it every ten seconds: its
resident memory, the bytes that wait in the inbox, the size of store and inbox,
what a checkpoint takes. ``soak.json`` has a sample a minute, ``soak.md`` the verdict;
of less than an hour, ``soak-short``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.service import fetched, run, until
from tests.support.brokers import free_port

HERE = Path(__file__).parent
_POST = 200
_LOOK_SECONDS = 10.0
_KEPT_EVERY = 6

CONFIG = """
store = "run.db"
[evaluator]
slices = ["country"]
[fields]
id = "id"
score = "score"
[http]
[join]
wait = "1m"
remember = "1m"
[[window]]
name = "all"
[[window]]
name = "5m"
length = "5m"
pane = "1m"
[serve]
listen = "127.0.0.1:{port}"
"""


def _sample(folder: Path, pid: int, port: int, begun: float) -> dict[str, Any]:
    status = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]
    found = fetched(port, "/api/partitions")
    state = fetched(port, "/api/status")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        "seconds": round(time.perf_counter() - begun, 1),
        "rss_mib": round(int(status) / 1024, 1),
        "lag_bytes": None if found is None else sum(p["lag"] or 0 for p in found["partitions"]),
        "checkpoint_seconds": None if state is None else state["run"]["checkpoint"]["seconds"],
        "disk_mib": round(sum(path.stat().st_size for path in files) / 2**20, 1),
    }


def soak(minutes: float, rate: int) -> list[dict[str, Any]]:
    """Post for so many minutes; the samples."""
    port = free_port()
    rng = random.Random(1)
    samples: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with run(folder, CONFIG.format(port=port)) as process:
            until(lambda: fetched(port, "/api/status") is not None, 60)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            begun = time.perf_counter()
            look = 0.0
            posts = int(minutes * 60 * rate / (2 * _POST))
            for n in range(posts):
                ahead = begun + n * 2 * _POST / rate - time.perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
                ids = range(n * _POST, (n + 1) * _POST)
                # Three decimals, so that the index has an end.
                predictions = [
                    f'{{"id":"{i}","score":{rng.random():.3f},"country":"{"PDF"[i % 3]}"}}'
                    for i in ids
                ]
                # The labels of the post before, and one in fifty never.
                labels = [
                    f'{{"id":"{i - _POST}","y_true":{"true" if rng.random() < 0.3 else "false"}}}'
                    for i in ids
                    if i % 50 and i >= _POST
                ]
                for kind, lines in (("predictions", predictions), ("labels", labels)):
                    if lines:
                        connection.request("POST", f"/v1/{kind}", "\n".join(lines))
                        answer = connection.getresponse()
                        answer.read()
                        assert answer.status == 202, answer.status
                if time.perf_counter() - begun >= look:
                    samples.append(_sample(folder, process.pid, port, begun))
                    look += _LOOK_SECONDS
            until(lambda: _sample(folder, process.pid, port, begun)["lag_bytes"] == 0, 120)
            samples.append(_sample(folder, process.pid, port, begun))
            connection.close()
    return samples


def verdict(samples: list[dict[str, Any]], minutes: float, rate: int) -> str:
    """What the samples say."""
    reached = minutes * 60 * rate / samples[-1]["seconds"]
    settled = [s for s in samples if s["seconds"] >= samples[-1]["seconds"] / 3]
    first = [s["rss_mib"] for s in settled[: len(settled) // 4 or 1]]
    last = [s["rss_mib"] for s in settled[-(len(settled) // 4 or 1) :]]
    lags = [s["lag_bytes"] for s in settled if s["lag_bytes"] is not None]
    return f"""# Soak

`python -m benchmarks.soak --minutes {minutes:g} --rate {rate}`: {len(samples)} samples.

| what | |
| --- | --- |
| events a second, posted and counted | {reached:,.0f} |
| memory, first and last quarter after warm-up (mean, MiB) | {sum(first) / len(first):.0f}, \
{sum(last) / len(last):.0f} |
| memory, most (MiB) | {max(s["rss_mib"] for s in samples):.0f} |
| lag, most after warm-up (MiB) | {max(lags) / 2**20:.1f} |
| checkpoint, most (s) | {max(s["checkpoint_seconds"] or 0 for s in samples):.2f} |
| store and inbox, most (MiB) | {max(s["disk_mib"] for s in samples):.0f} |
"""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=20_000)
    given = parser.parse_args()
    samples = soak(given.minutes, given.rate)
    text = verdict(samples, given.minutes, given.rate)
    # A short trial leaves the results of the hour alone.
    name = "soak" if given.minutes >= 60 else "soak-short"
    lines = ",\n".join(json.dumps(one) for one in samples[::_KEPT_EVERY])
    (HERE / f"{name}.json").write_text(f"[\n{lines}\n]\n")
    (HERE / f"{name}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
