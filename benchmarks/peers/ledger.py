"""What became of each compared call, and the table of it."""

from __future__ import annotations

import functools
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

TOLERANCE = 1e-12
EQUAL, DIFFERENT, NOT_COVERED, REFUSED = "equal", "different", "not covered", "refused by the peer"
UNEXPLAINED = "not explained"


class NotCovered(Exception):  # noqa: N818  control flow of a comparison, no error
    """The call has no counterpart; the message is the reason."""


class Known(Exception):  # noqa: N818  as above
    """The libraries differ here as docs/definitions.md says; the message is the reason."""


def same(theirs: Any, ours: Any) -> bool:
    """Whether numbers, arrays, tuples or mappings of them agree to 1e-12; nan is nan."""
    if theirs is ours:
        return True
    if isinstance(theirs, Mapping):
        if not isinstance(ours, Mapping):
            return False
        return theirs.keys() == ours.keys() and all(same(theirs[k], ours[k]) for k in theirs)
    if isinstance(theirs, tuple):
        return len(theirs) == len(ours) and all(map(same, theirs, ours))
    if theirs is None or ours is None:
        return False
    left, right = np.asarray(theirs, dtype=float), np.asarray(ours, dtype=float)
    return left.shape == right.shape and bool(
        np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
    )


class Ledger:
    """Counts calls by peer, function, outcome and reason."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str, str, str]] = Counter()
        self.examples: list[str] = []
        self._inside = False

    def wrapped(
        self,
        peer: str,
        name: str,
        original: Callable[..., Any],
        counterpart: Callable[..., Any],
    ) -> Callable[..., Any]:
        """The peer's function, each outer call of which is compared with the counterpart's.

        The counterpart gets the call's result and then its arguments; what it returns has to be
        the same as the result.
        """

        @functools.wraps(original)
        def compared(*args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return original(*args, **kwargs)
            self._inside = True
            try:
                theirs = original(*args, **kwargs)
            except Exception:
                self.calls[peer, name, REFUSED, ""] += 1
                raise
            finally:
                self._inside = False
            self.observe(peer, name, theirs, lambda: counterpart(theirs, *args, **kwargs))
            return theirs

        return compared

    def observe(self, peer: str, name: str, theirs: Any, ours: Callable[[], Any]) -> None:
        """Compare one result with what ``ours`` returns, and count how that ended."""
        self._inside, value = True, None
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                value = ours()
            outcome, reason = (EQUAL, "") if same(theirs, value) else (DIFFERENT, UNEXPLAINED)
        except NotCovered as why:
            outcome, reason = NOT_COVERED, str(why)
        except Known as why:
            outcome, reason = DIFFERENT, str(why)
        except Exception as error:  # a refusal where the peer has a value is a difference
            outcome, reason, value = DIFFERENT, UNEXPLAINED, error
        finally:
            self._inside = False
        self.calls[peer, name, outcome, reason] += 1
        if reason == UNEXPLAINED:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
            self.examples.append(f"{peer} {name} in {test}: expected {theirs!r}, got {value!r}")

    def count(self, outcome: str, peer: str = "", name: str = "") -> int:
        """Calls with an outcome, of all or of one peer or function."""
        return sum(
            n
            for (of_peer, of_name, how, _), n in self.calls.items()
            if how == outcome and peer in ("", of_peer) and name in ("", of_name)
        )

    def share(self, *, known: bool = False) -> float:
        """Share of the covered calls that are equal, or also different for a known reason."""
        equal = self.count(EQUAL)
        covered = equal + self.count(DIFFERENT)
        if known:
            equal = covered - sum(n for key, n in self.calls.items() if key[3] == UNEXPLAINED)
        return equal / covered if covered else 0.0


def section(ledger: Ledger, peer: str, about: str, notes: Sequence[str] = ()) -> str:
    """One peer's tables as Markdown, below its version and the day they were measured."""
    outcomes = (EQUAL, DIFFERENT, NOT_COVERED, REFUSED)
    lines = [
        f"## {peer}",
        "",
        about,
        *notes,
        "",
        "| function | calls | covered | equal | different | not covered | refused |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in [*sorted({key[1] for key in ledger.calls if key[0] == peer}), ""]:
        counts = [ledger.count(outcome, peer, name) for outcome in outcomes]
        cells = [sum(counts), counts[0] + counts[1], *counts]
        lines.append(f"| {f'`{name}`' if name else ALL} | {' | '.join(f'{n:,}' for n in cells)} |")
    for outcome, title in ((DIFFERENT, "different"), (NOT_COVERED, "not covered")):
        reasons: Counter[str] = Counter()
        where: dict[str, set[str]] = {}
        for (of_peer, name, how, reason), n in ledger.calls.items():
            if (of_peer, how) == (peer, outcome):
                reasons[reason] += n
                where.setdefault(reason, set()).add(f"`{name}`")
        if reasons:
            lines += ["", f"| {title}: reason | calls | of |", "|---|--:|---|"]
        for reason, n in reasons.most_common():
            lines.append(f"| {reason} | {n:,} | {', '.join(sorted(where[reason]))} |")
    return "\n".join(lines) + "\n"


ALL = "all"
_SECTION = re.compile(r"^## (.+)$(?:.*\n)*?(?=^## |\Z)", re.MULTILINE)
_TOTALS = re.compile(rf"^\| {ALL} \|(.*)\|$", re.MULTILINE)


def sections(page: str) -> dict[str, str]:
    """The sections of a page that :func:`document` made, by peer."""
    return {found[1]: found[0].rstrip("\n") + "\n" for found in _SECTION.finditer(page)}


def document(parts: Mapping[str, str]) -> str:
    """The page of the sections of all peers."""
    totals = [row[1].split("|") for part in parts.values() for row in _TOTALS.finditer(part)]
    covered, equal = (sum(int(row[at].replace(",", "")) for row in totals) for at in (1, 2))
    head = f"""# Peers' own tests, with streameval beside them

`make peers` runs the public tests of other libraries, computes the counterpart here of
each call of a metric that they make, and compares the two values at 10⁻¹²
(`benchmarks/peers/`). It renews the sections of the peers whose tests it runs, and leaves the
others as they were measured: torchmetrics and River's further tests require their source trees.

**{equal / covered if covered else 0:.2%} of {covered:,} covered calls are equal.**
A call that the peer itself refuses has no value to compare.
"""
    return "\n".join([head, *(parts[peer] for peer in sorted(parts))])
