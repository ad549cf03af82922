"""Jars for the tests, fetched with Maven."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_FETCH_SECONDS = 400

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streameval</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
    </dependency>
  </dependencies>
</project>
"""


class AbsentError(Exception):
    """The jars cannot be had here; the message says why."""


def fetch(artifact: str, home: Path) -> Path:
    """The directory of an artifact's jars (``group:name:version``), fetched at the first call."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise AbsentError(f"{program} is not installed")
    group, name, version = artifact.split(":")
    jars = home / version
    if (jars / ".complete").exists():
        return jars
    home.mkdir(parents=True, exist_ok=True)
    (home / "pom.xml").write_text(_POM.format(group, name, version))
    try:
        done = subprocess.run(
            [
                *("mvn", "-q", "-B", "-f", str(home / "pom.xml")),
                *("dependency:copy-dependencies", f"-DoutputDirectory={jars}"),
            ],
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise AbsentError(f"Maven took more than {_FETCH_SECONDS} s") from None
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        raise AbsentError(f"Maven could not fetch it: {lines[0][:200] if lines else 'no reason'}")
    (jars / ".complete").touch()
    return jars
