"""The examples of the pages on the command line run, and print what the pages say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_runs import COMMAND, Command

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("command-line.md", "reading-files.md", "saved-states.md")
"""In the order in which they run, in one directory; tests/docs/test_pages.py runs others."""

MORE = '{"label": 1, "score": 0.8}\n{"label": 0, "score": 0.7}\n'
MORE += '{"label": 1, "score": 0.3}\n{"label": 0, "score": 0.2}\n'


@pytest.mark.skipif(sys.platform == "win32", reason="the pages are written for a POSIX shell")
def test_the_pages_print_what_the_commands_print(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("more.jsonl").write_text(MORE)
    text = "".join((DOCS / page).read_text("utf-8") for page in PAGES)
    steps = [
        step
        for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL)
        for step in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]
    assert len(steps) > 30
    for line, expected in steps:
        words = shlex.split(line)
        if words[0] == "cat":
            Path(words[1]).parent.mkdir(parents=True, exist_ok=True)
            Path(words[1]).write_text(expected)
            continue
        if shlex.join(words) == line and words[0] == "streameval":
            # Here, where it need not be loaded again.
            code, out, err = run(*words[1:])
        else:
            line = line.replace("streameval", shlex.join(COMMAND), 1)
            done = subprocess.run(line, shell=True, capture_output=True, text=True)
            code, out, err = done.returncode, done.stdout, done.stderr
        # What is skipped or used is said before the report; a gate and reasons after it.
        ended = f"[exit code {code}]\n" if code else ""
        said = err.splitlines(keepends=True)
        assert expected in [
            "".join([*said[:n], out, *said[n:], ended]) for n in range(len(said) + 1)
        ], line
