"""Installs: from the source distribution, compiled; and on a machine without a compiler."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.heavy]

ROOT = Path(__file__).parents[2]

_PROGRAM = """
import streameval as se
ev = se.Evaluator(window=se.Last(3))
ev.update_many([True, False, True, False], score=[0.9, 0.4, 0.35, 0.8])
ev.update(True, score=0.5)
print(se.__file__, se.backend(), ev["roc_auc"], ev["accuracy"])
"""


def run(command: list[str], folder: Path, **environment: str) -> str:
    inherited = {
        name: text
        for name, text in os.environ.items()
        if name not in ("PYTHONPATH", "STREAMEVAL_BACKEND", "STREAMEVAL_NATIVE")
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
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


def _no_compiler() -> bool:
    names = [os.environ.get("CXX", "c++").split()[0], "c++", "g++", "clang++"]
    return sys.platform != "win32" and not any(map(shutil.which, names))


@pytest.mark.skipif(_no_compiler(), reason="NOT TESTED: a compiled wheel: no C++ compiler here")
def test_source_distribution_to_wheel_to_a_fresh_environment(source: Path, tmp_path: Path) -> None:
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

    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    options = ["--no-build-isolation", "--no-deps", "--no-index"]
    wheels = tmp_path / "wheels"
    # Optimisation takes most of the build and changes no result.
    environment = {"STREAMEVAL_NATIVE": "require", "STREAMEVAL_OPTIMISE": "0"}
    run([*pip, "wheel", *options, "-w", str(wheels), str(archive)], tmp_path, **environment)
    [wheel] = wheels.iterdir()

    venv.create(tmp_path / "fresh", with_pip=False)
    python = str(tmp_path / "fresh" / "bin" / "python")
    run([*pip, "--python", python, "install", "--no-deps", "--no-index", str(wheel)], tmp_path)
    # The dependencies are those that are installed here.
    where = run([python, "-c", "import site; print(site.getsitepackages()[0])"], tmp_path).strip()
    Path(where, "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    place, backend, auc, accuracy = run([python, "-c", _PROGRAM], tmp_path / "wheels").split()
    assert Path(place).is_relative_to(where)
    assert (backend, float(auc), float(accuracy)) == ("native", 0.0, 1 / 3)
    assert not list(Path(where, "streameval").rglob("*.pyx"))
    command = str(tmp_path / "fresh" / "bin" / "streameval")
    assert run([command, "--version"], tmp_path).endswith("(native score index)\n")
    assert (tmp_path / "fresh" / "share" / "man" / "man1" / "streameval.1").is_file()
    facts = "import importlib.metadata as m; print(m.metadata('streameval')['License-Expression'])"
    assert run([python, "-c", facts], tmp_path) == "BSD-3-Clause\n"


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
    assert not list(target.rglob("*.so"))
    found = {"PYTHONPATH": str(target)}
    place, backend, auc, accuracy = run([sys.executable, "-c", _PROGRAM], target, **found).split()
    assert Path(place).is_relative_to(target)
    assert (backend, float(auc), float(accuracy)) == ("portable", 0.0, 1 / 3)
    version = run([sys.executable, "-m", "streameval.cli", "--version"], target, **found)
    first, second = version.splitlines()
    assert first.endswith("(portable score index)")
    assert second.startswith("the compiled parts are missing")
    assert second.endswith("pip install --force-reinstall --no-binary streameval streameval")
    # A backend that was selected and does not exist is an error that says what to do.
    refused = subprocess.run(
        [sys.executable, "-c", "import streameval as se; se.Evaluator"],
        cwd=target,
        env={**os.environ, **found, "STREAMEVAL_BACKEND": "native"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode
    assert "install a C++ compiler" in refused.stderr
