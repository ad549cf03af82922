"""Draws pictures as SVG text, for which no package is needed.

Text and axes have the colour of the text around them, so that a picture on a page is legible in
dark and in light. There are no ids: pictures of one page do not meet.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np

from streameval.events.values import FloatArray
from streameval.plots.picture import (
    COLORS,
    MUTED,
    Area,
    Axis,
    Band,
    Bars,
    Heatmap,
    Line,
    Mark,
    Note,
    Picture,
    Support,
    VerticalLine,
    Whiskers,
    one_line,
)

_INCH = 96
_FONT = 13
_TICKS = 6
"""About so many on an axis."""

_FAR = 8e307
"""Beyond it, distances would overflow."""

_DASHES = {"solid": "", "dashed": ' stroke-dasharray="6 3"', "dotted": ' stroke-dasharray="1.5 3"'}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEPS_OF_TIME = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 720, 2160, 4380, 8766)),
)
"""In seconds; years of panes have multiples of the last one."""

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The scales: from values to pixels within the axes."""

    x: Ends
    y: Ends
    width: float
    height: float
    reversed: tuple[bool, bool]

    def across(self, values: Any) -> FloatArray:
        share = (_numbers(values) - self.x[0]) / (self.x[1] - self.x[0])
        return (1 - share if self.reversed[0] else share) * self.width

    def down(self, values: Any) -> FloatArray:
        share = (_numbers(values) - self.y[0]) / (self.y[1] - self.y[0])
        return (share if self.reversed[1] else 1 - share) * self.height


def draw(picture: Picture, *, ground: bool = False) -> str:
    """The picture as an SVG element, which names and describes itself to screen readers.

    `ground`: on white, for a file that stands alone.
    """
    x, y = _ends(picture, "x"), _ends(picture, "y")
    support = next((m for m in picture.marks if isinstance(m, Support) and m.weights), None)
    if support is not None:
        y = y[0] - 0.3 * (y[1] - y[0]), y[1]
    x_ticks, y_ticks = _ticks(picture.x, x), _ticks(picture.y, y)
    low, high = picture.bounds or y
    low = max(low, y[0] + 0.23 * (y[1] - y[0])) if support else low
    notes = any(isinstance(mark, Note) for mark in picture.marks)
    y_ticks = [tick for tick in y_ticks if low <= tick[0] <= high and not notes]
    cells = next((mark for mark in picture.marks if isinstance(mark, Heatmap)), None)
    texts = [text for _, text in x_ticks]
    total = round(picture.size[0] * _INCH)
    left = 36 + max((_width(text) for _, text in y_ticks), default=0.0)
    right, top = 62.0 if support else 16.0, 10.0
    beneath = 44.0 + (max(map(_width, texts)) - _FONT if picture.turned else 0.0)
    width = total - left - right
    height = picture.size[1] * _INCH - top - beneath
    if picture.square or cells is not None:
        ratio = (y[1] - y[0]) / (x[1] - x[0])
        width = min(width, height / ratio)
        height = width * ratio
    frame = _Frame(x, y, width, height, (picture.x.reverse, picture.y.reverse))
    legend, entries = _legend(picture, total - left - 10)
    whole = top + height + beneath + legend
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {whole:.0f}" '
        f'width="{total}" height="{whole:.0f}" role="img" fill="currentColor" '
        f'font-family="system-ui, sans-serif" font-size="{_FONT}">',
        f"<title>{_escaped(picture.title)}</title>",
        f"<desc>{_escaped(picture.description(), None)}</desc>",
        '<rect width="100%" height="100%" fill="#fff"/>' if ground else "",
        f'<g transform="translate({left:.0f} {top:.0f})">',
        *_axes(picture, frame, x_ticks, y_ticks, left=left, beneath=beneath),
        # An inner element clips what is outside of the axes.
        f'<svg width="{width:.1f}" height="{height:.1f}">',
        *(part for mark in picture.marks for part in _DRAWN[type(mark)](frame, mark)),
        "</svg>",
        *(() if support is None else _support_axis(frame, support)),
        f'<g transform="translate(0 {height + beneath:.0f})">{entries}</g>' if entries else "",
        "</g></svg>",
    ]
    return "\n".join(part for part in parts if part)


def page_of(element: str) -> str:
    """A self-contained page of one SVG element."""
    return (
        "<!DOCTYPE html>\n<html lang='en'><meta charset='utf-8'><title>streameval</title>"
        f"<style>body{{margin:2rem}}svg{{max-width:100%;height:auto}}</style>\n{element}</html>\n"
    )


