"""Markdown from docstrings, rows and texts of the code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_ROLE = re.compile(r":\w+:`~?([^`<]+?)(?:\s*<([^`>]+)>)?`")


def cell(text: object) -> str:
    """A text as one cell of a table.

    >>> cell("a | b")
    'a \\\\| b'
    """
    return " ".join(str(text).split()).replace("|", "\\|")


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table.

    >>> print(table(["name", "value"], [["f1", 1]]))
    | name | value |
    | --- | --- |
    | f1 | 1 |
    <BLANKLINE>
    """
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines)


def code(text: object) -> str:
    """A text as code; empty for None.

    >>> code("f1"), code(None)
    ('`f1`', '')
    """
    return "" if text is None else f"`{text}`"


def docstring(text: str) -> str:
    """A docstring with its roles as code and its examples in fences.

    >>> docstring("See :class:`~streameval.Evaluator`.")
    'See `Evaluator`.'
    """
    text = _ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", text)
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    lines: list[str] = []
    indent: str | None = None
    for line in text.splitlines():
        if indent is None and line.lstrip().startswith(">>> "):
            indent = line[: len(line) - len(line.lstrip())]
            if lines and lines[-1].strip():
                lines.append("")
            lines.append(f"{indent}```pycon")
        elif indent is not None and not line.strip():
            lines.append(f"{indent}```")
            indent = None
        lines.append(line)
    if indent is not None:
        lines.append(f"{indent}```")
    return "\n".join(lines)
