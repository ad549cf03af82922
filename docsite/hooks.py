"""What MkDocs calls while it builds: adds the pages and figures that are made from the code.

Addresses are in ``[project.urls]`` of pyproject.toml and nowhere else.
"""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any

from mkdocs.structure.files import File

from benchmarks.growth import pictures
from docsite import figures, reference
from docsite.copying import with_commands
from docsite.measured import measured
from docsite.reference import ROOT, urls
from docsite.searching import weigh

_ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/results.md": "benchmarks.md",
}
"""Files outside docs/ that are pages of the site."""

_PICTURE = re.compile(r"<!-- picture (\S+) -->")
"""The place of a picture that is drawn for the site alone."""

_CELL = re.compile(r"(`[^`]*`)|(\w)\[(\w)\]\[(\w)\]")
"""Code, or a cell of a matrix, as C[i][j], which is no link."""

_SESSION = re.compile(r"^```python\n>>> ", re.MULTILINE)
"""The begin of a session of Python, whose prompts the highlighter has to know."""

_LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?(\))")


def on_config(config: Any) -> Any:
    """Addresses, and the pages of the reference in the navigation."""
    known = urls()
    config.site_url = known["Documentation"] + "/"
    config.repo_url = known["Source"]
    config.repo_name = "Source"
    made = reference.pages()
    _fill(config.nav, made)
    return config


def _fill(nav: list[Any], made: reference.Pages) -> None:
    for entry in nav:
        [(_, below)] = entry.items() if isinstance(entry, dict) else [("", None)]
        if not isinstance(below, list):
            continue
        for place, one in enumerate(below):
            if isinstance(one, str) and one.endswith("/*"):
                folder = one.removesuffix("*")
                inside = sorted(path for path in made if path.startswith(folder))
                inside.sort(key=lambda path: not path.endswith("index.md"))
                below[place : place + 1] = inside
                break
        _fill(below, made)


def on_files(files: Any, config: Any) -> Any:
    """Adds every file that is not in docs/."""
    for path, text in reference.pages().items():
        files.append(File.generated(config, path, content=text))
    for path, picture in figures.figures().items():
        files.append(File.generated(config, path, content=picture))
    for source, path in _ROOT_PAGES.items():
        text = _from_root((ROOT / source).read_text("utf-8"), source)
        files.append(File.generated(config, path, content=text))
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text("utf-8"))
    for path, picture in pictures(results, "results"):
        files.append(File.generated(config, path, content=picture))
    return files


def _from_root(text: str, source: str) -> str:
    """A file of the repository with its links as the site has them."""
    folder = posixpath.dirname(source)

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        if path in _ROOT_PAGES:
            path = _ROOT_PAGES[path]
        elif path.startswith("docs/"):
            path = path.removeprefix("docs/")
        else:
            path = _in_repository(path)
        return f"{found[1]}{path}{found[3] or ''}{found[4]}"

    return _PICTURE.sub(r"![the cost of an event against size](\1)", _LINK.sub(moved, text))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links out of docs/ lead to the page that the site has of a file, or to the repository."""
    here = page.file.src_uri
    weigh(here, page.meta)
    markdown = _SESSION.sub("```pycon\n>>> ", markdown)
    markdown = markdown.replace("<!-- measured -->", measured())
    for head, rows in reference.key_tables().items():
        markdown = markdown.replace(f"<!-- keys {head or 'run'} -->", rows)
    markdown = _CELL.sub(
        lambda found: found[1] or rf"{found[2]}\[{found[3]}\]\[{found[4]}\]", markdown
    )
    folder = posixpath.dirname(here)

    def moved(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, found[2]))
        if path.startswith("docs/"):
            return found[0]
        if path in _ROOT_PAGES:
            path = posixpath.relpath(_ROOT_PAGES[path], folder or ".")
        else:
            path = _in_repository(path)
        return f"{found[1]}{path}{found[3] or ''}{found[4]}"

    return _LINK.sub(moved, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """The copy button copies what can be run."""
    return with_commands(html)


def _in_repository(path: str) -> str:
    if not (ROOT / path).exists():
        raise FileNotFoundError(f"a link leads to {path}, which does not exist")
    return f"{urls()['Source']}/blob/main/{path}"


def on_post_build(config: Any) -> None:
    """The schema of the API beside its page."""
    with open(f"{config.site_dir}/reference/openapi.json", "w", encoding="utf-8") as file:
        json.dump(reference.schema(), file)
