"""An install on a machine that cannot compile works, and says what it left out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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


@pytest.mark.parametrize(
    "environment",
    [{"STREAMEVAL_NATIVE": "skip"}, {"CC": "/bin/false", "CXX": "/bin/false"}],
    ids=["told not to", "no compiler"],
)
def test_without_a_compiler(environment: dict[str, str], tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    built = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(ROOT / "streameval", source / "streameval", ignore=built)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    install = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "."]
    run(install, source, **environment)
    assert not list((target / "streameval" / "native").glob("*.so"))
    found = {"PYTHONPATH": str(target)}
    place, backend, auc, accuracy = run([sys.executable, "-c", _PROGRAM], target, **found).split()
    assert Path(place).is_relative_to(target)
    assert (backend, float(auc), float(accuracy)) == ("portable", 0.0, 1 / 3)
    version = run([sys.executable, "-m", "streameval.cli", "--version"], target, **found)
    assert version.endswith("(portable score index)\n")
    # What was asked for and is not there is an error that says what to do.
    refused = subprocess.run(
        [sys.executable, "-c", "import streameval"],
        cwd=target,
        env={**os.environ, **found, "STREAMEVAL_BACKEND": "native"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode
    assert "install a C++ compiler" in refused.stderr
