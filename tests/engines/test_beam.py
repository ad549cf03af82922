"""Beam: bundles in any cut, keys, windows and runners give the bytes of one evaluator."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streameval as se
from streameval.errors import InputError, StateError
from tests.engines.conftest import run_examples
from tests.support.table_cases import cases

beam = pytest.importorskip("apache_beam", reason="NOT TESTED: Apache Beam is not installed")

from apache_beam.options.pipeline_options import PipelineOptions  # noqa: E402
from apache_beam.testing.util import assert_that, equal_to  # noqa: E402
from apache_beam.transforms.window import (  # noqa: E402
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)

from streameval.integrations.beam import EvaluateFn, EvaluatorCoder  # noqa: E402

# Beam's own code warns about its dependencies and about files that the collector closes.
pytestmark = pytest.mark.filterwarnings("ignore")

BY_NAME = {case.name: case for case in cases() if "window" not in case.keywords}

PRISM = os.environ.get("PRISM") or shutil.which("prism") or "build/prism/prism"
"""Beam's portable runner as a program: ``make test-engines`` builds it where Go is installed."""

RUNNERS = {
    "direct": ["--runner=DirectRunner"],
    "two processes": [
        "--runner=FnApiRunner",
        "--direct_running_mode=multi_processing",
        "--direct_num_workers=2",
    ],
    "prism": [
        "--runner=PrismRunner",
        f"--prism_location={PRISM}",
        # The direct runner may have tried a server of its own, elsewhere.
        "--experiments=disable_prism_server_singleton",
    ],
}


@pytest.fixture(params=["direct", "prism", pytest.param("two processes", marks=pytest.mark.slow)])
def options(request: pytest.FixtureRequest) -> PipelineOptions:
    """The options of each runner."""
    if request.param == "prism" and not Path(PRISM).exists():
        pytest.skip("NOT TESTED: Beam's portable runner Prism is not built; install Go")
    return PipelineOptions(RUNNERS[request.param])


def accumulated(count: EvaluateFn, elements: list[Any]) -> Any:
    accumulator = count.create_accumulator()
    for element in elements:
        accumulator = count.add_input(accumulator, element)
    return accumulator


@pytest.mark.parametrize("name", BY_NAME)
@settings(max_examples=3)
@given(data=st.data())
def test_every_order_of_calls_gives_the_same_bytes(data: Any, name: str) -> None:
    """Accumulators that are fed events and tables, merged, compacted and encoded in any order."""
    case = BY_NAME[name]
    count = EvaluateFn(**case.keywords)
    coder = count.get_accumulator_coder()
    seed = data.draw(st.integers(0, 2**32 - 1))
    events = case.records(np.random.default_rng(seed).permutation(case.rows).tolist())
    open_ones = [count.create_accumulator()]
    while events:
        step = data.draw(st.sampled_from(["add", "table", "open", "merge", "compact", "encode"]))
        size = data.draw(st.integers(1, 200))
        if step == "add":
            for event in events[:size]:
                open_ones[0] = count.add_input(open_ones[0], event)
            events = events[size:]
        elif step == "table":
            table: Any = pd.DataFrame(events[:size])
            if data.draw(st.booleans()):
                table = arrow.Table.from_pandas(table)
            open_ones[0] = count.add_input(open_ones[0], table)
            events = events[size:]
        elif step == "open":
            open_ones.insert(0, count.create_accumulator())
        elif step == "merge":
            open_ones = [count.merge_accumulators(open_ones)]
        elif step == "compact":
            open_ones[0] = count.compact(open_ones[0])
        else:
            open_ones[0] = coder.decode(coder.encode(open_ones[0]))
    whole = count.extract_output(count.merge_accumulators(open_ones))
    assert whole.to_bytes() == case.expected().to_bytes()


def test_a_merge_leaves_its_operands_unchanged() -> None:
    case = BY_NAME["weights and slices"]
    count = EvaluateFn(**case.keywords)
    events = case.records(list(range(case.rows)))
    shards = [accumulated(count, events[:100]), accumulated(count, events[100:])]
    count.compact(shards[0])
    before = [count.get_accumulator_coder().encode(shard) for shard in shards]
    merged = count.merge_accumulators(shards)
    count.add_input(merged, events[0])
    count.compact(merged)
    assert [count.get_accumulator_coder().encode(shard) for shard in shards] == before


def test_more_events_than_are_collected_before_they_are_counted() -> None:
    count = EvaluateFn(y_true="y", score="p", metrics=["accuracy"])
    accumulator = accumulated(count, [{"y": 1, "p": 0.5}] * 10_000)
    assert len(accumulator.pending) == 10_000 % 4096
    assert count.extract_output(accumulator).confusion.total == 10_000


def same_bytes(expected: bytes) -> Any:
    def check(found: list[se.Evaluator]) -> None:
        assert [evaluator.to_bytes() for evaluator in found] == [expected]

    return check