def _ends(picture: Picture, side: str) -> Ends:
    """The range of an axis: its limits, else of all marks with a margin."""
    axis: Axis = getattr(picture, side)
    found = [
        _numbers(np.atleast_1d(getattr(mark, name)) if name == "at" else getattr(mark, name))
        for mark in picture.marks
        for name in _extent(mark, side)
    ]
    values = np.concatenate(found) if found else np.zeros(0)
    values = values[np.isfinite(values)]
    least, most = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    # Panes are drawn up to their edges.
    flush = side == "x" and any(isinstance(mark, Support) for mark in picture.marks)
    margin = 0.0 if flush else 0.05 * (most - least)
    low, high = axis.limits
    start = max(float(least - margin if low is None else low), -_FAR)
    end = min(float(most + margin if high is None else high), _FAR)
    if end - start <= 1e-12 * max(abs(start), abs(end)):
        around = 0.05 * max(abs(start), 1.0)
        start, end = start - (around if low is None else 0.0), end + around
    return start, end


def _extent(mark: Mark, side: str) -> tuple[str, ...]:
    """The columns of a mark that need room on an axis."""
    if isinstance(mark, (Line, Area)):
        return (side,)
    if isinstance(mark, Whiskers):
        return (side, "low", "high") if mark.across == (side == "x") else (side,)
    if isinstance(mark, VerticalLine):
        return ("at",) if side == "x" else ()
    if side == "x" or isinstance(mark, (Bars, Band)):
        names = ("edges",) if side == "x" else ("low", "high", "heights")
        return tuple(name for name in names if hasattr(mark, name))
    return ()


def _numbers(values: Any) -> FloatArray:
    """Coordinates as numbers; datetimes as seconds since 1970."""
    if len(values) and isinstance(values[0], datetime):
        return np.array([(value - _EPOCH).total_seconds() for value in values])
    return np.clip(np.asarray(values, dtype=np.float64), -_FAR, _FAR)


def _ticks(axis: Axis, ends: Ends) -> list[tuple[float, str]]:
    if axis.ticks is not None:
        return [(at, one_line(text)) for at, text in axis.ticks]
    step = (ends[1] - ends[0]) / _TICKS
    if axis.time:
        steps = [one for one in _STEPS_OF_TIME if one >= step]
        step = steps[0] if steps else math.ceil(step / _STEPS_OF_TIME[-1]) * _STEPS_OF_TIME[-1]
    else:
        unit = 10.0 ** math.floor(math.log10(step))
        step = next(n * unit for n in (1.0, 2.0, 2.5, 5.0, 10.0) if n * unit >= step * 0.999)
    places = [n * step for n in range(math.ceil(ends[0] / step), math.floor(ends[1] / step) + 1)]
    if axis.time:
        return [(at, _time(at, step)) for at in places]
    return [(at, f"{round(at / step) * step:,.10g}") for at in places]


def _time(at: float, step: float) -> str:
    text = (_EPOCH + timedelta(seconds=at)).isoformat(" ")
    return text[:10] if step >= 86400 else text[5:16] if step >= 60 else text[11:19]


