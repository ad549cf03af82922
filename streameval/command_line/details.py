"""What a user wants to see beside the report: slices, a series, a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streameval.command_line.output import TargetError, check_target, say
from streameval.command_line.window_text import Dimensions
from streameval.errors import InputError
from streameval.report import SeriesRow

__all__ = ["Details"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The options of the slices' table, the series and its picture.

    Args:
        by: The metric that slices are compared by; None for the main one.
        worst: How many slices are shown.
        min_support: Slices of less are left out.
        dimensions: The kinds of slices that are shown; None for all.
        series: The metric of the series.
        plot: File of the picture.
    """

    by: str | None = None
    worst: int | None = None
    min_support: float | None = None
    dimensions: Dimensions | None = None
    series: str | None = None
    plot: str | None = None

    def __post_init__(self) -> None:
        if self.plot is not None and self.series is None:
            raise InputError(
                "--plot",
                expected="it beside --series",
                got="no --series",
                remedy="add --series f1, or another metric to draw",
            )

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that these details need."""
        return tuple(name for name in (self.by, self.series) if name is not None)

    def slice_options(self) -> list[str]:
        """Those options given that make no sense without slices."""
        options = {"--by": self.by, "--worst": self.worst, "--min-support": self.min_support}
        return [name for name, value in options.items() if value is not None]

    def check_plot(self) -> None:
        """Fail before an hour of reading, not after it, where no picture can be made.

        Raises:
            MissingExtraError: The extra ``plots`` is not installed.
            InputError: A file name of another kind.
            TargetError: The file cannot be written.
        """
        if self.plot is not None:
            _plots().check_picture(self.plot, "--plot")
            check_target(self.plot)

    def draw(self, rows: Sequence[SeriesRow] | None) -> bool:
        """Draw the series if that was asked; a failure is told, and False returned."""
        if self.plot is None or self.series is None or rows is None:
            return True
        plots = _plots()
        try:
            plots.save_figure(plots.plot_series(rows, self.series), self.plot)
        except OSError as error:
            say(str(TargetError(f"{self.plot}: cannot be written: {error.strerror or error}")))
            return False
        return True


def _plots() -> Any:
    from streameval import plots  # the extra's packages take a second to load

    return plots
