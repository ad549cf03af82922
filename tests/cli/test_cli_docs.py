"""The examples of the pages on the command line run, and print what the pages say."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from streameval.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("command-line.md", "reading-files.md", "saved-states.md", "other-tasks.md")
"""In the order in which they run, in one directory."""

MORE = """\
{"label": 1, "score": 0.8}
{"label": 0, "score": 0.7}
{"label": 1, "score": 0.3}
{"label": 0, "score": 0.2}
"""


def examples() -> list[tuple[str, str]]:
    """Each command of the pages with the text under it."""
    text = "".join((DOCS / page).read_text("utf-8") for page in PAGES)
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [
        (command, text)
        for block in blocks
        for command, text in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def printed_here(arguments: list[str]) -> str:
    """What a command prints, run in this process, where it need not be loaded again."""
    shown = io.BytesIO()
    with (
        io.TextIOWrapper(shown, "utf-8", write_through=True) as text,
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
    ):
        code = main(arguments)
        return shown.getvalue().decode() + (f"[exit code {code}]\n" if code else "")


def printed_by_a_shell(line: str, program: Path) -> str:
    """What a line prints in a shell that finds the program."""
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        line, shell=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout.decode() + (f"[exit code {done.returncode}]\n" if done.returncode else "")


@pytest.mark.skipif(sys.platform == "win32", reason="the pages are written for a POSIX shell")
def test_the_pages_print_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "streameval"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streameval "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    Path("more.jsonl").write_text(MORE)
    ran = 0
    for line, expected in examples():
        if line.startswith("cat "):
            path = Path(line.removeprefix("cat "))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expected)
            continue
        words = shlex.split(line)
        plain = words[0] == "streameval" and shlex.join(words) == line
        shown = printed_here(words[1:]) if plain else printed_by_a_shell(line, program)
        assert shown == expected, line
        ran += 1
    assert ran >= 9
