"""``streameval evaluate`` and ``predictions``: predictions in files, metrics out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from streameval.cli import options
from streameval.cli.columns import meant_columns
from streameval.cli.counting import (
    Counting,
    Evaluated,
    Reading,
    begun_in_parts,
    count_and_report,
    counted,
)
from streameval.cli.gate import Gate
from streameval.cli.options import (
    FilesArgument,
    FormatOption,
    MetricsOption,
    complete_threshold,
    of_field,
    of_task,
    rare,
)
from streameval.cli.output import Format, say
from streameval.cli.pictures import checked_pictures
from streameval.cli.result import Details, result_of, write_result
from streameval.errors import InputError, OptionError
from streameval.evaluator.comparison import Comparison
from streameval.evaluator.evaluator import Evaluator
from streameval.metrics.cut_points import CutPoint
from streameval.metrics.registry import USUAL_METRICS
from streameval.records.input_files import InputFile, column_names
from streameval.records.parts import processes
from streameval.records.remote import is_remote
from streameval.states.backend import slow_because
from streameval.states.ranking.coarse_score import LEAST_SCORES

_UNKNOWN_THRESHOLD = 0.5
"""Of a spec, before a rule has chosen its threshold."""

_LARGE_BYTES = 100_000_000
"""Files of so many bytes together take several seconds longer where nothing is compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictions:
    """The options of the predictions of one model, and of what is kept of them."""

    y_true: str | None = of_field("True label; y_true, target, label and the like by default.")
    y_pred: str | None = of_field("Predicted label.")
    score: str | None = of_field("Score of the positive label.")
    proba: str | None = of_field(
        "Probabilities: 'p_*' for fields p_LABEL; label=FIELD,label=FIELD; an object by "
        "label; a list with --labels."
    )
    threshold: str | None = of_task(
        "Smallest score predicted positive, 0.5 by default (multi-label: also LABEL=NUMBER); or "
        "the best by youden, f1, mcc, cost:FP:FN, precision_at_least:P, fpr_at_most:P.",
        metavar="NUMBER|RULE",
        autocompletion=complete_threshold,
    )
    bins: int | None = rare("Bins of calibration; 10 by default.", metavar="N", min=1)
    undefined: float | None = rare("Number in place of undefined values.", metavar="NUMBER")
    no_probabilities: bool = rare(
        "The fields of --proba hold scores of any size, one of each of --labels.",
        "--no-probabilities",
        default=False,
    )
    unit: str | None = rare(
        "Cluster of the bootstrap, such as the user: events of one are not independent.",
        metavar="FIELD",
    )
    max_scores: int | None = rare(
        "Most distinct scores kept; all by default.", metavar="N", min=LEAST_SCORES
    )
    workers: int | None = rare(
        "Processes; by default all cores for large files.", metavar="N", min=1, max=1000
    )


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


