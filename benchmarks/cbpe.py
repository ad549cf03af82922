"""What NannyML's CBPE estimates for the weeks of the demonstration's flights.

    python -m benchmarks.cbpe

``coverage.py`` shows it beside the expected metrics. It needs an environment of its own, as NannyML
requires older packages: ``pip install nannyml==0.13.1 'numpy<2' 'pandas<2.2' 'scikit-learn<1.6'
'scipy<1.14' 'category-encoders<2.7' statsmodels``. ``make demo`` writes the flights first.
"""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"  # else each call is reported to its makers

import nannyml
import pandas as pd

HERE = Path(__file__).parent
METRICS = ["accuracy", "f1", "roc_auc"]


def main() -> None:
    """Write ``cbpe.json``: by reference, week and metric the value and the ends of its band."""
    with (HERE.parent / "demos" / "out" / "predictions.jsonl").open(encoding="utf-8") as file:
        flights = pd.DataFrame(json.loads(line) for line in file)
    days = [date.fromisoformat(text[:10]) - date(2013, 1, 1) for text in flights["departed"]]
    flights["week"] = [day.days // 7 for day in days]
    flights["late"] = flights["late"].astype(int)
    flights["predicted"] = (flights["score"] >= 0.5).astype(int)
    found: dict[str, object] = {"nannyml": nannyml.__version__, "metrics": METRICS}
    for reference, length, first in (
        ("the four weeks before", 4, 4),
        ("the first eight weeks", 8, 8),
    ):
        weeks = found[reference] = {}
        for week in range(first, 52):
            start = week - length if first == 4 else 0
            estimator = nannyml.CBPE(
                metrics=METRICS,
                y_pred_proba="score",
                y_pred="predicted",
                y_true="late",
                problem_type="classification_binary",
                chunk_number=1,
            )
            estimator.fit(flights[flights["week"].between(start, start + length - 1)])
            result = estimator.estimate(flights[flights["week"] == week])
            row = result.filter(period="analysis").to_df().iloc[0]
            ends = ("value", "lower_confidence_boundary", "upper_confidence_boundary")
            weeks[week] = {
                name: [round(float(row[name, end]), 6) for end in ends] for name in METRICS
            }
    (HERE / "cbpe.json").write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
