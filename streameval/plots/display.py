"""A display: a picture that is drawn on request, and the files that it can be saved as."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, TypeAlias

from streameval.errors import InputError, MissingExtraError, shown
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.view import View
from streameval.plots import with_svg
from streameval.plots.picture import Axis, Picture, one_line
from streameval.tasks.registry import TASKS
from streameval.uncertainty.interval import checked_level

Source: TypeAlias = Evaluator | View

Sources: TypeAlias = Source | Mapping[str, Source]
"""One evaluator, or several by the names of their lines."""

_TEXT_FORMATS = (".svg", ".html")
_FORMATS = (".png", ".svg", ".pdf", ".html")


@dataclass(eq=False, slots=True)
class Display:
    """What all displays have: a picture, drawn on request."""

    several: ClassVar[bool] = False
    """Whether sources by their names can be drawn as lines of one picture."""
    compares: ClassVar[bool] = False
    """Whether it requires a reference."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Metrics to keep where it is to be drawn, as their states are kept on request only."""
    picture: Picture
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)
    line_: Any = field(default=None, init=False)
    """The first of the artists: a line, the first class's bars, the image of a matrix."""
    lines_: list[Any] = field(default_factory=list, init=False)

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw with matplotlib.

        Args:
            ax: Axes; those of a new figure by default.
            options: Arguments of matplotlib for the lines of values, such as ``color="k"``.

        Returns:
            The display, with the artists in ``ax_``, ``figure_``, ``line_`` and ``lines_``.

        Raises:
            MissingExtraError: The extra ``plots`` is not installed.
        """
        from streameval.plots import with_matplotlib  # takes a second to load

        self.ax_, self.lines_ = with_matplotlib.draw(self.picture, ax, options)
        self.figure_ = self.ax_.figure
        self.line_ = self.lines_[0] if self.lines_ else None
        return self

    def to_plotly(self) -> Any:
        """The same picture as a figure of plotly.

        Its background is transparent and its colours are legible on white and on black.

        Raises:
            MissingExtraError: The extra ``plots`` is not installed.
        """
        from streameval.plots import with_plotly

        return with_plotly.draw(self.picture)

    def to_svg(self) -> str:
        """The text of an SVG element, for a page; by matplotlib if it is installed.

        Without matplotlib, text and axes have the colour of the text around the element.
        """
        if not has_matplotlib():
            return with_svg.draw(self.picture)
        from streameval.plots import with_matplotlib

        axes, _ = with_matplotlib.draw(self.picture)
        text = with_matplotlib.picture_bytes(axes.figure, ".svg").decode()
        return text[text.index("<svg") :]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write as ``.png``, ``.svg``, ``.pdf`` or a self-contained ``.html`` page.

        Raises:
            InputError: The suffix is not supported.
            MissingExtraError: ``.png`` and ``.pdf`` require the extra ``plots``.
            OSError: The file cannot be written.
        """
        ending = check_picture(path)
        if not has_matplotlib():
            text = with_svg.draw(self.picture, ground=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(with_svg.page_of(text) if ending == ".html" else text + "\n")
            return
        if self.figure_ is None:
            self.plot()
        save_figure(self.ax_, path)

    def _repr_html_(self) -> str | None:
        """For notebooks without matplotlib."""
        return None if has_matplotlib() else self.to_svg()

    def _repr_png_(self) -> bytes | None:
        """For notebooks: figures without pyplot are not shown by themselves."""
        if not has_matplotlib():
            return None
        from streameval.plots import with_matplotlib

        axes, _ = with_matplotlib.draw(self.picture)
        return with_matplotlib.picture_bytes(axes.figure, ".png")


def has_matplotlib() -> bool:
    """Whether matplotlib draws; else pictures are SVG."""
    try:
        from streameval.plots import with_matplotlib  # noqa: F401 - takes a second to load
    except MissingExtraError:
        return False
    return True


def check_picture(path: str | os.PathLike[str], field: str = "plot") -> str:
    """The suffix of a picture's file name.

    Raises:
        InputError: It is not supported.
        MissingExtraError: It is ``.png`` or ``.pdf``, and the extra ``plots`` is not installed.
    """
    name = os.fspath(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in _FORMATS:
        raise InputError(field, expected=f"a file name in {', '.join(_FORMATS)}", got=shown(name))
    if ending not in _TEXT_FORMATS and not has_matplotlib():
        feature = f"a picture in {ending} (not in {' or '.join(_TEXT_FORMATS)})"
        raise MissingExtraError(feature, package="matplotlib", extra="plots")
    return ending


def save_figure(ax: Any, path: str | os.PathLike[str]) -> None:
    """Write the axes' figure as ``.png``, ``.svg``, ``.pdf`` or a self-contained ``.html`` page.

    Raises:
        InputError: The suffix is not supported.
        OSError: The file cannot be written.
    """
    from streameval.plots import with_matplotlib

    with_matplotlib.write_picture(ax.figure, path, check_picture(path))


def by_name(sources: Sources, name: str | None) -> Mapping[str, Source]:
    return sources if isinstance(sources, Mapping) else {name or "": sources}


def first(sources: Sources) -> Source:
    return next(iter(by_name(sources, None).values()))


def checked_intervals(intervals: float | None) -> float | None:
    return None if intervals is None else checked_level(intervals, "intervals")


def share_axis(label: str) -> Axis:
    return Axis(label, (-0.01, 1.01))


def has_positive(source: Source) -> bool:
    """Whether its scores are of one label, the positive one."""
    return TASKS[source.task].positive is not None


def positive_class(source: Source) -> str:
    """The positive class for the labels of axes, where it has a name."""
    if not has_positive(source) or source.labels[1] in (0, 1):
        return ""
    return f" (positive: {one_line(source.labels[1])})"