def evaluate(
    files: FilesArgument,
    *,
    given: Predictions,
    evaluated: Evaluated,
    metrics: MetricsOption = None,
    format: FormatOption = Format.TABLE,
    counting: Counting,
    details: Details,
    reading: Reading,
) -> None:
    """Evaluate the predictions in files.

    A record needs its true label, and a prediction: a label (--y-pred), a score
    (--score) or probabilities (--proba). Where none is named, those are used whose names say
    what they are, such as target and prob; a line says which.
    """
    gate = Gate.of(details.fail_if)
    evaluated.check_slices(details.slice_options())
    calls = options.metric_calls(metrics)
    everything = calls == options.ALL
    threshold = given.threshold
    cut_at = options.parse_threshold(threshold)
    rule = cut_at if isinstance(cut_at, tuple) else None
    if rule is not None and given.y_pred is not None:
        remedy = "predicted labels that are read do not depend on it; leave --y-pred out"
        raise OptionError.conflicts(f"--threshold {threshold}", "--y-pred", remedy=remedy)
    sources = reading.sources(files)
    fields = {name: getattr(given, name) for name in ("y_true", "y_pred", "score", "proba")}
    held = options.task_fields(evaluated.task)
    fields = {name: path for name, path in fields.items() if path or name in held}
    fields = meant_columns(sources[0], fields, scores_only=threshold is not None)
    names = () if calls is None or everything else tuple(name for name, _ in calls)
    pictures = checked_pictures(details)
    more = {"bins": given.bins, "undefined": given.undefined}
    spec = evaluated.spec(
        reading,
        all_panes=details.series is not None,
        **fields,
        unit=given.unit,
        threshold=_UNKNOWN_THRESHOLD if isinstance(cut_at, tuple) else cut_at,
        # Pictures need more states than the metrics that are named.
        metrics=None if everything or pictures else names or None,
        max_scores=given.max_scores,
        intervals=details.intervals is not None or gate.needs_intervals,
        probabilities=not given.no_probabilities,
        also_kept=(
            *details.metrics,
            *gate.metrics,
            *(names if pictures else ()),
            *pictures.metrics(evaluated.task.value),
        ),
        more={name: value for name, value in more.items() if value is not None},
    )
    details.check_window(spec.window)
    details.check_task(spec.kind)
    gate.check(spec.slices, add="add")
    details.groups(spec.slices, spec.kind)
    if spec.patterns:
        spec = spec.with_columns(column_names(sources[0]), sources[0].name)
    shard = counting.named()
    _say_slow(sources)
    count = processes(given.workers, spec, sources)

    chosen = None
    if rule is not None and threshold is not None:
        if any(source.is_pipe for source in sources):
            raise OptionError.requires(
                f"--threshold {threshold}", "files, which are read twice", remedy="write it to one"
            )
        # The rule looks at scores alone, of the same window.
        read = ("roc_auc" if spec.binary else "roc_auc_macro",)
        scores = replace(spec, metrics=read, also_kept=(), slices=(), unit=None, more={})
        ranked = counted(*begun_in_parts(scores, sources, reading, counting, count))
        assert isinstance(ranked, Evaluator)
        cuts = ranked.thresholds(rule[0], **rule[1])
        if isinstance(cuts, CutPoint):
            chosen = threshold, _checked_cut(cuts, threshold)
            spec = replace(spec, threshold=cuts.threshold)
        else:
            limits = {n: _checked_cut(cut, threshold).threshold for n, cut in cuts.items()}
            spec = replace(spec, threshold=limits)
            pairs = ",".join(f"{label}={limit:.6g}" for label, limit in limits.items())
            say(f"--threshold {pairs}: the best by {threshold} of these events")
    counter, chunks = begun_in_parts(spec, sources, reading, counting, count)

    def write(evaluator: Evaluator | Comparison) -> bool:
        assert isinstance(evaluator, Evaluator)
        shown = calls
        if calls is None and evaluator.options["metrics"] is not None:
            # More are kept than those that a gate or a picture has named.
            shown = tuple((name, {}) for name in USUAL_METRICS["report", evaluator.task])
        result = result_of(evaluator, shown, details, chosen=chosen)
        gate.judge(evaluator, **details.judged)
        write_result(result, format, counter.bad if counting.skip else None, gate)
        return pictures.draw(evaluator, result, files, counter.bad)

    count_and_report(counter, chunks, sources, write, counting, shard)
    gate.end()


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


def _say_slow(sources: Sequence[InputFile]) -> None:
    """Print how to be faster where large files are read without compiled parts."""
    slow = slow_because()
    if slow:
        # The size of a remote file takes a spec.
        sizes = (source.size or 0 for source in sources if not is_remote(source.path))
        if sum(sizes) >= _LARGE_BYTES:
            say(slow)


def _checked_cut(cut: CutPoint, text: str) -> CutPoint:
    """The cut-point of a rule of ``--threshold``; raises InputError where there is none."""
    if cut.reason or not math.isfinite(cut.threshold):
        raise InputError(
            "--threshold",
            expected=f"events of which {text} is the best at some threshold",
            got=cut.reason or "events of which it is the best to predict none positive",
            remedy="give a number, or another rule",
        )
    return cut
