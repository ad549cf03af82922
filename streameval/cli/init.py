"""``streameval init``: a configuration to start from."""

from __future__ import annotations

import json
import shlex
from typing import Annotated

import typer

from streameval.cli.output import TargetError, check_target, write

PathArgument = Annotated[
    str, typer.Argument(metavar="[PATH]", help="The file to write; - is the standard output.")
]


SchemaOption = Annotated[
    bool,
    typer.Option("--schema", help="Only print the JSON schema of a configuration, for editors."),
]


def init(path: PathArgument = "streameval.toml", schema: SchemaOption = False) -> None:
    """Write a configuration to start from, with every key explained."""
    # Imported here: the help of the command loads nothing of a run.
    from streameval.service.config.documents import json_schema, template

    if schema:
        write(json.dumps(json_schema(), indent=2))
        return
    if path == "-":
        write(template().rstrip("\n"))
        return
    check_target(path)
    try:
        # "x" checks and creates at once: no file is overwritten.
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(template())
    except FileExistsError:
        raise TargetError(
            f"{path}: expected no such file yet, got one that is there; "
            "name another, or remove it first"
        ) from None
    except OSError as error:
        raise TargetError(f"{path}: cannot be written: {error.strerror or error}") from None
    write(f"wrote {path}; check it with: streameval run {shlex.quote(path)} --check")
