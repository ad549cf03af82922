"""``streameval serve``: pages, API and metrics of a store that other processes write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from streameval.cli.logs import LogFormat, LogFormatOption, log_to_stderr
from streameval.errors import OptionError
from streameval.service.config.load import load_settings
from streameval.service.config.secrets import secret
from streameval.service.config.settings import RunSettings
from streameval.service.store.kept_settings import kept_settings


def serve(
    store: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The store: a file, or postgresql://…")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="CONFIG",
            help="The configuration of the run; without it, what the store holds of it.",
        ),
    ] = None,
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Set a key, as serve.token=env:STREAMEVAL_TOKEN; as often as needed.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Where to serve, as 127.0.0.1:8642; port 0 is any."),
    ] = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Serve what runs have counted in a store; any number of processes may serve one.

    The store is only read. Where workers share it, one of those that were started with --config
    judges the alerts, and writes their states.
    """
    if store is None and config is None:
        raise OptionError.requires("serve", "--store or --config")
    overrides = list(set or [])
    if listen is not None:
        overrides.append(f"serve.listen={listen}")
    given = load_settings(config).store if store is None and config is not None else store
    path = secret(given or "", "store")

    def settings_of(meta: Mapping[str, str]) -> RunSettings:
        if config is None:
            return kept_settings(path, meta, overrides)
        return load_settings(config, overrides)

    # Imported here: --help does not need it.
    from streameval.service.run.store_reader import serve_store

    with log_to_stderr(log_format):
        serve_store(path, settings_of, judges=config is not None)
