"""The commands, and the exit codes of their errors."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib.util import find_spec
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
import typer.main

from streameval.cli.help import manual, usage_error, width, with_groups
from streameval.cli.output import exit_code
from streameval.cli.streams import BAD_INPUT, FAILURE, INTERRUPTED, say, write, write_version
from streameval.errors import InputError, MetricError, StreamevalError

# Module and member of each command. A module is imported for its command only: the
# others may take longer to load than the command to run.
COMMANDS = {
    "evaluate": ("evaluate", "evaluate"),
    "compare": ("compare", "compare"),
    "predictions": ("evaluate", "predictions"),
    "drift": ("drift", "drift"),
    "merge": ("states", "merge"),
    "report": ("states", "report"),
    "diff": ("diff", "diff"),
    "inspect": ("inspect", "inspect"),
    "metrics": ("catalogue", "metrics"),
    "run": ("run", "run"),
    "serve": ("serve", "serve"),
    "store": ("store", "store_app"),
    "init": ("init", "init"),
    "demo": ("demo", "demo"),
}

POSIX_COMMANDS = frozenset({"run", "serve", "store", "init", "demo"})
"""The commands of a long run. Its store and its sources use locks, file handles and limits of
POSIX, which Windows does not have; all other commands work there."""

POSIX_MODULES = ("fcntl", "resource")

# Typer carries its own copy of click or uses the installed one, by its version.
# Both have this class, and bad usage of every kind is one.
_UsageError: Any = typer.BadParameter.__bases__[0]


def app_of(names: Iterable[str]) -> typer.Typer:
    """The command line with these of its commands, whose modules it imports."""
    app = typer.Typer(
        name="streameval",
        help="Exact evaluation of classifiers from the stream of their predictions.",
        rich_markup_mode=None,  # no colours and boxes: with_groups() writes the help
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "terminal_width": width()},
    )
    app.callback()(_streameval)
    for name in names:
        module, member = COMMANDS[name]
        found = getattr(importlib.import_module(f"streameval.cli.{module}"), member)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(_with_options(found))
    return app


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of its parameters that are dataclasses."""
    declared = signature(command, eval_str=True).parameters
    kinds: dict[str, Any] = {
        name: one.annotation for name, one in declared.items() if is_dataclass(one.annotation)
    }

    @wraps(command)
    def run(**given: Any) -> None:
        groups = {
            name: kind(**{one.name: given.pop(one.name) for one in fields(kind)})
            for name, kind in kinds.items()
        }
        command(**given, **groups)

    parameters: list[Parameter] = []
    for name, one in declared.items():
        parameters += _options_of(kinds[name]) if name in kinds else [one]
    # Typer reads the options of a command from these.
    run.__dict__["__signature__"] = Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def _options_of(kind: type[Any]) -> list[Parameter]:
    """A parameter for each field of a dataclass, annotated with its option."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            default=one.default,
            annotation=Annotated[hints[one.name], one.metadata.get("option")],
        )
        for one in fields(kind)
    ]


def _print_version(wanted: bool) -> None:
    if wanted:
        write_version()
        raise typer.Exit


def _print_manual(wanted: bool) -> None:
    if wanted:
        write(manual(typer.main.get_command(app_of(COMMANDS))))
        raise typer.Exit


def _streameval(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, and which score index runs.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    man: Annotated[
        bool,
        typer.Option(
            "--man",
            help="Print the manual page: streameval --man | man -l -",
            callback=_print_manual,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Exact evaluation of classifiers from the stream of their predictions."""


def run(arguments: list[str]) -> int:
    """Run a command line; errors become one line and an exit code."""
    first = arguments[0] if arguments else ""
    if first in POSIX_COMMANDS and not _posix():
        say(
            f"{first} requires a POSIX system such as Linux or macOS, whose file locks "
            "its store needs; on Windows use WSL or a container"
        )
        return FAILURE
    # Where the first word is not a command, --help lists all and an error suggests one.
    words = arguments or _completed()
    chosen = words[:1] if words and words[0] in COMMANDS else _available()
    try:
        command = with_groups(typer.main.get_command(app_of(chosen)))
        # Versions of typer and click differ in what they do with a group alone.
        end = ["--help"] if _is_group(command, arguments) else []
        code = command([*arguments, *end], prog_name="streameval", standalone_mode=False) or 0
        if code == INTERRUPTED:  # by typer at Ctrl-C: no command exits with it
            raise KeyboardInterrupt
        return code
    except _UsageError as error:
        named = " ".join(("streameval", *arguments[:1])) if first in COMMANDS else "streameval"
        command = error.ctx.command_path if error.ctx else named
        say(f"{usage_error(error, arguments)}; see {command} --help")
        return BAD_INPUT
    except (StreamevalError, OSError, MemoryError) as error:
        say(str(_in_options(error)) or "out of memory")
        return exit_code(error)


def _is_group(command: Any, words: list[str]) -> bool:
    """Whether these words name a group of commands, and none of them."""
    for word in words:
        command = getattr(command, "commands", {}).get(word)
    return hasattr(command, "commands")


def _posix() -> bool:
    return all(find_spec(name) for name in POSIX_MODULES)


def _available() -> list[str]:
    """The commands that this system can run."""
    return [name for name in COMMANDS if name not in POSIX_COMMANDS or _posix()]


def _completed() -> list[str]:
    """The words of the line that a shell completes, after the command's name."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:]


_READ = re.compile(r"read (?:value\(\"(\w+)\", (\w+=[\d.]+)\)|ev\.\S+)$")
"""How Python reads what is no metric, or is one with a parameter."""


def _of_metric(name: str | None, parameter: str | None) -> str:
    if name is None:
        return "evaluate prints it, or --report draws it"
    return f"write --metrics {name}:{parameter}"


def _in_options(error: BaseException) -> BaseException:
    """The error with its remedy in the options of the command line."""
    if isinstance(error, MetricError):
        text = _READ.sub(lambda found: _of_metric(found[1], found[2]), str(error))
        return MetricError(text)
    if not isinstance(error, InputError) or not error.remedy_code:
        return error
    from streameval.records.chunk import remedy_text

    remedy = remedy_text(error.remedy, error.remedy_code)
    return error.of(error.field, position=error.position, remedy=remedy, remedy_code="")
