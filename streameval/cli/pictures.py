"""The pictures and the page of a result: ``--plot``, ``--plot-dir`` and ``--report``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streameval.cli.output import TargetError, check_target, say
from streameval.errors import OptionError


@dataclass(frozen=True, slots=True)
class Pictures:
    """What to draw, checked before anything is read."""

    files: tuple[tuple[str, str], ...] = ()

    def draw(self, state: Any, result: Any, title: str) -> bool:
        plots = _plots() if self.files else None
        for _, path in self.files:
            try:
                plots.save_figure(plots.plot_series(result.series, result.details.series), path)
            except OSError as error:
                say(str(TargetError(f"{path}: cannot be written: {error.strerror or error}")))
                return False
        return True


def checked_pictures(details: Any) -> Pictures:
    files = []
    for text in details.plot or ():
        if details.series is None:
            remedy = "add --series f1, or another metric to draw"
            raise OptionError.requires("--plot", "--series", remedy=remedy)
        _plots().check_picture(text, "--plot")
        check_target(text)
        files.append(("series", text))
    return Pictures(tuple(files))


def _plots() -> Any:
    from streameval import plots  # the extra's packages take a second to load

    return plots
