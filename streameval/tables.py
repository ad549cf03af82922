"""Tables of text, Markdown and HTML, for labels and values that come from streams."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = ["html_table", "markdown_table", "text_table"]


def _one_line(cell: str) -> str:
    """Labels come from streams: no line breaks or control characters in a table."""
    return "".join(ch if ch.isprintable() else ascii(ch)[1:-1] for ch in cell)


def text_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()
) -> str:
    """Aligned columns of plain text.

    >>> print(text_table(["class", "n"], [["cat", "3"], ["dog", "12"]], right=frozenset({"n"})))
    class   n
    cat     3
    dog    12
    """
    lines = [[_one_line(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(header, line, widths, strict=True)
        ).rstrip()
        for line in lines
    )


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str] = frozenset()
) -> str:
    """A table in Markdown, its cells escaped.

    >>> print(markdown_table(["class", "n"], [["a|b", "3"]], right=frozenset({"n"})))
    | class | n |
    | --- | ---: |
    | a\\|b | 3 |
    """

    def cell(text: str) -> str:
        escaped = _one_line(text).replace("\\", "\\\\").replace("|", "\\|")
        return html.escape(escaped, quote=False)

    rule = ["---:" if name in right else "---" for name in header]
    lines = [[cell(text) for text in header], rule, *([cell(t) for t in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML, its cells escaped."""

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = "".join(f"<{tag}>{html.escape(_one_line(cell))}</{tag}>" for cell in cells)
        return f"<tr>{inner}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"
