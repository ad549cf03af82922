"""Replay real streams through online models, then evaluate the predictions.

Run it with ``make demo``. It writes ``demos/out/*.jsonl`` once and evaluates the
files with the command line.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import streameval as se
from demos import streams
from demos.picture import draw

OUT = Path(__file__).parent / "out"
FLIGHTS = 327_346
ENOUGH = 1_000
"""The least support of a slice or a week that is shown."""

console = Console(highlight=False)
# Progress bars go to stderr, so that stdout can be written to a file.
bars = Console(stderr=True)


def write(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write JSON lines, first under a temporary name, so that no partial file is left."""
    count = 0
    draft = path.with_suffix(".part")
    with draft.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            count += 1
    draft.replace(path)
    return count


def replay_flights() -> Path:
    """The path of ``predictions.jsonl``, which is made at the first run."""
    path = OUT / "predictions.jsonl"
    if path.exists():
        console.print(f"{path.name} is left from an earlier run")
        return path
    start = time.monotonic()
    with Progress(console=bars) as progress:
        task = progress.add_task("flights", total=FLIGHTS)
        pending = 0

        def advance() -> None:
            nonlocal pending
            pending += 1
            if pending == 1_000:
                progress.advance(task, pending)
                pending = 0

        count = write(path, streams.flights(advance))
        progress.update(task, completed=count)
    console.print(f"{count:,} predictions in {time.monotonic() - start:.0f} s")
    return path


def replay_quick(name: str, stream: Callable[[], Iterator[dict[str, Any]]]) -> Path:
    """The path of a small stream's file."""
    path = OUT / f"{name}.jsonl"
    if not path.exists():
        write(path, stream())
    return path


_STREAMEVAL = (sys.executable, "-m", "streameval.cli")


def streameval(command: str, *arguments: str | Path, pipe: str = "") -> None:
    """Run the command line, and print the command as one line to copy."""
    words = [
        os.path.relpath(word) if isinstance(word, Path) else word for word in (command, *arguments)
    ]
    line = f"$ streameval {shlex.join(words)}{pipe and ' | '}{pipe}"
    console.print()
    console.print(line, style="bold", markup=False, soft_wrap=True)
    start = time.monotonic()
    done = subprocess.run(
        [*_STREAMEVAL, *words], check=True, stdout=subprocess.PIPE if pipe else None
    )
    if pipe:
        subprocess.run(shlex.split(pipe), input=done.stdout, check=True)
    console.print(f"({time.monotonic() - start:.1f} s)", style="dim")


def heading(text: str, shows: str) -> None:
    """A line across the page, and what the scene below it shows."""
    console.print()
    console.rule(text)
    console.print(shows, soft_wrap=True)


def print_the_worst(weeks: se.Evaluator) -> None:
    """Print where the model is worst, from the saved state."""
    heading(
        "Where the model is worst",
        "In Python: the same saved state, asked for the worst carriers, airports and weeks.",
    )
    table = Table("", "", "f1", "flights", box=None, pad_edge=False)
    table.columns[2].justify = table.columns[3].justify = "right"
    for name in ("carrier", "origin"):
        report = weeks.slice_report("f1", min_support=ENOUGH)
        rows = [row for row in report.rows if row.slice[0][0] == name]
        for row in rows[:2]:
            table.add_row(name, str(row.slice[0][1]), f"{row.value:.4f}", f"{row.support:,}")
    series = [row for row in weeks.series("f1") if row.support >= ENOUGH]
    for week in sorted(series, key=lambda row: row.value)[:3]:
        table.add_row("week from", week.start[:10], f"{week.value:.4f}", f"{week.support:,}")
    table.add_row("all", "", f"{weeks['f1']:.4f}", f"{weeks.confusion.total:,}")
    console.print(table)


def print_files(files: dict[str, str], seconds: float) -> None:
    """Print the files of the demo and their contents."""
    heading("What was written", "All files of this demo; the states can be merged and reported on.")
    table = Table("", "", "", box=None, pad_edge=False, show_header=False)
    table.columns[1].justify = "right"
    for name, words in files.items():
        path = OUT / name
        table.add_row(os.path.relpath(path), f"{path.stat().st_size / 1e6:.1f} MB", words)
    console.print(table)
    console.print(f"\nDone in {seconds:.0f} s.")


