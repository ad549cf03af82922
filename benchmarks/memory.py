"""Resident memory of processes (Linux).

    python benchmarks/memory.py COMMAND [ARG ...]

runs a command and prints, after what the command prints, its peak in bytes.

``ru_maxrss`` of a process that a large one started says how large the *parent* was:
the figure is taken over when the child's program is loaded. So a process reads its
own peak from ``/proc``, and a command is measured by a small process that starts it.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
from pathlib import Path

__all__ = ["measured", "peak", "resident"]


def resident() -> int:
    """Bytes of this process that are in memory now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """The most bytes of this process that were ever in memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def measured(command: list[str]) -> list[str]:
    """The command that runs this one and prints its peak behind its output."""
    return [sys.executable, __file__, *command]


def main() -> None:
    """Run the command of the arguments; exits as it does."""
    done = subprocess.run(sys.argv[1:], check=False)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
