"""``streameval init``: a configuration to start from."""

from __future__ import annotations

import shlex
from typing import Annotated, get_args

import msgspec
import typer

from streameval.cli.output import TargetError, check_target, write

_HEAD = """\
# The configuration of `streameval run`. A line that begins with "#" and no space is
# a setting that is off: remove the "#" to switch it on. Check the file with
#
#     streameval run CONFIG.toml --check
#
# Durations are texts: "500ms", "90s", "5m", "1h", "7d", "2w". Secrets need not be
# in this file: "env:NAME" is a variable of the environment, "file:PATH" the text
# in a file.

# The file that everything is kept in; the inbox of posted records lies beside it.
store = "streameval.db"
# The level of the confidence intervals that are published; false: none.
#intervals = 0.95
"""

_SECTIONS = {
    "evaluator": "What is evaluated",
    "window": "Which events count: one [[window]] for each",
    "fields": "The fields of a record",
    "files": "Sources of records: any of these, together or alone",
    "join": "Labels that arrive later",
    "checkpoint": "How it runs",
    "alert": "Alerts: one [[alert]] for each",
}
"""Headings, by the table that they stand before."""

PathArgument = Annotated[
    str, typer.Argument(metavar="[PATH]", help="The file to write; - is the standard output.")
]


def init(path: PathArgument = "streameval.toml") -> None:
    """Write a configuration to start from, with every key explained."""
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


def template() -> str:
    """The whole text: every table explains its keys."""
    # Imported here: the help of the command loads nothing of a run.
    from streameval.service.config.settings import RunSettings

    parts = [_HEAD]
    for field in msgspec.structs.fields(RunSettings):
        if field.name in _SECTIONS:
            parts.append(f"\n# --- {_SECTIONS[field.name]} ".ljust(84, "-") + "\n")
        kinds = (field.type, *get_args(field.type))
        parts += [kind.template for kind in kinds if hasattr(kind, "template")]
    return "\n".join(parts)