def _width(text: str) -> float:
    """About how wide a text is, in pixels."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return 0.55 * _FONT * (len(text) + wide)


def _escaped(text: str, most: int | None = 120) -> str:
    return html.escape(one_line(text, len(text) if most is None else most))


def _text(x: float, y: float, text: str, look: str = "", room: float = math.inf) -> str:
    most = 120 if room == math.inf else max(4, int(room / (0.55 * _FONT)))
    return f'<text x="{x:.1f}" y="{y:.1f}"{look}>{_escaped(text, most)}</text>'


_MIDDLE, _END = ' text-anchor="middle"', ' text-anchor="end"'


def _axes(
    picture: Picture,
    frame: _Frame,
    x_ticks: Sequence[tuple[float, str]],
    y_ticks: Sequence[tuple[float, str]],
    *,
    left: float,
    beneath: float,
) -> Iterator[str]:
    """Frame, grid, ticks and labels."""
    width, height = frame.width, frame.height
    across = list(zip(frame.across([at for at, _ in x_ticks]), x_ticks, strict=True))
    down = list(zip(frame.down([at for at, _ in y_ticks]), y_ticks, strict=True))
    if picture.grid:
        lines = [f"M{at:.1f} 0V{height:.1f}" for at, _ in across]
        lines += [f"M0 {at:.1f}H{width:.1f}" for at, _ in down]
        yield f'<path d="{"".join(lines)}" stroke="currentColor" stroke-opacity="0.15"/>'
    rim = 'fill="none" stroke="currentColor" stroke-opacity="0.45"'
    yield f'<rect width="{width:.1f}" height="{height:.1f}" {rim}/>'
    free = -math.inf
    for at, (_, text) in across:
        if picture.turned:
            look = f' transform="rotate(-90 {at:.1f} {height + 8:.1f})" dy="0.35em"' + _END
            yield _text(at, height + 8, text, look)
        elif at - _width(text) / 2 >= free:
            # Texts that would meet are left out; their lines stay.
            yield _text(at, height + 17, text, _MIDDLE)
            free = at + _width(text) / 2 + 4
    for at, (_, text) in down:
        yield _text(-6, at, text, ' dy="0.35em"' + _END)
    yield _text(width / 2, height + beneath - 8, picture.x.label, _MIDDLE, left + width)
    middle = f' transform="rotate(-90 {14 - left:.1f} {height / 2:.1f})"'
    yield _text(14 - left, height / 2, picture.y.label, middle + _MIDDLE, height)


def _legend(picture: Picture, width: float) -> tuple[float, str]:
    """The height of the legend beneath the axes, and its entries, side by side where they fit."""
    parts: list[str] = []
    x, y = 0.0, 18.0
    if picture.legend and picture.named():
        parts.append(_text(0, y, picture.legend, ' font-style="italic"', width))
        y += 18
    for mark in picture.marks:
        name = getattr(mark, "name", "")
        if not name:
            continue
        room = 32 + min(_width(one_line(name, 80)), width - 32)
        if x and x + room > width:
            x, y = 0.0, y + 18
        parts.append(_sign(mark, x, y - 4))
        parts.append(_text(x + 26, y, one_line(name, 80), "", width - 26))
        x += room + 8
    return (y + 8, "".join(parts)) if parts else (0.0, "")


def _sign(mark: Any, x: float, y: float) -> str:
    """The line or field in front of a name."""
    if isinstance(mark, Line):
        path = f"M{x:.1f} {y:.1f}h20"
        return f'<path d="{path}" stroke="{mark.color}" stroke-width="2"{_DASHES[mark.style]}/>'
    rim = _rim(mark) if isinstance(mark, Bars) else ""
    place = f'x="{x:.1f}" y="{y - 5:.1f}" width="20" height="10"'
    return f'<rect {place} fill="{mark.color}" fill-opacity="0.3"{rim}/>'


def _path(x: FloatArray, y: FloatArray, *, closed: bool = False) -> str:
    """A path in tenths of a pixel, without points that cannot be told apart; nan is a gap."""
    parts: list[str] = []
    points = zip(x.tolist(), y.tolist(), strict=True)
    for defined, run in groupby(points, lambda point: math.isfinite(point[0] + point[1])):
        if not defined:
            continue
        several = list(run)
        kept = several[:1]
        for point in several[1:-1]:
            if abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) >= 0.5:
                kept.append(point)
        kept += several[-1:] if len(several) > 1 else []
        parts.append("M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in kept))
    return "".join(parts) + ("Z" if closed and parts else "")


def _line(frame: _Frame, line: Line) -> Iterator[str]:
    x, y = frame.across(line.x), frame.down(line.y)
    thick = 1.0 if line.many else 1.4 if line.color == MUTED else 2.0
    look = f'fill="none" stroke="{line.color}" stroke-linejoin="round"'
    if line.joined:
        along = (np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]) if line.steps else (x, y)
        path = f'<path d="{_path(*along)}" {look} stroke-width="{thick}"'
        yield path + f"{_DASHES[line.style]}/>"
    if line.markers:
        # Lines of no length with round ends.
        shown = np.isfinite(x) & np.isfinite(y)
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x[shown], y[shown], strict=True))
        ends = f'stroke-width="{3 if line.many else 7}" stroke-linecap="round"'
        yield f'<path d="{dots}" {look} {ends}/>'


def _area(frame: _Frame, area: Area) -> Iterator[str]:
    path = _path(frame.across(area.x), frame.down(area.y), closed=True)
    yield f'<path d="{path}" fill="{area.color}" fill-opacity="0.15"/>'


def _boxes(x: FloatArray, low: FloatArray, high: FloatArray) -> str:
    """A box for each interval between neighbouring edges; none where an end is nan."""
    columns = (column.tolist() for column in (x[:-1], x[1:], low, high))
    return "".join(
        f"M{a:.1f} {b:.1f}V{c:.1f}H{d:.1f}V{b:.1f}Z"
        for a, d, b, c in zip(*columns, strict=True)
        if math.isfinite(b + c) and b != c
    )


def _band(frame: _Frame, band: Band) -> Iterator[str]:
    path = _boxes(frame.across(band.edges), frame.down(band.low), frame.down(band.high))
    yield f'<path d="{path}" fill="{band.color}" fill-opacity="0.2"/>'


def _rim(bars: Bars) -> str:
    """Where other drawers hatch, the rim is dashed: classes differ without their colours too."""
    dash = ' stroke-dasharray="3 2"' if bars.hatch else ""
    return f' stroke="{bars.color}"{dash}'


def _bars(frame: _Frame, bars: Bars) -> Iterator[str]:
    zero = frame.down(np.zeros(len(bars.heights)))
    path = _boxes(frame.across(bars.edges), zero, frame.down(bars.heights))
    yield f'<path d="{path}" fill="{bars.color}" fill-opacity="0.3"{_rim(bars)}/>'


def _whiskers(frame: _Frame, whiskers: Whiskers) -> Iterator[str]:
    if whiskers.across:
        low, high = frame.across(whiskers.low), frame.across(whiskers.high)
        columns = zip(low, frame.down(whiskers.y), high, strict=True)
        lines = [f"M{a:.1f} {y:.1f}H{b:.1f}" for a, y, b in columns if math.isfinite(a + b)]
    else:
        low, high = frame.down(whiskers.low), frame.down(whiskers.high)
        columns = zip(frame.across(whiskers.x), low, high, strict=True)
        lines = [
            f"M{x:.1f} {a:.1f}V{b:.1f}M{x - 3:.1f} {a:.1f}h6M{x - 3:.1f} {b:.1f}h6"
            for x, a, b in columns
            if math.isfinite(a + b)
        ]
    look = f'stroke="{whiskers.color}" stroke-opacity="0.7" stroke-width="1.5"'
    yield f'<path d="{"".join(lines)}" {look}/>'


def _vertical_line(frame: _Frame, line: VerticalLine) -> Iterator[str]:
    at, low, high = frame.across([line.at, line.low, line.high])
    if math.isfinite(low):
        place = f'x="{low:.1f}" width="{high - low:.1f}" height="{frame.height:.1f}"'
        yield f'<rect {place} fill="{MUTED}" fill-opacity="0.2"/>'
    look = f'stroke="{MUTED}" stroke-width="1.5"' + _DASHES["dotted"]
    yield f'<path d="M{at:.1f} 0V{frame.height:.1f}" {look}/>'


def _heatmap(frame: _Frame, cells: Heatmap) -> Iterator[str]:
    rows, columns = cells.shares.shape
    width, height = frame.width / columns, frame.height / rows
    longest = max((len(text) for row in cells.texts for text in row), default=1)
    size = min(_FONT + 1, max(6.0, width / (0.6 * longest)))
    # A text is legible on the darkest shade, on a light page and on a dark one.
    darkest = 0.6 if cells.texts else 1.0
    yield f'<g text-anchor="middle" font-size="{size:.1f}">'
    for (row, column), share in np.ndenumerate(cells.shares):
        if not share and not cells.texts:
            continue
        x, y = column * width, row * height
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        yield f'<rect {place} fill="{COLORS[0]}" fill-opacity="{darkest * share:.2f}"/>'
        if cells.texts:
            text = cells.texts[row][column]
            yield _text(x + width / 2, y + height / 2, text, ' dy="0.35em"')
    yield "</g>"


def _support(frame: _Frame, support: Support) -> Iterator[str]:
    if support.weights:
        most = float(max(support.weights)) or 1.0
        shares = np.array([float(weight) / most for weight in support.weights])
        tops = frame.height * (1 - shares / 4)
        path = _boxes(frame.across(support.edges), np.full(len(tops), frame.height), tops)
        yield f'<path d="{path}" fill="{MUTED}" fill-opacity="0.3"/>'


def _support_axis(frame: _Frame, support: Support) -> Iterator[str]:
    most = f"{max(support.weights):,.6g}"
    for share, text in ((1.0, "0"), (0.875, "support"), (0.75, most)):
        yield _text(frame.width + 5, share * frame.height, text, ' dy="0.35em"')


def _note(frame: _Frame, note: Note) -> Iterator[str]:
    yield _text(frame.width / 2, 0.4 * frame.height, note.text, _MIDDLE, frame.width)


_DRAWN: Mapping[type[Mark], Callable[[_Frame, Any], Iterator[str]]] = {
    Line: _line,
    Area: _area,
    Band: _band,
    Bars: _bars,
    Whiskers: _whiskers,
    VerticalLine: _vertical_line,
    Heatmap: _heatmap,
    Support: _support,
    Note: _note,
}
