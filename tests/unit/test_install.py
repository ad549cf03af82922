"""The source distribution, and installs on a machine without a compiler; others: make wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

ROOT = Path(__file__).parents[2]

_PROGRAM = """
import importlib.metadata
import streameval as se
ev = se.Evaluator(window=se.Last(3))
ev.update_many([True, False, True, False], score=[0.9, 0.4, 0.35, 0.8])
ev.update(True, score=0.5)
licence = importlib.metadata.metadata("streameval")["License-Expression"]
print(se.__file__, se.backend(), ev["roc_auc"], ev["accuracy"], licence)
"""


def run(command: list[str], folder: Path, **environment: str) -> str:
    inherited = {
        name: text
        for name, text in os.environ.items()
        if name not in ("PYTHONPATH", "STREAMEVAL_BACKEND", "STREAMEVAL_NATIVE")
    }
    given = {**inherited, **environment}
    done = subprocess.run(
        command, cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package without what was built in place. What Cython generates is shared."""
    folder = tmp_path_factory.mktemp("source")
    built = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "streameval", folder / "streameval", ignore=built)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_the_source_distribution_has_every_source(source: Path) -> None:
    build = "import setuptools.build_meta as backend; print(backend.build_sdist('dist'))"
    archive = source / "dist" / run([sys.executable, "-c", build], source).split()[-1]
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    native = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.pyx", "*.pxd", "*.pyi", "*.hpp")
        for path in (ROOT / "streameval").glob(f"*/native/{pattern}")
    }
    assert len(native) > 10
    assert native | {"LICENSE", "README.md", "streameval/py.typed", "docs/streameval.1"} <= names
    assert not [name for name in names if name.endswith((".so", ".cpp"))]


@pytest.mark.parametrize(
    "environment",
    [{"STREAMEVAL_NATIVE": "skip"}, {"CC": "/bin/false", "CXX": "/bin/false"}],
    ids=["skipped by a variable", "no compiler"],
)
def test_without_a_compiler(environment: dict[str, str], source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    install = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "."]
    run(install, source, **environment)
    assert not [path for ending in ("so", "pyx") for path in target.rglob(f"*.{ending}")]
    assert (target / "share" / "man" / "man1" / "streameval.1").is_file()
    found = {"PYTHONPATH": str(target)}
    place, backend, *values, licence = run(
        [sys.executable, "-c", _PROGRAM], target, **found
    ).split()
    assert Path(place).is_relative_to(target)
    assert (backend, *map(float, values), licence) == ("portable", 0.0, 1 / 3, "BSD-3-Clause")
    version = run([sys.executable, "-m", "streameval.cli", "--version"], target, **found)
    first, second = version.splitlines()
    assert first.endswith("(portable score index)")
    assert second.startswith("the compiled parts are missing")
    assert second.endswith("pip install --force-reinstall --no-binary streameval streameval")
    # A backend that was selected and does not exist is an error that says what to do.
    selected = {**os.environ, **found, "STREAMEVAL_BACKEND": "native"}
    command = [sys.executable, "-c", "import streameval as se; se.Evaluator"]
    refused = subprocess.run(
        command, cwd=target, env=selected, capture_output=True, text=True, check=False
    )
    assert refused.returncode
    assert "install a C++ compiler" in refused.stderr
