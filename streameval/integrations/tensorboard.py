"""Numbers of an evaluator in TensorBoard.

A writer of ``torch.utils.tensorboard`` or of any logger with ``add_scalar`` works; a directory
needs the extra ``tensorboard``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

from streameval.errors import MissingExtraError
from streameval.evaluator.evaluator import Evaluator

__all__ = ["log_evaluation"]


def log_evaluation(
    target: Any,
    evaluator: Evaluator,
    step: int,
    metrics: Iterable[str] | None = None,
    *,
    prefix: str = "",
) -> dict[str, float]:
    """Write the numbers of an evaluator as scalars.

    Args:
        target: A ``SummaryWriter``, which stays open, or a directory of logs.
        evaluator: Whose report is written.
        step: Of the scalars.
        metrics: Names; by default those of the evaluator's report.
        prefix: Of the tags, such as ``"validation/"``.

    Returns:
        What was written, by tags. An undefined value is left out.

    Raises:
        MissingExtraError: A directory is given, and tensorboardX is not installed.
    """
    numbers = {
        f"{prefix}{name}": value
        for name, value in evaluator.report(metrics).to_dict(flat=True).items()
        if not math.isnan(value)
    }
    opened = isinstance(target, str | os.PathLike)
    writer = _writer(os.fspath(target)) if opened else target
    for tag, value in numbers.items():
        writer.add_scalar(tag, value, step)
    if opened:
        writer.close()
    return numbers


def _writer(directory: str) -> Any:
    """A writer of event files in a directory."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise MissingExtraError(
            "log_evaluation", package="tensorboardX", extra="tensorboard"
        ) from None
    return SummaryWriter(directory)
