"""``streameval predictions``: what predictions say whose labels are not known yet."""

from __future__ import annotations

from dataclasses import dataclass

from streameval.cli import options
from streameval.cli.columns import meant_columns
from streameval.cli.counting import (
    Counting,
    Evaluated,
    Reading,
    begun_in_parts,
    count_and_report,
)
from streameval.cli.gate import Gate
from streameval.cli.options import (
    FilesArgument,
    FormatOption,
    MetricsOption,
    of_field,
    of_task,
    rare,
)
from streameval.cli.output import Format
from streameval.cli.pictures import checked_pictures
from streameval.cli.result import Details, result_of, write_result
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.records.input_files import column_names
from streameval.records.parts import processes
from streameval.states.ranking.coarse_score import LEAST_SCORES


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFree:
    """The options of predictions without true labels."""

    y_pred: str | None = of_field("Predicted label.")
    score: str | None = of_field("Score of the positive label.")
    proba: str | None = of_field("Probabilities, written as for `evaluate`.")
    threshold: float | None = of_task(
        "Smallest score predicted positive; 0.5 by default.", metavar="NUMBER"
    )
    max_scores: int | None = rare(
        "Most distinct scores kept; all by default.", metavar="N", min=LEAST_SCORES
    )
    workers: int | None = rare(
        "Processes; by default all cores for large files.", metavar="N", min=1, max=1000
    )


def predictions(
    files: FilesArgument,
    *,
    given: LabelFree,
    evaluated: Evaluated,
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
    counting: Counting,
    details: Details,
    reading: Reading,
) -> None:
    """Report on predictions without true labels.

    Their number, the share of each predicted label, and of scores the mean and quantiles
    (--metrics score_quantile:q=.9). Where no field is named, those are used whose names say what
    they are.
    """
    gate = Gate.of(details.fail_if)
    evaluated.check_slices(details.slice_options())
    calls = options.metric_calls(metrics)
    sources = reading.sources(files)
    named = {name: getattr(given, name) for name in ("y_pred", "score", "proba")}
    predicted = meant_columns(sources[0], named)
    pictures = checked_pictures(details)
    spec = evaluated.spec(
        reading,
        all_panes=details.series is not None,
        **predicted,
        y_true=None,
        threshold=given.threshold,
        max_scores=given.max_scores,
        intervals=details.intervals is not None or gate.needs_intervals,
        also_kept=(*details.metrics, *gate.metrics),
    )
    details.check_window(spec.window)
    gate.check(spec.slices, add="add")
    if spec.patterns:
        spec = spec.with_columns(column_names(sources[0]), sources[0].name)
    shard = counting.named()
    count = processes(given.workers, spec, sources)
    counter, chunks = begun_in_parts(spec, sources, reading, counting, count)

    def write(state: Evaluator | Comparison) -> bool:
        assert isinstance(state, Evaluator)
        result = result_of(state, calls, details)
        gate.judge(state, **details.judged)
        write_result(result, format, counter.bad if counting.skip else None, gate)
        return pictures.draw(state, result, files, counter.bad)

    count_and_report(counter, chunks, sources, write, counting, shard)
    gate.end()
