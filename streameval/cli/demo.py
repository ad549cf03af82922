"""``streameval demo``: the whole path on real data, with nothing to configure."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from streameval.cli.output import say
from streameval.errors import InputError, MissingExtraError, shown
from streameval.events.time import duration

_FASTEST = "max"


def demo(
    speed: Annotated[
        str,
        typer.Option(
            help="Seconds of flights in a second; 3600 is an hour in a second; "
            f"{_FASTEST}: as fast as possible."
        ),
    ] = "7200",
    days: Annotated[int | None, typer.Option(help="Days to replay; all by default.")] = None,
    stop_after: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help='Duration, such as "30s".')
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port of the dashboard; 8642 by default if it is free, 0 for any."),
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option(help="Directory of configuration and store; deleted at the end by default."),
    ] = None,
) -> None:
    """Replay a year of flights through a run, with the dashboard open.

    Flights are predicted at departure by an online model and labelled hours
    later. Ctrl-C ends it with the report.
    """
    seconds = None if stop_after is None else duration(stop_after, "--for") / 1_000_000
    rate = _rate(speed)
    flights, posting = _parts()
    with ExitStack() as stack:
        # The run is another process and would outlive this one.
        stack.enter_context(_terminated_as_interrupted())
        if directory is None:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streameval-")))
        else:
            home = Path(directory)
        say("reading the flights of 2013 out of New York")
        departures = flights.departures(days)
        run = posting.DemoRun(home, port)
        stack.callback(run.stop)
        say(f"the run is at work in {run.config.parent}")
        say(f"dashboard: {run.url}  (Ctrl-C ends)")
        messages = flights.messages(departures)
        posts = posting.replay(messages, run.poster, speed=rate, stop_after=seconds)
        last = _replay(posts, len(departures))
        if last is not None:
            run.wait_counted(last)
        run.stop()
        command = [sys.executable, "-m", "streameval.cli", "store", "report", str(run.store)]
        subprocess.run(command, check=True)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM is handled as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _rate(speed: str) -> float | None:
    if speed == _FASTEST:
        return None
    try:
        rate = float(speed)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e12:
        raise InputError("--speed", expected=f'a number above 0, or "{_FASTEST}"', got=shown(speed))
    return rate


def _parts() -> list[Any]:
    """The demo's modules; they need packages that come with an extra."""
    names = ("flights", "replay")
    try:
        return [importlib.import_module(f"streameval.demo.{name}") for name in names]
    except ImportError as error:
        package = error.name or "river"
        raise MissingExtraError("streameval demo", package=package, extra="demo") from None


def _replay(posts: Any, total: int) -> Any:
    """Post everything with a progress bar; the last post, or None."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} flights"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    last = None
    with bar:
        task = bar.add_task("", total=total)
        try:
            for last in posts:
                when = f"{last.moment:%Y-%m-%d %H:%M}"
                bar.update(task, completed=last.predictions, description=when)
        except KeyboardInterrupt:
            bar.stop()
            say("ending with what was posted so far")
    return last
