"""State files and pickles as an earlier build wrote them, and the objects that are in them.

Run as a module it adds to ``tests/golden/files.json`` those that are not there yet; what is there
is never replaced, as users have such files.
"""

from __future__ import annotations

import base64
import itertools
import json
import pickle
import pickletools
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import streameval as se
from tests.support import golden_states

FILE = Path(__file__).parents[1] / "golden" / "files.json"
SAVED = (
    ("labels", "all", "whole", "few slices"),
    ("scores", "panes", "whole", "plain"),
    ("scores", "fading", "whole", "intervals"),
    ("scores", "last", "wide", "plain"),
    ("classes", "last", "whole", "temporal"),
    ("probabilities", "all", "fractions", "intervals"),
    ("class scores", "fading events", "whole", "plain"),
    ("comparison scores", "all", "whole", "unpaired"),
    ("comparison probabilities", "fading", "whole", "plain"),
)


def evaluations() -> Iterator[tuple[str, Any]]:
    """Evaluators and comparisons, each with a shard's name."""
    for parts in SAVED:
        case = golden_states.Case(*parts)
        ev = golden_states.counted(case, "single")
        if not isinstance(ev, str):
            ev.name_shard("eu-1", epoch=2, sequence=(0, 36))
            yield case.name, ev


def objects() -> Iterator[tuple[str, Any]]:
    """What else is pickled: states, specifications, results and errors."""
    index = se.ScoreIndex([(True, 0.5), (False, 0.25), (True, 0.125)])
    yield f"ScoreIndex, {se.backend()}", index
    counts = se.ConfusionCounts()
    counts.update_many(["a", "b", "b"], ["a", "b", "a"])
    yield "ConfusionCounts", counts
    moments, sums = se.ScoreMoments(), se.ProbabilitySums()
    for y_true, score in ((True, 0.75), (False, 0.25), (True, 0.5)):
        moments.update(y_true, score)
        sums.update(y_true, score)
    yield "ScoreMoments", moments
    yield "ProbabilitySums", sums
    yield "windows", (se.Last(5), se.Panes("4h", pane="1h"), se.Fading("6h"), se.Bootstrap(50))
    ev = se.Evaluator(metrics=["accuracy", "roc_auc"])
    ev.update_many([0, 1, 1, 0], score=[0.1, 0.75, 0.5, 0.5])
    yield "Report", ev.report(intervals=0.9)
    yield "Interval and Bounds", (ev.interval("accuracy"), ev.bounds("roc_auc"))
    yield "RocCurve", ev.curve("roc")
    pair = se.Comparison(metrics=["accuracy"])
    pair.update_many([0, 1, 1], {"champion": [0, 1, 0], "challenger": [0, 0, 0]})
    yield "Difference", pair.difference("accuracy")
    yield (
        "errors",
        (
            se.InputError("score", expected="a number", got="'x'", position=3, remedy_code="score"),
            se.StateError("damaged"),
            se.MetricError("unknown"),
        ),
    )


def saved(ev: Any) -> bytes:
    """The bytes of the file that it is saved to."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.state")
        ev.save(path)
        return path.read_bytes()


def names_in(data: bytes) -> list[str]:
    """Modules and names of this package that a pickle refers to."""
    texts = [
        argument
        for opcode, argument, _ in pickletools.genops(data)
        if opcode.name in ("SHORT_BINUNICODE", "BINUNICODE", "STACK_GLOBAL")
    ]
    found = [
        f"{module}:{name}"
        for module, name in itertools.pairwise(texts)
        if str(module).startswith("streameval") and name is not None
    ]
    return sorted(set(found))


def text_of(data: bytes) -> str:
    """Bytes as the file holds them."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def bytes_of(text: str) -> bytes:
    """The bytes that :func:`text_of` wrote."""
    return zlib.decompress(base64.b64decode(text))


def written() -> dict[str, dict[str, str]]:
    """What the file holds, and what is new."""
    old = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    states, pickles = dict(evaluations()), dict(objects())
    new_files = {name: text_of(saved(ev)) for name, ev in states.items()}
    new_pickles = {
        name: text_of(pickle.dumps(one, 4)) for name, one in {**states, **pickles}.items()
    }
    return {
        "files": {**new_files, **old.get("files", {})},
        "pickles": {**new_pickles, **old.get("pickles", {})},
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(written(), indent=1) + "\n", encoding="utf-8")
