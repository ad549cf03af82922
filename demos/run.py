"""The main job on real data: replay a stream through an online model, then evaluate it.

Run it with ``make demo``. It writes ``demos/out/*.jsonl`` once and gives the
files to ``streameval evaluate``, as anyone would with logs of their own.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from demos import flights, quick

OUT = Path(__file__).parent / "out"
FLIGHTS = 327_346

console = Console(stderr=True)


def write(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write JSON lines under a temporary name first, so that a stopped run leaves no half file."""
    count = 0
    draft = path.with_suffix(".part")
    with draft.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            count += 1
    draft.replace(path)
    return count


def replay_flights() -> Path:
    """``flights.jsonl``, made at the first run."""
    path = OUT / "predictions.jsonl"
    if path.exists():
        console.print(f"{path.name} is there from an earlier run")
        return path
    console.print("reading 336,776 flights; predicting each at departure, then learning from it")
    start = time.monotonic()
    with Progress(console=console) as progress:
        task = progress.add_task("flights", total=FLIGHTS)
        pending = 0

        def advance() -> None:
            nonlocal pending
            pending += 1
            if pending == 1_000:
                progress.advance(task, pending)
                pending = 0

        count = write(path, flights.predictions(advance))
        progress.update(task, completed=count)
    console.print(f"{count:,} predictions in {time.monotonic() - start:.0f} s")
    return path


def replay_quick(name: str, stream: Callable[[], Iterator[dict[str, Any]]]) -> Path:
    """A small stream's file."""
    path = OUT / f"{name}.jsonl"
    if not path.exists():
        write(path, stream())
    return path


def streameval(*arguments: str) -> None:
    """Run the command line as a user would, showing the command."""
    shown = [
        str(Path(a).relative_to(Path.cwd())) if a.startswith(str(OUT)) else a for a in arguments
    ]
    console.print(f"\n[bold]$ streameval {shlex.join(shown)}[/bold]", highlight=False)
    subprocess.run([sys.executable, "-m", "streameval.cli", *arguments], check=True)


def main() -> None:
    """The whole demo."""
    OUT.mkdir(exist_ok=True)
    phishing = replay_quick("phishing", quick.phishing)
    streameval("evaluate", str(phishing), "--y-true", "phishing", "--score", "score")
    segments = replay_quick("image_segments", quick.image_segments)
    streameval("evaluate", str(segments), "--y-true", "label", "--proba", "proba")
    path = replay_flights()
    streameval(
        "evaluate",
        str(path),
        "--y-true",
        "late",
        "--score",
        "score",
        "--save",
        str(OUT / "flights.state"),
    )


if __name__ == "__main__":
    main()
