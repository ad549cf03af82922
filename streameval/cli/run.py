"""``streameval run``: the long-running evaluator."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Annotated

import msgspec
import typer

from streameval.cli.logs import LogFormat, LogFormatOption, log_to_stderr
from streameval.cli.output import write
from streameval.events.time import wall_time
from streameval.service.config.checks import check_store_key, check_store_path
from streameval.service.config.evaluators import (
    kind_of_settings,
    main_metrics,
    window_spec_of,
    with_stored_defaults,
)
from streameval.service.config.load import load_settings, resolved
from streameval.service.config.secrets import resolved_secrets, with_store
from streameval.service.config.settings import RunSettings
from streameval.service.store.store import read_store, shown_path, store_exists
from streameval.service.upkeep.settings_migration import migration_of


def run(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="A TOML file; `streameval init` writes one.")
    ],
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Only check the configuration, and print it with every default."
        ),
    ] = False,
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Set a key, as join.wait=6h; as often as needed."),
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="PATH", help="The store, instead of the file's.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Where to serve, as 127.0.0.1:8642; port 0 is any."),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Drop what the configuration no longer has, as window.day; as often as needed.",
        ),
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End when nothing is left to read.")
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Evaluate streams for as long as they flow; survives any crash with exact results."""
    overrides = list(set or [])
    if store is not None:
        overrides.append(f"store={store}")
    if listen is not None:
        overrides.append(f"serve.listen={listen}")
    settings = load_settings(config, overrides)
    if check:
        write(check_text(settings, dropped=drop or ()).rstrip("\n"))
        return
    # Imported here: --check does not need it.
    from streameval.service.run.service import run_service

    with log_to_stderr(log_format):
        run_service(
            settings,
            until_end=until_end,
            reread=partial(load_settings, config, overrides),
            drop=partial(_confirmed, drop or ()),
            file=f"{socket.gethostname()}:{os.path.abspath(config)}",
        )


def _confirmed(named: Sequence[str], drops: Mapping[str, str]) -> Sequence[str]:
    """The names that may be dropped: given as options, or confirmed on a terminal."""
    if drops.keys() <= set(named) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return named
    for name, text in drops.items():
        if name not in named and not typer.confirm(f"{text} will be dropped: go on?", err=True):
            return named
    return [*drops]


def check_text(
    settings: RunSettings,
    environment: Mapping[str, str] = os.environ,
    dropped: Collection[str] = (),
) -> str:
    """The settings with every default as a configuration; comments say what a run would do."""
    given, resolve = settings, resolved_secrets(settings, environment)
    settings = with_store(settings, resolve)
    check_store_key(settings)
    check_store_path(settings.store)
    changes: list[str] = []
    if store_exists(settings.store):
        settings, changes = _changes(settings, dropped)
    else:
        settings = with_stored_defaults(settings, {})
    lines = ["# This can be run. Defaults are filled in, secrets are hidden."]
    for window in settings.window:
        words = kind_of_settings(window).words(window_spec_of(window, settings.join))
        lines.append(f"# window {window.name}: {words}")
    lines.append(f"# slices are shown with: {', '.join(main_metrics(settings))}")
    lines += [f"# store {shown_path(settings.store)}: {line}" for line in changes]
    settings = msgspec.structs.replace(settings, store=given.store)
    return "\n".join([*lines, "", resolved(settings)])


def _changes(settings: RunSettings, dropped: Collection[str]) -> tuple[RunSettings, list[str]]:
    """The settings beside their store, and the changes that a run would make to it."""
    with closing(read_store(settings.store)) as store, store.reading() as connection:
        found = migration_of(store.path, connection, settings, wall_time())
    return found.settings, found.lines + [
        f"{text} would be dropped" + ("" if name in dropped else f"; needs --drop {name}")
        for name, text in found.drops.items()
    ]
