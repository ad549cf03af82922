"""The help of the commands: options under their headings, in the width of the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

from streameval.cli.options import GROUPS

# Typer carries its own copy of click or uses the installed one, by its version, so that the
# types of commands, contexts and formatters have no one name.

_WIDEST = 100
_NAMES = 27
"""Columns for an option and its value; a longer one has its text on the next line."""


def width() -> int:
    """How wide the help is: as the terminal, and no wider than is read well."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


def with_groups(command: Any) -> Any:
    """The command, its options and those of its commands under their headings in the help."""
    for one in getattr(command, "commands", {}).values():
        with_groups(one)
    subcommands = getattr(command, "format_commands", None)

    def write(context: Any, formatter: Any) -> None:
        for heading, rows in groups(command, context):
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=min(_NAMES, formatter.width // 3 + 2))
        if subcommands is not None:
            subcommands(context, formatter)

    command.format_options = write
    return command


def groups(command: Any, context: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The headings of a command's parameters; under each the options and what they do."""
    found: dict[str, list[tuple[str, str]]] = dict.fromkeys(("Arguments", "Options", *GROUPS), ())  # type: ignore[arg-type]
    for parameter in command.get_params(context):
        if getattr(parameter, "hidden", False):
            continue
        argument = parameter.param_type_name == "argument"
        heading = getattr(parameter, "rich_help_panel", None)
        heading = heading or ("Arguments" if argument else "Options")
        name = parameter.metavar if argument else _option(parameter, context)
        found[heading] = [*found.get(heading, ()), (name or parameter.name, _text(parameter))]
    # The rare ones are the last, and --help is one of them.
    alone = found["Options"]
    if len(alone) == 1 and found[GROUPS[-1]]:
        found[GROUPS[-1]] = [*found[GROUPS[-1]], *alone]
        found["Options"] = []
    return ((heading, rows) for heading, rows in found.items() if rows)


def _option(parameter: Any, context: Any) -> str:
    names = ", ".join(sorted(parameter.opts, key=len, reverse=True))
    if parameter.secondary_opts:
        names += f"/{parameter.secondary_opts[0]}"
    if parameter.is_flag:
        return names
    display = getattr(parameter, "display_type_rich", None) or parameter.make_metavar
    return f"{names} {parameter.metavar or display(context).strip('<>[]')}"


def _text(parameter: Any) -> str:
    default = parameter.default
    hidden = default is None or isinstance(default, bool) or callable(default)
    text = parameter.help or ""
    if hidden or not parameter.show_default:
        return text
    return f"{text} [default: {getattr(default, 'value', default)}]"