def test_a_pipeline_gives_the_same_bytes_on_every_runner(options: PipelineOptions) -> None:
    case = BY_NAME["weights and slices"]
    records = case.records(list(range(case.rows)))
    for events, one in (
        (records, case.expected()),
        ([], se.Evaluator(positive="spam", slices=case.keywords["by"])),
    ):
        with beam.Pipeline(options=options) as pipeline:
            made = pipeline | beam.Create(events) | beam.Reshuffle()
            found = made | beam.CombineGlobally(EvaluateFn(**case.keywords))
            assert_that(found, same_bytes(one.to_bytes()))


def test_windows_and_keys_of_beam(options: PipelineOptions) -> None:
    rng = np.random.default_rng(5)
    events = [
        {"y": bool(rng.random() < 0.5), "p": round(rng.random(), 2), "at": int(n), "c": "ab"[n % 2]}
        for n in rng.permutation(7200)[:500]
    ]
    keywords = {"y_true": "y", "score": "p"}
    expected = []
    for start in range(-1800, 7200, 1800):
        for key in "ab":
            evaluator = se.Evaluator()
            for event in events:
                if start <= event["at"] < start + 3600 and event["c"] == key:
                    evaluator.update(event["y"], score=event["p"])
            expected.append((key, start, evaluator.to_bytes()))

    class WithWindow(beam.DoFn):
        def process(self, pair: Any, window: Any = beam.DoFn.WindowParam) -> Any:
            yield pair[0], int(window.start), pair[1].to_bytes()

    with beam.Pipeline(options=options) as pipeline:
        found = (
            pipeline
            | beam.Create(events)
            | beam.Map(lambda event: TimestampedValue((event["c"], event), event["at"]))
            | beam.WindowInto(SlidingWindows(3600, 1800))
            | beam.CombinePerKey(EvaluateFn(**keywords))
            | beam.ParDo(WithWindow())
        )
        assert_that(found, equal_to(expected))


@pytest.mark.parametrize("window", [FixedWindows(3600), Sessions(600)], ids=["fixed", "sessions"])
def test_other_windows_of_beam(window: Any) -> None:
    """The events of all windows together are those of the stream."""
    case = BY_NAME["scores"]
    records = case.records(list(range(case.rows)))
    with beam.Pipeline() as pipeline:
        found = (
            pipeline
            | beam.Create(list(enumerate(records)))
            | beam.MapTuple(lambda n, event: TimestampedValue(event, n * 59 + n // 50 * 3600))
            | beam.WindowInto(window)
            | beam.CombineGlobally(EvaluateFn(**case.keywords)).without_defaults()
            | "all" >> beam.WindowInto(beam.window.GlobalWindows())
            | beam.combiners.ToList()
            | beam.Map(se.merge)
        )
        assert_that(found, same_bytes(case.expected().to_bytes()))


def test_the_coder_writes_the_state() -> None:
    evaluator = BY_NAME["scores"].expected()
    coder = EvaluatorCoder()
    assert coder.encode(evaluator) == evaluator.to_bytes()
    assert coder.decode(evaluator.to_bytes()) == evaluator
    assert coder.is_deterministic()
    assert coder.to_type_hint() is se.Evaluator


def test_an_accumulator_that_was_sent_is_no_shard_of_the_result() -> None:
    combine = EvaluateFn(y_true="y", score="s")
    coder = combine.get_accumulator_coder()
    parts = []
    for _ in range(2):  # of equal content
        part = combine.add_input(combine.create_accumulator(), {"y": True, "s": 0.5})
        parts.append(coder.decode(coder.encode(part)))
    result = combine.extract_output(combine.merge_accumulators(parts))
    assert result.confusion.total == 2
    assert result.provenance == {"contents": [], "shards": []}


def test_the_error_of_a_pipeline_has_the_same_words() -> None:
    pipeline = beam.Pipeline()
    events = pipeline | beam.Create([{"y": 1, "p": "a"}])
    _ = events | beam.CombineGlobally(EvaluateFn(y_true="y", score="p"))
    words = r"score \(column 'p', event {'y': 1, 'p': 'a'}\): expected a finite number, got 'a'"
    with pytest.raises(Exception, match=words):
        pipeline.run()


def test_labels_of_another_type_do_not_merge() -> None:
    count = EvaluateFn(y_true="y", y_pred="g")
    shards = [accumulated(count, [{"y": label, "g": label}]) for label in ("a", 1)]
    with pytest.raises(StateError, match="labels: expected a str like the label 'a'"):
        count.merge_accumulators(map(count.compact, shards))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"window": se.Last(10)}, "window conflicts with windows by Beam; use beam.WindowInto("),
        ({"window": se.Panes("1h"), "time": "t"}, "window conflicts with windows by Beam; use"),
        ({"time": "t"}, "time conflicts with windows by Beam; use beam.WindowInto("),
        ({"metrics": ["kappa_temporal"]}, "metrics: expected metrics that do not depend on"),
    ],
)
def test_bad_options(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        EvaluateFn(**{"y_true": "y", "score": "p", "task": "binary"} | keywords)


def test_the_examples_of_the_document_and_the_module_run() -> None:
    from streameval.integrations import beam as module

    run_examples("beam.md", module)
