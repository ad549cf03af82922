"""The manual page, made of the help of the commands."""

from __future__ import annotations

from typing import Any

import typer

from streameval import __version__
from streameval.cli.help import EXAMPLES, groups


def manual(command: Any) -> str:
    """The page in the language of man: section 1."""
    lines = [
        f'.TH STREAMEVAL 1 "" "streameval {__version__}" "User Commands"',
        ".SH NAME",
        r"streameval \- " + _escaped(_first_line(command.help)),
        ".SH SYNOPSIS",
        r".B streameval",
        ".I COMMAND",
        r"[\fIOPTION\fR]...",
        ".SH DESCRIPTION",
        _escaped(command.help),
        *_options(command, ".SH"),
        ".SH COMMANDS",
    ]
    for name, one in _commands(command, "streameval"):
        lines += [f".SS {_escaped(name)}", _paragraphs(one.help or ""), *_options(one, ".PP")]
        examples = EXAMPLES.get(name.partition(" ")[2], ())
        lines += [".PP\nExamples:", *(f".br\n{_escaped(line)}" for line in examples)][
            : 4 * bool(examples)
        ]
    lines += [
        ".SH EXIT STATUS",
        *(f'.IP "{code}" 5\n{words}' for code, words in _CODES.items()),
    ]
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


def _options(command: Any, heading: str) -> list[str]:
    context = typer.Context(command, info_name=command.name)
    lines = []
    for title, rows in groups(command, context):
        lines.append(f".SH {title.upper()}" if heading == ".SH" else f".PP\n{_escaped(title)}:")
        for name, text in rows:
            lines += [".TP", rf"\fB{_escaped(name)}\fR", _escaped(text) or r"\&"]
    return lines


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")


def _paragraphs(text: str) -> str:
    parts = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n.PP\n".join(map(_escaped, parts))


def _escaped(text: str) -> str:
    """Text as man shows it: no line begins with a request, and hyphens stay hyphens."""
    line = " ".join(text.split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line[:1] in (".", "'") else line
