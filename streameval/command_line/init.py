"""``streameval init``: a configuration to start from."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from streameval.command_line.output import TargetError, check_target, write

__all__ = ["init"]

PathArgument = Annotated[
    str, typer.Argument(metavar="[PATH]", help="The file to write; - is the standard output.")
]


def init(path: PathArgument = "streameval.toml") -> None:
    """Write a configuration to start from, with every key explained."""
    # Imported here: the text is made of what describes the sources, and the help needs none.
    from streameval.command_line.config_template import template

    if path == "-":
        write(template().rstrip("\n"))
        return
    check_target(path)
    try:
        # "x" looks and creates at once: nothing is ever overwritten.
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(template())
    except FileExistsError:
        raise TargetError(
            f"{path}: expected no such file yet, got one that is there; "
            "name another, or remove it first"
        ) from None
    except OSError as error:
        raise TargetError(f"{path}: cannot be written: {error.strerror or error}") from None
    write(f"wrote {path}; see what it comes to with: streameval run {shlex.quote(path)} --check")
