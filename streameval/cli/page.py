"""A result in any format; as HTML one page that needs no network."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from streameval.cli.output import Format, Section, csv_text, text_of, to_json, write


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture of a page."""

    kind: str
    """The kind of the section that it stands in."""
    title: str
    element: str
    """The picture itself, with what it shows in words."""


_MANY_ROWS = 40
"""A longer table scrolls in its box."""

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="streameval">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{facts}</header>
{contents}<main>
{body}</main>
</body>
</html>
"""


def write_as(
    format: Format,
    title: str,
    values: Callable[[], Any],
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    sections: Callable[[], Sequence[Section]],
) -> None:
    """Print a result: its values as JSON, its rows as CSV, its sections as text or a page."""
    if format is Format.JSON:
        write(to_json(values()))
    elif format.is_csv:
        write(csv_text(rows(), format))
    elif format is Format.HTML:
        write(page(title, sections()))
    else:
        write(text_of(sections(), format))


def page(
    title: str,
    sections: Sequence[Section],
    *,
    facts: Mapping[str, str] | None = None,
    figures: Sequence[Figure] = (),
) -> str:
    """A page with a heading for each section."""
    parts: dict[str, str] = {}
    for section in sections:
        found = "" if section.table is None else section.table.to_html(section.title)
        # Wide tables scroll in their own box, which the keyboard reaches.
        if found:
            name = html.escape(section.title or "table")
            long = section.table is not None and len(section.table.rows) > _MANY_ROWS
            kind = "scroll long" if long else "scroll"
            box = f'class="{kind}" tabindex="0" role="region" aria-label="{name}"'
            found = f"<div {box}>{found}</div>\n"
        found += "".join(f"<p>{html.escape(note)}</p>\n" for note in section.notes)
        shown = [_figure(figure) for figure in figures if figure.kind == section.kind]
        if shown:
            found = f'<div class="pictures {section.kind}">\n{"".join(shown)}</div>\n{found}'
        # Lines without a title are about the whole.
        key = section.title or (next(iter(parts)) if parts else section.kind)
        parts[key] = parts.get(key, "") + found
    body, links = "", ""
    for number, (name, inner) in enumerate(parts.items(), 1):
        words = html.escape(name[:1].upper() + name[1:])
        body += f'<section id="s{number}">\n<h2>{words}</h2>\n{inner}</section>\n'
        links += f'<li><a href="#s{number}">{words}</a></li>\n'
    contents = (
        f'<nav aria-label="Contents">\n<ul>\n{links}</ul>\n</nav>\n' if len(parts) > 2 else ""
    )
    pairs = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>\n"
        for name, value in (facts or {}).items()
    )
    return _PAGE.format(
        title=html.escape(title),
        style=(files("streameval.cli") / "page.css").read_text("utf-8"),
        facts=f"<dl>\n{pairs}</dl>\n" if pairs else "",
        contents=contents,
        body=body,
    ).rstrip("\n")


def _figure(figure: Figure) -> str:
    caption = html.escape(figure.title)
    return f"<figure>\n<figcaption>{caption}</figcaption>\n{figure.element}\n</figure>\n"
