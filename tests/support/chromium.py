"""Finds the Chromium that the dashboard's tests drive."""

from __future__ import annotations

import os
import shutil

__all__ = ["ARGUMENTS", "MISSING", "find_chromium"]

# The first has no windows of its own to draw beside the pages.
NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)

MISSING = (
    "NOT TESTED: the dashboard in a browser. No Chromium is on the PATH; install one "
    "(make browser does where apt-get may be used) or name it in the variable CHROMIUM"
)
"""A skip with a reason that starts so is repeated in a run's last lines."""

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """The path of Chromium: what CHROMIUM names, else the first on the PATH."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    return next((path for name in NAMES if (path := shutil.which(name))), None)
