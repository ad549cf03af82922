"""Run peers' public tests and compare each call; renews their sections of benchmarks/peers.md.

python -m benchmarks.peers [--only PEER] [--bounded] [--river FOLDER] [--torchmetrics FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.peers.ledger import Ledger, document, section, sections

LEAST = 0.995
PEERS = {"scikit-learn": "scikit_learn", "river": "river", "torchmetrics": "torchmetrics"}
"""The module of each, which is imported where its tests are run."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--only", choices=PEERS, help="run one peer's tests")
    parser.add_argument("--bounded", action="store_true", help="some of them; writes nothing")
    parser.add_argument("--river", type=Path, help="a source tree of River, for its test files")
    parser.add_argument("--torchmetrics", type=Path, help="one of torchmetrics, to run its tests")
    options = parser.parse_args()
    sources = {"river": options.river, "torchmetrics": options.torchmetrics}
    if options.only:
        chosen = [options.only]
    else:
        chosen = [name for name in PEERS if name != "torchmetrics" or options.torchmetrics]

    ledger, parts = Ledger(), {}
    for name in chosen:
        module = import_module(f"benchmarks.peers.{PEERS[name]}")
        module.install(ledger)
        tests = module.tests(bounded=options.bounded, source=sources.get(name))
        # Their tests may fail for reasons of their own: what counts are the compared calls.
        # In an empty folder, whose conftest.py is nobody's.
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            pytest.main(
                [
                    "-c",
                    "/dev/null",
                    "-q",
                    "--tb=no",
                    "--no-header",
                    "--disable-warnings",
                    "-p",
                    "no:cacheprovider",
                    *tests,
                ]
            )
        about = f"{name} {version(name)}, measured on {datetime.now(UTC).date()}."
        parts[name] = section(ledger, name, about, getattr(module, "NOTES", []))
    print(document(parts))
    for example in ledger.examples[:40]:
        print(example[:1000], file=sys.stderr)
    if not options.bounded:
        page = Path(__file__).parents[1] / "peers.md"
        # River's wheel has some of its tests only.
        whole = {name: text for name, text in parts.items() if sources.get(name, True)}
        page.write_text(document(sections(page.read_text("utf-8")) | whole), "utf-8")
    # A part of the tests has few calls: there, a difference with a known reason counts as covered.
    sys.exit(ledger.share(known=options.bounded) < LEAST)


if __name__ == "__main__":
    main()
