"""Writes the Python of README and the tutorials for type checkers, a module a page.

``python -m tests.support.write_page_code build/typed``
"""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = ("README.md", *(f"docs/tutorials/{path.name}" for path in TUTORIALS))


def code(page: str) -> str:
    """The examples of a page, in their order."""
    examples = doctest.DocTestParser().get_examples((ROOT / page).read_text("utf-8"))
    # Lists without annotations are theirs to leave out; the README is as strict as a program.
    header = "" if page == "README.md" else "# pyright: standard\n"
    return header + "".join(example.source for example in examples if not example.exc_msg)


if __name__ == "__main__":
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        name = page.lower().removesuffix(".md").replace("/", "_").replace("-", "_")
        (directory / f"{name}.py").write_text(code(page), encoding="utf-8")
