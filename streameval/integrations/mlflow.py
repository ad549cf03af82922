"""Evaluations in MLflow: numbers as metrics of a run, the state as its artifact.

Importing this module needs the extra ``mlflow``; the smaller package ``mlflow-skinny`` is enough.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from pathlib import Path

from streameval.errors import MissingExtraError
from streameval.evaluator.evaluator import Evaluator, load

try:
    import mlflow
except ImportError:
    raise MissingExtraError("log_evaluation", package="mlflow", extra="mlflow") from None

__all__ = ["load_evaluation", "log_evaluation"]

_ARTIFACT = "evaluation.state"


def log_evaluation(
    evaluator: Evaluator,
    metrics: Iterable[str] | None = None,
    *,
    prefix: str = "",
    step: int | None = None,
    artifact: str | None = _ARTIFACT,
) -> dict[str, float]:
    """Log the numbers of an evaluator to the active run of MLflow, and its state as an artifact.

    Args:
        evaluator: Whose report is logged; it is not changed.
        metrics: Names; by default those of the evaluator's report.
        prefix: Of the names in MLflow, such as ``"validation/"``.
        step: Of the metrics.
        artifact: File name of the state; None logs numbers only.

    Returns:
        What was logged, by the names in MLflow. An undefined value is left out.

    Cost:
        That of a report, and of a save.
    """
    numbers = {
        f"{prefix}{name}": value
        for name, value in evaluator.report(metrics).to_dict(flat=True).items()
        if not math.isnan(value)
    }
    mlflow.log_metrics(numbers, step=step)
    if artifact is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / artifact
            evaluator.save(path)
            mlflow.log_artifact(str(path))
    return numbers


def load_evaluation(run_id: str, artifact: str = _ARTIFACT) -> Evaluator:
    """The evaluator whose state a run of MLflow has, to be read, merged or counted on.

    Args:
        run_id: The run to which :func:`log_evaluation` logged.
        artifact: File name of the state.

    Raises:
        StateError: The artifact is no state of an evaluator.
    """
    with tempfile.TemporaryDirectory() as folder:
        return load(
            mlflow.artifacts.download_artifacts(
                run_id=run_id, artifact_path=artifact, dst_path=folder
            )
        )
