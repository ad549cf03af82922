"""Every row, against its peer in the same run: writes results.md, results.json and a picture.

``make bench`` (about twenty-five minutes) and ``make bench-quick`` (about five). Peers are timed in
turn with streameval, pair by pair; a row quotes medians. The exit code is 1 where a row could
not be measured, or falls below 0.9 of what is wanted. Of code that is not compiled nothing is
wanted: its rows are measurements.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import streameval as se
from benchmarks import (
    batches,
    bounded,
    events,
    files,
    label_sets,
    native,
    paths,
    service,
    windows,
)
from benchmarks.growth import pictures
from benchmarks.timing import NO_TARGET, Part, Row
from streameval.states.ranking.reference_index import ReferenceScoreIndex

HERE = Path(__file__).parent
PEERS = ("river", "scikit-learn", "sortedcontainers", "numpy", "confluent-kafka")


def indices() -> list[tuple[str, type]]:
    """The implementations of the score index that this machine has."""
    found: list[tuple[str, type]] = [("portable", ReferenceScoreIndex)]
    if se.backend() == "native":
        found.append(("native", se.ScoreIndex))
    return found


def sections(quick: bool) -> Iterator[tuple[str, list[Part]]]:
    """Titles and what measures their rows."""
    many = 1_000_000 if quick else 10_000_000
    distinct = 200_000 if quick else 1_000_000
    repeats = 3 if quick else 5
    yield (
        "Arrays at once",
        [
            partial(batches.five_metrics, many, repeats),
            partial(batches.five_of_numbers, many, repeats),
        ],
    )
    yield (
        "Merging",
        [partial(batches.merge_of_two, distinct, repeats, kind, name) for name, kind in indices()],
    )
    yield (
        "One event at a time",
        [
            partial(events.running_auc, distinct, 20_000, repeats),
            partial(events.evaluator_set, 20_000, repeats),
            partial(events.numbers, 20_000, repeats),
            partial(events.six_metrics, 3, 20_000, repeats, 3),
            partial(events.six_metrics, 1_000, 500 if quick else 1_000, repeats, 50),
        ],
    )
    yield "Every public path", paths.parts(quick)
    yield (
        "The index below the evaluator",
        [
            *(
                partial(events.index_auc, distinct, 20_000, repeats, kind, name, target)
                for (name, kind), target in zip(indices(), (None, 35), strict=False)
            ),
            *native.parts(quick),
        ],
    )
    yield "Bounded memory", bounded.parts(quick)
    yield "Windows", windows.parts(quick)
    yield "Label sets", label_sets.parts(quick)
    yield "Files", [partial(files.evaluate_file, many, 1 if quick else 3)]
    rows = 500_000 if quick else 2_000_000
    yield "Formats", [partial(files.evaluate_formats, rows, 1 if quick else 3)]
    if not quick:  # of a large file
        yield "Processes", [partial(files.evaluate_in_parts, 5 * rows, 3)]
    yield "Tables", [partial(files.evaluate_tables, rows, repeats)]
    yield "The service", service.parts(quick)


def measure(part: Part) -> list[Row] | str:
    """The rows of a part, or why there are none: one that fails leaves the others."""
    try:
        found = part()
    except Exception as error:
        traceback.print_exc()
        return f"{_called(part)}: {type(error).__name__}: {error}"
    rows = found if isinstance(found, list) else [found]
    if se.backend() == "portable":
        return [replace(row, target=NO_TARGET, reached=True) for row in rows]
    return rows


def _called(part: Any) -> str:
    if isinstance(part, partial):
        return f"{_called(part.func)}({', '.join(_called(value) for value in part.args)})"
    return str(getattr(part, "__name__", part))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in some minutes")
    parser.add_argument("--only", help="sections whose title has this in it; nothing is written")
    parser.add_argument(
        "--renew", action="store_true", help="with --only: write these among the earlier results"
    )
    options = parser.parse_args()
    measured: dict[str, list[Row]] = {}
    failed: list[str] = []
    for title, parts in sections(options.quick):
        if options.only and options.only.lower() not in title.lower():
            continue
        print(f"measuring: {title.lower()}", file=sys.stderr)
        measured[title] = []
        for part in parts:
            found = measure(part)
            if isinstance(found, str):
                failed.append(found)
                continue
            measured[title] += found
            for row in found:
                print(f"  {line(row)}", file=sys.stderr)
    if not options.only or options.renew:
        write(measured, failed, quick=options.quick, only=options.only)
    for text in failed:
        print(f"no row: {text}", file=sys.stderr)
    far = [row for rows in measured.values() for row in rows if not row.near]
    for row in far:
        print(f"below 0.9 of what is wanted: {row.name}: {row.ratio:.3g}", file=sys.stderr)
    sys.exit(bool(failed or far))


def write(
    measured: dict[str, list[Row]], failed: list[str], *, quick: bool, only: str | None
) -> None:
    """The results as JSON, Markdown and a picture; with ``only``, among the earlier ones."""
    name = "results-quick" if quick else "results"
    if only:
        earlier = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
        found = {t: [Row(**row) for row in rows] for t, rows in earlier["sections"].items()}
        measured = {**found, **measured}
        curves = {key: earlier[key] for key in ("growth", "growth_of_windows") if key in earlier}
    else:
        curves = {
            "growth": native.growth(quick=quick),
            "growth_of_windows": dict(paths.growth(quick)),
        }
    (HERE / f"{name}.json").write_text(
        json.dumps(
            {
                "machine": machine(),
                "sections": {
                    title: [row.to_dict() for row in rows] for title, rows in measured.items()
                },
                **curves,
            },
            indent=1,
        )
        + "\n",
        encoding="utf-8",
    )
    for path, picture in pictures(curves, name):
        (HERE / path).write_bytes(picture)
    (HERE / f"{name}.md").write_text(document(measured, failed, name), encoding="utf-8")
    print(f"wrote benchmarks/{name}.md", file=sys.stderr)


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "architecture": platform.machine(),
        "backend": se.backend(),
        **{peer: importlib.metadata.version(peer) for peer in PEERS},
    }


def line(row: Row) -> str:
    """A row in a line."""
    return (
        f"{row.name}: {row.ours:.3g} against {row.peer:.3g} {row.unit} ({row.peer_name}), "
        f"{row.ratio:.3g}, target {row.target} {row.verdict}".rstrip()
    )


def document(measured: dict[str, list[Row]], failed: list[str], name: str) -> str:
    """The results as Markdown."""
    facts = ", ".join(f"{key} {value}" for key, value in machine().items())
    lines = [
        "# Benchmark results",
        "",
        "Written by `make bench" + ("-quick" if "quick" in name else "") + "`: every row and its "
        "peer in one run, in turn, medians of repeats. Ratios carry over to other machines "
        "better than times do. A section may be younger than another (`--renew`).",
        "",
        f"Machine: {facts}.",
        "",
    ]
    for title, rows in measured.items():
        lines += [
            f"## {title}",
            "",
            "| what | streameval | peer | ratio | wanted | |",
            "| --- | ---: | ---: | ---: | --- | --- |",
        ]
        for row in rows:
            peer = f"{row.peer:.3g} {row.unit} ({row.peer_name}"
            peer += ")" if row.peer_exact == "exact" else f"; {row.peer_exact})"
            ours = f"{row.ours:.3g} {row.unit}"
            ours += "" if row.exact == "exact" else f" ({row.exact})"
            lines.append(
                f"| {row.name} | {ours} | {peer} | {row.ratio:.3g} | {row.target} | {row.verdict} |"
            )
        lines.append("")
    if failed:
        lines += ["## Rows that could not be measured", "", *(f"- {text}" for text in failed), ""]
    lines += [
        "## Cost against size",
        "",
        "One update and one read of the AUC over an index, by its number of distinct scores; and "
        f"the same through `Evaluator`, for each window. `make bench` draws `{name}.svg` and "
        f"`{name}-windows.svg` beside this page, and the site shows them.",
        "",
        f"<!-- picture {name}.svg -->",
        "",
        f"<!-- picture {name}-windows.svg -->",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
