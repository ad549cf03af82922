"""``streameval run``: the long-running evaluator."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import typer

from streameval.command_line.check import check_text
from streameval.command_line.output import write
from streameval.stream.config.load import load_settings
from streameval.stream.one_line_log import log_to_stderr

__all__ = ["run"]


def run(
    config: Annotated[
        str,
        typer.Argument(metavar="CONFIG", help="A TOML file; `streameval init` writes one."),
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
    # Imported here: what runs for days may load what a look at --check need not.
    from streameval.command_line.service import run_service

    with log_to_stderr():
        run_service(
            settings,
            until_end=until_end,
            reread=partial(load_settings, config, overrides),
            drop=partial(_confirmed, drop or ()),
        )


def _confirmed(named: Sequence[str], drops: Mapping[str, str]) -> Sequence[str]:
    """The names that may be dropped: given as options, or confirmed on a terminal."""
    if drops.keys() <= set(named) or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return named
    for name, text in drops.items():
        if name not in named and not typer.confirm(f"{text} will be dropped: go on?", err=True):
            return named
    return [*drops]
