"""Is there a Java that Spark can use? Asked before Spark starts, to say in one sentence what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from sash.errors import SetupError

LEAST_VERSION = 17


def check_java() -> None:
    """Raise SetupError unless JAVA_HOME or the PATH leads to Java 17 or later."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    hint = f"install Java {LEAST_VERSION}+ (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is '{home}'" if home else "no java on the PATH"
        raise SetupError("Spark needs Java and there is none", got=where, hint=hint, id="java-missing")
    try:
        # In a session of its own: a Ctrl-C at the terminal is for the driver, not for this question.
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True, start_new_session=True
        ).stderr
    except (OSError, subprocess.SubprocessError) as failure:
        raise SetupError(
            f"'{java}' does not run", got=str(failure), hint=hint, id="java-missing"
        ) from failure
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is None or int(found.group(1)) < LEAST_VERSION:
        version = found.group(1) if found else told.splitlines()[0] if told else "unknown"
        raise SetupError(
            f"Spark needs Java {LEAST_VERSION} or later",
            got=f"Java {version} ('{java}')",
            hint=hint,
            id="java-old",
        )
