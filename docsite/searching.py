"""What the site's search weighs: the words that lead to a page, and pages that are found last."""

from __future__ import annotations

import fnmatch
from typing import Any

_LAST = 0.001
_LATER = 0.1
_BOOSTS = {
    "changelog.md": _LAST,
    "security.md": _LATER,
    "contributing.md": _LAST,
    "benchmarks.md": _LATER,
    "design*.md": _LAST,
    "native*.md": _LAST,
    "state-*.md": _LAST,
    "reference/python/*.md": 0.3,
    "reference/http*.md": _LATER,
    "reference/configuration-file.md": _LATER,
    "reference/metrics/index.md": _LATER,
}
"""Pages whose hits come after those of the others."""

_WORDS = {
    "start.md": "install installation pip quickstart jupyter notebook wheel",
    "glossary.md": "glossary terms vocabulary pane watermark lateness mature shard",
    "intervals.md": "confidence interval uncertainty significance ci error bars",
    "drift.md": "drift psi kolmogorov wasserstein jensen cbpe estimated performance",
    "scikit-learn.md": "sklearn scikit learn sample_weight pos_label y_score classification_report",
    "operations.md": "docker container kubernetes systemd deployment helm monitoring",
    "windows.md": "window windows sliding rolling tumbling slice slices weights decay fading",
    "kafka.md": "kafka redpanda consumer topic dead letter queue",
    "run-join.md": "delayed late labels join delay ground truth",
    "run-predictions.md": "drift in production monitoring",
    "peers.md": "alternatives libraries regression",
    "tables.md": "pandas polars arrow duckdb dataframe",
    "dashboard.md": "dashboard",
    "displays.md": "plot plots matplotlib plotly chart",
    "ci.md": "ci github gitlab actions pipeline gate fail-if junit pytest",
    "fairness.md": "fairness fairlearn aif360 bias disparate impact parity sensitive group",
    "comparing.md": "compare comparison models ab test mcnemar champion challenger",
    "saved-states.md": "save load pickle persist merge merging",
    "reading-files.md": "csv jsonl json parquet s3 gcs file files",
    "postgresql.md": "postgres postgresql",
    "run-store.md": "backup restore recovery checkpoint sqlite",
    "run.md": "alert alerts webhook slack configuration",
    "serving.md": "prometheus grafana http api rest openapi endpoint",
    "compatibility.md": "exit code semver versions platform",
    "definitions-scores.md": "multiclass ovr ovo curves cut-points calibration threshold",
    "definitions.md": "undefined nan confusion matrix averages macro micro",
    "bounded-memory.md": "memory",
    "predictions.md": "unlabelled unlabeled predictions quantile positive rate",
    "tutorials/river.md": "prequential online learning",
    "tutorials/shards.md": "distributed shards mapreduce",
    "coming-from/torchmetrics.md": "torchmetrics torch pytorch lightning tensor",
    "coming-from/river.md": "river",
    "coming-from/evidently.md": "evidently",
    "coming-from/mlflow.md": "mlflow",
    "coming-from/whylogs.md": "whylogs whylabs profile",
    "loggers.md": "mlflow tensorboard wandb tracking logging logger ray lightning",
    "reference/metrics/roc_auc.md": "auc auroc roc",
    "reference/metrics/average_precision.md": "pr auprc prauc",
    "reference/metrics/accuracy.md": "accuracy",
    "reference/metrics/log_loss.md": "log loss logloss cross entropy",
    "reference/metrics/brier_score.md": "brier",
    "reference/metrics/expected_calibration_error.md": "ece",
    "reference/metrics/matthews_corrcoef.md": "mcc",
    "reference/python/Evaluator.md": "evaluator update_many",
    "reference/python/Bootstrap.md": "bootstrap resampling",
}
"""Page -> the words that it is meant by, beside those of its title."""


def weigh(path: str, meta: dict[str, Any]) -> None:
    """Writes the words and the weight of a page into its metadata, which the theme reads."""
    words = _WORDS.get(path, "").split()
    if words:
        meta["tags"] = words
    for pattern, boost in _BOOSTS.items():
        if fnmatch.fnmatch(path, pattern):
            meta.setdefault("search", {})["boost"] = boost
            break
