"""Run peers' public tests and compare each call; writes benchmarks/peers.md.

python -m benchmarks.peers [--only scikit-learn] [--bounded] [--river FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.peers import river, scikit_learn
from benchmarks.peers.ledger import Ledger, document

LEAST = 0.995
PEERS = {module.PEER: module for module in (scikit_learn, river)}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--only", choices=PEERS, help="run one peer's tests")
    parser.add_argument("--bounded", action="store_true", help="some of them; writes nothing")
    parser.add_argument("--river", type=Path, help="a source tree of River, for its test files")
    options = parser.parse_args()

    ledger = Ledger()
    chosen = [PEERS[options.only]] if options.only else list(PEERS.values())
    for module in chosen:
        module.install(ledger)
        tests = module.tests(bounded=options.bounded, source=options.river)
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
    text = document(ledger, [f"{module.PEER} {version(module.PEER)}" for module in chosen])
    print(text)
    for example in ledger.examples[:40]:
        print(example[:1000], file=sys.stderr)
    if not (options.bounded or options.only):
        (Path(__file__).parents[1] / "peers.md").write_text(text, "utf-8")
    # A part of the tests has few calls: there, a difference with a known reason counts as covered.
    sys.exit(ledger.share(known=options.bounded) < LEAST)


if __name__ == "__main__":
    main()
