"""Tables of text, Markdown and HTML, for labels and values that come from streams."""

from __future__ import annotations

import html
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from streameval.errors import MissingExtraError

__all__ = ["Table", "data_frame"]

_SENTENCE = 28
"""Longer cells are sentences, which a page may wrap."""


@dataclass(frozen=True, slots=True)
class Table:
    """Names of columns and rows of cells, to write as text, Markdown or HTML."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[str] = frozenset()
    """The columns that are aligned to the right."""

    def to_text(self, width: int | None = None) -> str:
        """Aligned columns; words, and never numbers, are wrapped to lines of ``width``.

        >>> print(Table(["class", "n"], [["cat", "3"], ["dog", "12"]], frozenset({"n"})).to_text())
        class   n
        cat     3
        dog    12
        """
        lines = [[_one_line(cell) for cell in line] for line in (self.header, *self.rows)]
        widths = [max(len(line[n]) for line in lines) for n in range(len(self.header))]
        if width is not None and sum(widths) + 2 * len(widths) - 2 > width:
            fitted = _fitted(lines, widths, width)
            if fitted is None:
                return _stacked(lines, width)
            widths = fitted
            lines = [
                list(part)
                for line in lines
                for part in zip_longest(*map(_wrapped, line, widths), fillvalue="")
            ]
        aligned = [name in self.right for name in self.header]
        return "\n".join(
            "  ".join(
                cell.rjust(most) if to_right else cell.ljust(most)
                for to_right, cell, most in zip(aligned, line, widths, strict=True)
            ).rstrip()
            for line in lines
        )

    def to_markdown(self) -> str:
        """A Markdown table, its cells escaped: no label makes a column, a link or an image.

        >>> print(Table(["class", "n"], [["a|b", "3"]], right=frozenset({"n"})).to_markdown())
        | class | n |
        | --- | ---: |
        | a\\|b | 3 |
        """
        rule = ["---:" if name in self.right else "---" for name in self.header]
        first, *others = [[*map(markdown_text, line)] for line in (self.header, *self.rows)]
        return "\n".join("| " + " | ".join(line) + " |" for line in (first, rule, *others))

    def to_html(self, caption: str = "") -> str:
        """An HTML table, its cells escaped, those of numbers and of sentences with a class."""
        head = f"<caption>{html.escape(_one_line(caption))}</caption>" if caption else ""
        body = "".join(self._html_row("td", row) for row in self.rows)
        names = self._html_row("th", self.header)
        return f"<table>{head}<thead>{names}</thead><tbody>{body}</tbody></table>"

    def _html_row(self, tag: str, cells: Sequence[str]) -> str:
        inner = ""
        for name, cell in zip(self.header, cells, strict=True):
            kind = "number" if name in self.right else "text" if len(cell) > _SENTENCE else ""
            # A header without words is none to a screen reader.
            of_cell = tag if cell else "td"
            start = f'<{of_cell} class="{kind}">' if kind else f"<{of_cell}>"
            inner += f"{start}{html.escape(_one_line(cell))}</{of_cell}>"
        return f"<tr>{inner}</tr>"


def data_frame(columns: Mapping[str, Any]) -> Any:
    """The columns as a data frame of pandas or polars, whichever is loaded, else installed.

    Raises:
        MissingExtraError: Neither is installed.
    """
    names = ("pandas", "polars")
    for name in sorted(names, key=lambda name: name not in sys.modules):
        try:
            return importlib.import_module(name).DataFrame(dict(columns))
        except ImportError:
            continue
    raise MissingExtraError("to_frame()", package="pandas", extra="")


def _one_line(cell: str) -> str:
    """Labels come from streams: no line breaks or control characters in a table."""
    return "".join(ch if ch.isprintable() else ascii(ch)[1:-1] for ch in cell)


_LONGEST_WORD = 16
"""Longer words are broken; where the others do not fit either, rows become lines."""

_WORDS = re.compile(r"(?!nan|inf)[A-Za-z]{2}")
_PIECE = re.compile(r"\S+?(?:[_=,/](?=\S)|\s+|$)")


def _fitted(lines: list[list[str]], widths: list[int], width: int) -> list[int] | None:
    """Narrower columns that fit, or None: those of words shrink, and headers of numbers wrap."""
    least = []
    for n, most in enumerate(widths):
        words = (piece.rstrip() for line in lines for piece in _PIECE.findall(line[n]))
        longest = min(_LONGEST_WORD, max(map(len, words), default=1))
        numbers = (len(line[n]) for line in lines[1:] if not _WORDS.search(line[n]))
        least.append(min(most, max(longest, *numbers, 1)))
    most = width - 2 * (len(widths) - 1)
    if sum(least) > most:
        return None
    fitted = list(widths)
    while sum(fitted) > most:
        n = max((n for n in range(len(fitted)) if fitted[n] > least[n]), key=lambda n: fitted[n])
        fitted[n] -= 1
    return fitted


def _wrapped(cell: str, width: int) -> list[str]:
    """The lines of a cell: broken after words, underscores and the like, else anywhere."""
    found = [""]
    for piece in _PIECE.findall(cell):
        if len(found[-1]) + len(piece.rstrip()) > width:
            found.append("")
        while len(piece.rstrip()) > width:
            found[-1], piece = piece[:width], piece[width:]
            found.append("")
        found[-1] += piece
    return [line.rstrip() for line in found if line] or [""]


def _stacked(lines: list[list[str]], width: int) -> str:
    """A row as the name in its first cell, and a line for each further cell that is not empty."""
    (_, *names), *rows = lines
    most = min(max(map(len, names), default=0), width // 2)
    found = []
    for first, *cells in rows:
        found += _wrapped(first, width)
        for name, cell in zip(names, cells, strict=True):
            if cell:
                values = _wrapped(cell, max(width - most - 4, len(cell.split()[0])))
                for left, value in zip_longest(_wrapped(name, most), values, fillvalue=""):
                    found.append(f"  {left.ljust(most)}  {value}".rstrip())
    return "\n".join(found)


# The end of a link's or an image's text; bare addresses are links to many readers of Markdown.
_MARKDOWN = re.compile(r"[\\|@]|\](?=[(\[])|:(?=//)|(?<=www)\.", re.IGNORECASE)


def markdown_text(text: str) -> str:
    """One line of text that Markdown shows as it is.

    >>> markdown_text("![x](https://a.example) <b>")
    '![x\\\\](https\\\\://a.example) &lt;b&gt;'
    """
    return html.escape(_MARKDOWN.sub(r"\\\g<0>", _one_line(text)), quote=False)
