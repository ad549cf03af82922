"""The ledger of compared calls: outcomes, reasons, shares."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.peers.ledger import (
    DIFFERENT,
    EQUAL,
    REFUSED,
    Known,
    Ledger,
    NotCovered,
    document,
    section,
    sections,
)

FOLDER = Path(__file__).parents[2] / "benchmarks" / "peers"


def refused(reason: Exception) -> None:
    raise reason


def test_each_outcome_is_counted_with_its_reason_and_shares_follow() -> None:
    ledger = Ledger()
    for value in (1.0, 1.0 + 1e-13, 1.1):
        ledger.observe("peer", "f", 1.0, lambda value=value: value)
    ledger.observe("peer", "f", 1.0, lambda: refused(Known("ties")))
    ledger.observe("peer", "g", 1.0, lambda: refused(NotCovered("margins")))
    assert (ledger.count(EQUAL), ledger.count(DIFFERENT)) == (2, 2)
    assert ledger.share() == 2 / 4
    assert ledger.share(known=True) == 3 / 4
    assert len(ledger.examples) == 1
    text = section(ledger, "peer", "peer 1, measured on 2026-11-28.")
    assert "| ties | 1 | `f` |" in text
    assert "| margins | 1 | `g` |" in text
    # The section of a peer whose tests are not run is left as it is.
    other = section(ledger, "other", "other 2, measured on 2026-11-23.")
    page = document({"peer": text, "other": other})
    assert sections(page) == {"peer": text, "other": other}
    assert "**50.00% of 4 covered calls are equal.**" in page
    written = sections((FOLDER.parent / "peers.md").read_text("utf-8"))
    assert list(written) == ["river", "scikit-learn", "torchmetrics"]
    assert all(", measured on 2" in text for text in written.values())


def test_what_the_peer_refuses_is_refused_and_only_outer_calls_count() -> None:
    ledger = Ledger()

    def refuse(x: float) -> float:
        if x < 0:
            raise ValueError(x)
        return x

    counted_inner = ledger.wrapped("peer", "inner", refuse, lambda theirs, x: x)
    outer = ledger.wrapped("peer", "outer", lambda x: counted_inner(x), lambda theirs, x: x)
    assert outer(2.0) == 2.0
    with pytest.raises(ValueError, match="-1"):
        outer(-1.0)
    assert ledger.count(EQUAL, "peer", "outer") == 1
    assert ledger.count(REFUSED, "peer", "outer") == 1
    assert not ledger.count(EQUAL, "peer", "inner")


def test_a_peer_that_is_not_installed_is_named_with_its_requirements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.delitem(sys.modules, "benchmarks.peers.torchmetrics", raising=False)
    with pytest.raises(SystemExit, match=r"need torch, .*: pip install -r .*torchmetrics\.txt"):
        import_module("benchmarks.peers.torchmetrics")
    assert "\ntorch\n" in (FOLDER / "torchmetrics.txt").read_text("utf-8")
