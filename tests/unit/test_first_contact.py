"""What is typed in the first hour: mistakes, the words that name the remedy, and the remedy run.

A remedy that does not work is worse than none, so every row has the corrected call, which is run.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streameval as se

TRUTH, LABELS, SCORES = [1, 0, 1, 0], [1, 0, 0, 0], [0.9, 0.2, 0.4, 0.1]
TEXTS, GUESSES = ["yes", "no", "yes", "no"], ["yes", "no", "no", "no"]
PETS, PREDICTED = ["cat", "dog", "owl", "cat"], ["cat", "dog", "cat", "cat"]
PAIRS = np.array([[0.1, 0.9], [0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
TRIPLES = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.2, 0.2], [0.5, 0.3, 0.2]])
LOGITS = np.array([[2.0, -1.0, 0.5], [0.1, 3.0, -2.0], [2.5, 1.0, 2.0], [1.5, 0.0, -1.0]])


@functools.cache
def made() -> dict[str, Any]:
    """What rows can use, beside modules."""
    frame = pd.DataFrame(
        {"y": TRUTH, "p": LABELS, "s": SCORES, "w": [1, 2, 1, 1], "country": list("SPSP")}
    )
    ev = se.Evaluator()
    ev.update_many(TRUTH, score=SCORES)
    multi = se.Evaluator(task="multiclass", labels=["cat", "dog", "owl"])
    multi.update_many(PETS, proba=TRIPLES)
    sliced = se.Evaluator(slices=("country",))
    sliced.update_many(TRUTH, score=SCORES, slices={"country": list("SPSP")})
    comparison = se.Comparison()
    comparison.update_many(TRUTH, {"champion": LABELS, "challenger": TRUTH})
    return {
        "df": frame, "ev": ev, "multi": multi, "sliced": sliced, "new": se.Evaluator(),
        "c": comparison, "softmax": np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True),
        "TRUTH": TRUTH, "LABELS": LABELS, "SCORES": SCORES, "TEXTS": TEXTS, "GUESSES": GUESSES,
        "PETS": PETS, "PREDICTED": PREDICTED, "PAIRS": PAIRS, "TRIPLES": TRIPLES, "LOGITS": LOGITS,
    }  # fmt: skip


def run(code: str) -> None:
    """Evaluate a call with what it names; copied, because calls count events."""
    copies = {name: one.copy() for name, one in made().items() if name in code}
    eval(code, {"se": se, "np": np, "pd": pd, **copies})


def mistakes() -> list[tuple[str, str, str]]:
    """The mistake, words of its message, and the call that the message leads to."""
    text = Path(__file__).parents[1].joinpath("support", "mistakes.txt").read_text("utf-8")
    lines = [line.strip() for line in text.split("\n") if line.strip() and line[0] != "#"]
    return list(zip(lines[::3], lines[1::3], lines[2::3], strict=True))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("mistake", "words", "remedy"), mistakes(), ids=lambda text: text[:50])
def test_a_mistake_names_its_remedy(mistake: str, words: str, remedy: str) -> None:
    with pytest.raises(
        (se.StreamevalError, TypeError, AttributeError, KeyError, OSError)
    ) as raised:
        run(mistake)
    if se.backend() == "native" or "got an unexpected keyword" not in str(raised.value):
        # In Python each event's call would take longer, if its keywords were explained.
        assert words in str(raised.value)
    run(remedy)


def test_there_are_a_hundred_mistakes() -> None:
    assert len(mistakes()) >= 100
