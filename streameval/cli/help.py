"""The help of the commands, as wide as the terminal; the manual page that is made of it; errors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from itertools import groupby
from typing import Any

import typer

from streameval import __version__
from streameval.cli.options import GROUPS
from streameval.errors import did_you_mean, shown

# Typer carries its own copy of click or uses the installed one, by its version, so that the
# types of commands, contexts and formatters have no one name.

_WIDEST = 100
_WHOLE = 1000
"""More than any summary has characters."""
_NAMES = 27
"""Columns for an option and its value; a longer one has its text on the next line."""


_EXAMPLES = """\
streameval evaluate predictions.csv
streameval evaluate a.jsonl --y-true label --score p --slice country
streameval evaluate 'day-*.parquet' --proba 'p_*' --report day.html
streameval compare log.csv --score champion=a --score challenger=b
streameval compare a.csv b.csv --on id --y-pred a=y_pred --y-pred b=y_pred
streameval compare log.csv --score a=x --score b=y --report page.html
streameval predictions today.parquet
streameval predictions today.parquet --score p --intervals 0.95
streameval predictions today.parquet --score p --save today.state
streameval drift today.state last-month.state
streameval drift today.state last-month.state --anytime
streameval drift today.state last-month.state --plot drift.svg
streameval merge shard-1.state shard-2.state
streameval merge 'shard-*.state' --save all.state
streameval merge 'shard-*.state' --expect shards.txt --metrics f1,roc_auc
streameval report day.state
streameval report day.state --metrics all --format json
streameval report day.state --report day.html --fail-if 'f1 < 0.8'
streameval diff monday.state tuesday.state
streameval diff monday.state tuesday.state --metrics f1,roc_auc
streameval diff monday.state tuesday.state --format json
streameval inspect day.state
streameval inspect day.state --format json
streameval inspect day.state --format markdown
streameval metrics
streameval metrics --format json
streameval metrics --format markdown
streameval run run.toml
streameval run run.toml --check
streameval run run.toml --until-end
streameval serve --store run.db
streameval serve --store run.db --listen 127.0.0.1:8080
streameval serve --store postgresql://host/db --config run.toml
streameval init run.toml
streameval init --schema > run.schema.json
streameval init
streameval demo
streameval demo --port 8090
streameval demo --days 30 --speed 7200
streameval store check run.db
streameval store backup run.db backups/monday
streameval store report run.db
"""

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": (
        "streameval evaluate predictions.csv",
        "streameval compare log.parquet --score champion=a --score challenger=b",
        "streameval demo",
    ),
    **{
        command: tuple(lines)
        for command, lines in groupby(_EXAMPLES.splitlines(), lambda line: line.split()[1])
    },
}
"""From each command to examples, which end its help."""


def width() -> int:
    """How wide the help is: as the terminal, and no wider than is read well."""
    return min(shutil.get_terminal_size().columns, _WIDEST)


def with_groups(command: Any) -> Any:
    """The command, its options and those of its commands under their headings in the help."""
    for one in getattr(command, "commands", {}).values():
        with_groups(one)

    def write(context: Any, formatter: Any) -> None:
        for heading, rows in groups(command, context):
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=min(_NAMES, formatter.width // 3 + 2))
        if rows := [
            (name, one.get_short_help_str(_WHOLE))
            for name, one in getattr(command, "commands", {}).items()
        ]:
            with formatter.section("Commands"):
                formatter.write_dl(rows)
        path = context.command_path.partition(" ")[2]
        with formatter.section("Examples") if path in EXAMPLES else nullcontext():
            for example in EXAMPLES.get(path, ()):
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")

    command.format_options = write
    command.format_commands = lambda context, formatter: None  # they are among the options
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


def manual(command: Any) -> str:
    """The page in the language of man: section 1."""
    lines = [
        f'.TH STREAMEVAL 1 "" "streameval {__version__}" "User Commands"',
        ".SH NAME",
        r"streameval \- " + _escaped(command.help.strip().partition("\n")[0].rstrip(".")),
        ".SH SYNOPSIS",
        r".B streameval",
        ".I COMMAND",
        r"[\fIOPTION\fR]...",
        ".SH DESCRIPTION",
        _escaped(command.help),
        *_man_options(command, ".SH"),
        ".SH COMMANDS",
    ]
    for name, one in _commands(command, "streameval"):
        lines += [f".SS {_escaped(name)}", _paragraphs(one.help or ""), *_man_options(one, ".PP")]
        examples = EXAMPLES.get(name.partition(" ")[2], ())
        if examples:
            lines += [".PP\nExamples:", *(f".br\n{_escaped(line)}" for line in examples)]
    lines += [".SH EXIT STATUS", *(f'.IP "{code}" 5\n{words}' for code, words in _CODES.items())]
    return "\n".join(lines)


_CODES = {
    0: "Done.",
    1: "A failure: a file cannot be written, or a package is missing.",
    2: "Bad usage or bad input.",
    3: "More records were skipped for one reason than are allowed.",
    4: "A rule of --fail-if failed.",
    130: "Ended by Ctrl-C.",
    141: "The reader of the output has closed it.",
}


def _commands(command: Any, prefix: str) -> list[tuple[str, Any]]:
    found = []
    for name, one in command.commands.items():
        full = f"{prefix} {name}"
        found += _commands(one, full) if hasattr(one, "commands") else [(full, one)]
    return found


def _man_options(command: Any, heading: str) -> list[str]:
    context = typer.Context(command, info_name=command.name)
    lines = []
    for title, rows in groups(command, context):
        lines.append(f".SH {title.upper()}" if heading == ".SH" else f".PP\n{_escaped(title)}:")
        for name, text in rows:
            lines += [".TP", rf"\fB{_escaped(name)}\fR", _escaped(text) or r"\&"]
    return lines


def _paragraphs(text: str) -> str:
    parts = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n.PP\n".join(map(_escaped, parts))


def _escaped(text: str) -> str:
    """Text as man shows it: no line begins with a request, and hyphens stay hyphens."""
    line = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line[:1] in (".", "'") else line


def usage_error(error: Any, words: Sequence[str]) -> str:
    """An error of the library that reads the command line, in words of this one."""
    name: Any = getattr(error, "option_name", None)
    parameter = getattr(error, "param", None)
    kind = type(error).__name__
    if kind == "NoSuchOption":
        near = did_you_mean(name, _options_of(error.ctx))
        return f"{name} is no option" + (f"; {near}" if near else "")
    if kind == "BadOptionUsage":
        return f"{name}: expected a value, got none"
    if kind == "MissingParameter" and parameter is not None:
        return f"expected {parameter.metavar or parameter.opts[0]}, got none"
    if parameter is not None and parameter.param_type_name == "option":
        option = max(parameter.opts, key=len)
        return f"{option}: expected {_expected(parameter)}, got {shown(_given(option, words))}"
    text = str(error.format_message()).rstrip(".").partition(". ")[0]
    commands = getattr(getattr(error.ctx, "command", None), "commands", None)
    word = next((word for word in words if f"'{word}'" in text), None)
    if commands and word is not None:
        near = did_you_mean(word, commands)
        if not near and os.path.exists(word):
            near = f"streameval evaluate {word} reads the file"
        return f"{shown(word)} is no command" + (f"; {near}" if near else "")
    return text[:1].lower() + text[1:]


def _options_of(context: Any) -> list[str]:
    return [name for one in context.command.get_params(context) for name in one.opts]


def _expected(parameter: Any) -> str:
    """What an option's value is, by its type, which versions of the library hold in two ways."""
    kind = getattr(parameter, "type", None)
    annotation: Any = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    choices = getattr(kind, "choices", None) or (list(annotation) if _is_choice(annotation) else ())
    if choices:
        *others, last = [str(getattr(one, "value", one)) for one in choices]
        return f"{', '.join(others)} or {last}" if others else last
    name = str(getattr(kind, "name", None) or getattr(annotation, "__name__", ""))
    words = "a whole number" if name.startswith("int") else "a number"
    holder = parameter if kind is None else kind
    low, high = getattr(holder, "min", None), getattr(holder, "max", None)
    return (
        (words if name.startswith(("int", "float")) else "a value")
        + (f" from {low}" if low is not None else "")
        + (f" to {high}" if high is not None else "")
    )


def _is_choice(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Enum)


def _given(option: str, words: Sequence[str]) -> str:
    """The value that the command line gives to an option."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return after
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return ""
