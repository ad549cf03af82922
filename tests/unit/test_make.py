"""Every target of make runs in CI, and a failing benchmark does not stop the others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import run
from benchmarks.timing import NO_TARGET, Row

ROOT = Path(__file__).parents[2]

_ELSEWHERE = {
    "check": "static and test-all",
    "bench": "bench-quick",
    "scripts": "static",
    "typed": "static",
    "test-fast": "test-all",
    "test": "test-all",
    "test-portable": "test-pythons, with the other Pythons",
    "test-all": "test-pythons, with the newest Python",
    "demo": "test-pythons, with the newest Python",
    "man": "wheel, which installs the page",
}
"""Targets that CI does not call by name -> which of the others do the same."""


def test_every_target_runs_in_ci() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    called = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / ".ci" / "run").read_text()))
    assert called | set(_ELSEWHERE) == targets


def _steps_of_ci(steps: str) -> subprocess.CompletedProcess[str]:
    """What CI's script does with these steps in place of its own."""
    script = (ROOT / ".ci" / "run").read_text()
    around = script[script.index("\nreport=") :]
    before, after = around[: around.index("\nstep ")], around[around.index("\nfor lines ") :]
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{before}\n{steps}\n{after}"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("step 60 bash -c 'exit 3'", "FAILED, exit code 3: bash -c exit 3\n"),
        ("step 60 no-such-command", "FAILED, exit code 127: no-such-command\n"),
        ("SECONDS=3538; step 1 sleep 600", "FAILED, not ended within 1 s: sleep 600\n"),
        ("step 60 bash -c 'kill -9 $$'", "FAILED, exit code 137: bash -c kill -9 $$\n"),
    ],
    ids=["fails", "is-missing", "hangs-at-the-end", "is-killed"],
)
def test_a_step_of_ci_that_fails_or_hangs_fails_it_and_leaves_the_others(step, said):
    done = _steps_of_ci(f"{step}\nSECONDS=0\nstep 60 echo two")
    assert done.returncode == 1
    assert done.stdout.startswith("two\n")
    assert said in done.stdout


def test_steps_of_ci_pass_and_one_that_has_no_time_is_named() -> None:
    done = _steps_of_ci("step 60 true\nSECONDS=3400\nstep 600 echo long\nstep 60 echo short")
    assert (done.returncode, done.stderr) == (0, "")
    said = r"short\n\d s: true\n\d s: echo short\nNOT TESTED, no time was left: echo long\n"
    assert re.fullmatch(said, done.stdout)


def test_the_modules_that_targets_run_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    names = set(re.findall(r"python -m ((?:tests|benchmarks|demos)[\w.]+)", makefile))
    assert len(names) >= 9
    assert {name for name in names if find_spec(name) is None} == set()
    for path, test in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", makefile):
        assert f"def {test}" in (ROOT / path).read_text(), f"{path}::{test}"


@pytest.mark.skipif(shutil.which("make") is None, reason="NOT TESTED: no make here")
def test_a_shim_that_does_not_run_hides_no_python(tmp_path: Path) -> None:
    """A version manager has programs on PATH that fail while their version is not active."""
    shims, versions = tmp_path / "shims", tmp_path / "versions"
    for path, text in (
        (shims / "python3.99", "exit 127"),
        (shims / "pyenv", f'[ "$*" = "whence --path python3.99" ] && echo {versions}/python3.99'),
        (versions / "python3.99", f'exec {sys.executable} "$@"'),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    command = ["make", "--dry-run", "PYTHON=python3.99", f"VENV={tmp_path}/none", "test-fast"]
    for behind in ([], [str(versions)]):
        path_of_both = os.pathsep.join([str(shims), *behind, os.environ["PATH"]])
        environment = {**os.environ, "PATH": path_of_both}
        said = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
        assert f"{sys.executable} -m venv {tmp_path}/none" in said


def test_selections_and_folders_of_tests_are_markers_that_exist() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = settings["tool"]["pytest"]["ini_options"]["markers"]
    selections = re.findall(r'pytest .*-m "([^"]*)"', (ROOT / "Makefile").read_text())
    assert len(selections) == 4
    named = set(re.findall(r"\w+", " ".join(selections))) - {"and", "or", "not"}
    named |= {module.parent.name for module in (ROOT / "tests").glob("*/test_*.py")}
    assert named <= {marker.partition(":")[0] for marker in markers}


def _row() -> Row:
    return Row("a row", 1.0, 2.0, 2.0, "≥ 1×", True, "a peer")


def _divide(number: int) -> Row:
    raise ZeroDivisionError(f"{number} / 0")


def test_a_row_that_fails_leaves_the_others(monkeypatch, capsys):
    parts = [("One section", [partial(_divide, 7), _row])]
    monkeypatch.setattr(run, "sections", lambda quick: iter(parts))
    monkeypatch.setattr("sys.argv", ["run", "--only", "one"])
    monkeypatch.setattr("streameval.backend", lambda: "native")  # else nothing is wanted
    with pytest.raises(SystemExit) as end:
        run.main()
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert "a row: 1 against 2 s (a peer), 2, target ≥ 1× reached" in said
    assert said.endswith("no row: _divide(7): ZeroDivisionError: 7 / 0\n")
    text = run.document({"One section": [_row()]}, ["_divide(7): ZeroDivisionError"], "results")
    assert "| 2 | ≥ 1× | reached |" in text
    plain = run.document({"One section": [replace(_row(), target=NO_TARGET)]}, [], "results")
    assert "| 2 | none |  |" in plain
    assert "## Rows that could not be measured\n\n- _divide(7): ZeroDivisionError" in text