NEXT = """\
What to do next
  streameval demo                     the dashboard, live, over a year of flights
  streameval evaluate YOUR.csv --y-true LABEL --score SCORE
                                      the same tables of your own file
  docs/start.md                       five minutes of each way in; `make docs` builds the site"""


def offer_dashboard() -> None:
    """At a terminal, offer the live dashboard, and keep it up until Enter."""
    if os.environ.get("CI") or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    console.print()
    if input("Open the live dashboard now? [y/N] ").strip().lower() not in ("y", "yes"):
        return
    run = subprocess.Popen(
        [*_STREAMEVAL, "demo"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        input("Starting. Open the address below in a browser; Enter ends it.\n")
    except (EOFError, KeyboardInterrupt):
        pass
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()


def main() -> None:
    """The whole demo."""
    start = time.monotonic()
    OUT.mkdir(exist_ok=True)

    heading(
        "1,250 web pages, phishing or not",
        "One command: every usual metric of a file, the table of classes, and the confusion.",
    )
    phishing = replay_quick("phishing", streams.phishing)
    streameval("evaluate", phishing, "--y-true", "phishing", "--score", "score")

    heading(
        "2,310 image patches of seven classes",
        "Several classes with probabilities, and 95 % confidence intervals.",
    )
    segments = replay_quick("image_segments", streams.image_segments)
    streameval(
        "evaluate", segments, "--y-true", "label", "--proba", "proba",
        "--metrics", "accuracy,f1_macro,log_loss,roc_auc_ovr", "--intervals", "0.95",
    )  # fmt: skip

    heading(
        "A year of flights out of New York: late or not?",
        "An online model predicts each flight before it learns from it; the state is saved.",
    )
    path = replay_flights()
    fields = ("--y-true", "late", "--score", "score")
    streameval("evaluate", path, *fields, "--save", OUT / "flights.state")

    heading(
        "The same by week, by carrier and by airport",
        "Panes of event time and slices, in one pass; the state is saved.",
    )
    options = ("--window", "panes:53w/1w", "--slice", "carrier,origin")
    streameval(
        "evaluate", path, *fields, "--time", "departed", *options,
        "--metrics", "f1,roc_auc,brier_score", "--min-support", str(ENOUGH), "--worst", "5",
        "--save", OUT / "weeks.state",
    )  # fmt: skip

    heading(
        "The same numbers tomorrow",
        "The saved state has every carrier's AUC too, without the file.",
    )
    streameval(
        "report", OUT / "weeks.state", "--metrics", "roc_auc,brier_score",
        "--slice", "carrier", "--by", "roc_auc", "--min-support", str(ENOUGH), "--worst", "3",
    )  # fmt: skip

    heading(
        "The end of the year",
        "A fading window: an event weighs half for each week of age.",
    )
    streameval(
        "evaluate", path, *fields, "--time", "departed", "--window", "fading:7d",
        "--slice", "carrier", "--metrics", "f1,roc_auc", "--min-support", "100", "--worst", "3",
    )  # fmt: skip

    heading(
        "A month of it live",
        "A service: predictions posted over HTTP, labelled hours later, counted exactly once.",
    )
    live = OUT / "live"
    shutil.rmtree(live, ignore_errors=True)
    streameval("demo", "--days", "31", "--speed", "max", "--directory", live, pipe="tail -17")
    streameval(
        "store", "report", live / "flights.db", "--window", "7d", "--metrics", "f1,roc_auc",
        pipe="head -4",
    )  # fmt: skip

    weeks = se.load(OUT / "weeks.state")
    draw(weeks, OUT / "flights.png")
    print_the_worst(weeks)
    print_files(
        {
            "phishing.jsonl": "predictions for web pages",
            "image_segments.jsonl": "predictions for image patches",
            "predictions.jsonl": "predictions for flights",
            "flights.state": "all flights, for `streameval report`",
            "weeks.state": "the same by week, carrier and airport",
            "flights.png": "the picture of the README",
            "live/flights.db": "the store of the live month",
        },
        time.monotonic() - start,
    )
    console.print()
    console.print(NEXT, markup=False, highlight=False, soft_wrap=True)
    offer_dashboard()


if __name__ == "__main__":
    main()
