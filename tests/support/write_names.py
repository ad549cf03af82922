"""Writes ``streameval/metrics/names.py``: the names of metrics, curves and cut-points as types.

``python -m tests.support.write_names``; a test compares the file with the registries.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from streameval.metrics.curves import CURVES
from streameval.metrics.cut_points import CUT_POINTS
from streameval.metrics.registry import METRICS

PATH = Path(__file__).parents[2] / "streameval" / "metrics" / "names.py"

_HEAD = '''"""The names of metrics, curves and cut-points as types, so that editors complete them.

Written by ``python -m tests.support.write_names`` from the registries.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

__all__ = ["CurveName", "CutPointName", "MetricName"]
'''


def text() -> str:
    """The file's content."""
    parts = [_HEAD]
    for name, names in (
        ("MetricName", METRICS),
        ("CurveName", CURVES),
        ("CutPointName", CUT_POINTS),
    ):
        quoted = ", ".join(f'"{one}"' for one in sorted(names))
        lines = textwrap.indent(textwrap.fill(quoted, 96), "    ")
        parts.append(f"{name}: TypeAlias = Literal[\n{lines}\n]  # fmt: skip\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
