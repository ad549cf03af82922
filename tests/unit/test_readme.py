"""The README's commands run and print what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)


def steps(block: str) -> list[tuple[str, str]]:
    """Commands (lines that begin with ``$``) and what follows each."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, output = found.pop()
            found.append((command, output + line + "\n"))
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "demos").mkdir()
    shutil.copy(ROOT / "demos" / "spam.jsonl", tmp_path / "demos")
    commands = tmp_path / "bin"
    commands.mkdir()
    script = commands / "streameval"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streameval.cli "$@"\n')
    script.chmod(0o755)
    return tmp_path


@pytest.mark.slow
def test_the_tour(place: Path) -> None:
    shown = [step for block in BLOCKS for step in steps(block) if not step[0].startswith("make ")]
    assert len(shown) >= 4
    environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"}
    for command, output in shown:
        if command.startswith("pip "):
            continue
        done = subprocess.run(
            command, shell=True, cwd=place, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout == output, command


def test_pictures_are_there() -> None:
    for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / name).exists(), name
