"""What the copy button of a block of code copies: what can be run, without prompts and output."""

from __future__ import annotations

import html
import re

_BLOCK = re.compile(r'<div class="([\w -]*\bhighlight)">(<pre>.*?</pre>)</div>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")


def with_commands(page: str) -> str:
    """The HTML of a page whose blocks with prompts say what is copied."""

    def block(found: re.Match[str]) -> str:
        text = html.unescape(_TAG.sub("", found[2]))
        copied = runnable(text)
        if copied == text:
            return found[0]
        return f'<div class="{found[1]}" data-copy="{html.escape(copied)}">{found[2]}</div>'

    return _BLOCK.sub(block, page)


def runnable(text: str) -> str:
    """The statements or commands of a session; any other text as it is.

    >>> runnable(">>> for n in (1, 2):\\n...     print(n)\\n1\\n2\\n")
    'for n in (1, 2):\\n    print(n)\\n'
    >>> runnable("$ cat a.txt\\none\\n$ wc -l a.txt\\n1 a.txt\\n")
    "cat > a.txt << 'END'\\none\\nEND\\nwc -l a.txt\\n"
    """
    lines = text.splitlines()
    if any(line.startswith(">>> ") for line in lines):
        prompts = (">>> ", "... ", "...")
        kept = [
            line.removeprefix(">>> ").removeprefix("...").removeprefix(" ")
            if line.startswith("...")
            else line.removeprefix(">>> ")
            for line in lines
            if line.startswith(prompts)
        ]
    elif lines and lines[0].startswith("$ "):
        kept = _commands(lines)
    else:
        return text
    return "\n".join(kept) + "\n"


def _commands(lines: list[str]) -> list[str]:
    """The commands of a console; ``$ cat FILE`` writes the file that the page shows."""
    kept: list[str] = []
    goes_on = writes = False
    for line in [*lines, "$ "]:
        if line.startswith("$ "):
            if writes:
                kept.append("END")
            command = line.removeprefix("$ ")
            writes = re.fullmatch(r"cat [\w./-]+", command) is not None
            kept.append(f"cat > {command.removeprefix('cat ')} << 'END'" if writes else command)
            goes_on = command.endswith("\\")
        elif goes_on or writes:
            kept.append(line)
            goes_on = line.endswith("\\")
    return kept[:-1]
