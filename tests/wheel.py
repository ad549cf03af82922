"""A short test of an installed wheel, which runs without the repository's packages.

``python tests/wheel.py``: the compiled parts are in the wheel, and a file is evaluated, saved,
merged and reported by the command.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import streameval as se


def main() -> None:
    """Raise AssertionError where something is not as it should be."""
    assert se.backend() == "native", se.backend()
    ev = se.Evaluator(window=se.Last(3))
    ev.update_many([True, False, True, False], score=[0.9, 0.4, 0.35, 0.8])
    ev.update(True, score=0.5)
    assert (ev["roc_auc"], ev["accuracy"]) == (0.0, 1 / 3), ev.report()
    if sys.platform != "win32":
        from streameval.states.native import native_lock

        assert native_lock.__file__
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.csv").write_text("label,score\n1,0.9\n0,0.4\n1,0.6\n0,0.7\n")
        options = ["--y-true", "label", "--score", "score", "--positive", "1", "--save", "a.state"]
        program = [sys.executable, "-m", "streameval.cli"]
        subprocess.run([*program, "evaluate", "a.csv", *options], cwd=folder, check=True)
        subprocess.run([*program, "report", "a.state", "--metrics", "f1"], cwd=folder, check=True)
        assert se.load(Path(folder, "a.state"))["roc_auc"] == 0.75
    print(f"streameval {se.__version__} ({se.backend()}) works on {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
