"""The examples of docs/command-line.md run, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.backend_independent

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"

MORE = """\
{"label": 1, "score": 0.8}
{"label": 0, "score": 0.7}
{"label": 1, "score": 0.3}
{"label": 0, "score": 0.2}
"""


def examples() -> list[tuple[str, str]]:
    """Each command of the page with the text under it."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [
        (command, text)
        for block in blocks
        for command, text in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="the page is written for a POSIX shell")
def test_the_page_prints_what_the_commands_print(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "streameval"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streameval.cli "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    (tmp_path / "more.jsonl").write_text(MORE)
    ran = 0
    for line, expected in examples():
        if line.startswith("cat "):
            (tmp_path / line.removeprefix("cat ")).write_text(expected)
            continue
        done = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        printed = done.stdout.decode()
        if done.returncode:
            printed += f"[exit code {done.returncode}]\n"
        assert printed == expected, line
        ran += 1
    assert ran >= 9


def test_the_page_names_every_option() -> None:
    from typer.main import get_command

    from streameval.cli.app import COMMANDS, app_of

    text = PAGE.read_text("utf-8")
    commands = get_command(app_of(COMMANDS)).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        assert f"streameval {name}" in text
        for parameter in command.params:
            for option in getattr(parameter, "opts", []):
                if option.startswith("--"):
                    assert option in text, option
