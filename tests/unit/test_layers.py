"""The rule of the architecture: a module imports only what lies beneath it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import streameval

pytestmark = pytest.mark.backend_independent

ROOT = Path(streameval.__file__).parent

# From the bottom up. Modules of one row may import each other where they are
# one package; single modules may not.
LAYERS = [
    "errors",
    "events",
    "states",
    "metrics",
    "windows",
    "state_files",
    "evaluator",
    ("integrations", "plots", "prequential", "records"),
    "service",
    "demo",
    "cli",
]

# What comes with an extra is imported in one module.
OPTIONAL = {
    "confluent_kafka": {"service/sources/kafka_consumer.py"},
    "starlette": {"service/http/app.py"},
    "uvicorn": {"service/http/server.py"},
    "prometheus_client": {"service/http/prometheus.py"},
    "plotly": set(),
    "pyarrow": {"records/parquet.py"},
    "river": {"demo/flights.py", "integrations/river.py"},
    "sklearn": {"plots.py"},
    "matplotlib": {"plots.py"},
}


def rank(part: str) -> int:
    for number, layer in enumerate(LAYERS):
        if part == layer or (isinstance(layer, tuple) and part in layer):
            return number
    raise AssertionError(f"{part} has no place in the layers: add it to LAYERS and docs/design.md")


def modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py"]


def imports(path: Path) -> list[str]:
    """Dotted names that a module imports, at any depth of its code."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def broken_rules(path: Path, names: list[str]) -> list[str]:
    own = part_of(path)
    found = []
    for name in names:
        pieces = name.split(".")
        if pieces[0] == "streameval" and len(pieces) > 1:
            # The package's own __init__ may be asked for its version only.
            if pieces[1] == "__version__":
                continue
            if pieces[1] != own and rank(pieces[1]) >= rank(own):
                peers = [layer for layer in LAYERS if isinstance(layer, tuple) and own in layer]
                if not any(pieces[1] in layer for layer in peers):
                    found.append(f"{own} imports {name} from above or beside it")
        where = path.relative_to(ROOT).as_posix()
        if pieces[0] in OPTIONAL and where not in OPTIONAL[pieces[0]]:
            found.append(f"{where} imports the optional {pieces[0]}")
    return found


def test_imports_go_down() -> None:
    assert [rule for path in modules() for rule in broken_rules(path, imports(path))] == []


def test_every_layer_exists() -> None:
    parts = {part_of(path) for path in modules()}
    named = {part for layer in LAYERS for part in ([layer] if isinstance(layer, str) else layer)}
    assert named == parts


def test_the_test_can_fail() -> None:
    wrong = ["streameval.evaluator.evaluator.Evaluator", "pyarrow.parquet"]
    assert len(broken_rules(ROOT / "states" / "confusion.py", wrong)) == 2


def test_no_module_is_named_for_nothing() -> None:
    forbidden = {"utils", "helpers", "base", "manager", "common"}
    assert not {path.stem for path in modules()} & forbidden
