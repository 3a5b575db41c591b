"""The version of this program, and the commit that it was built from."""

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGE = "fallow-gpu"
NOT_INSTALLED = "0+checkout"
"""Run from a checkout that was not installed: no file says which version it is."""
COMMIT_FILE = Path(__file__).with_name("commit.txt")
"""Written by ``make dist``, so that an installed program knows its commit; a checkout asks git."""
GIT_LIMIT_S = 5.0
"""git answers in milliseconds, unless its disk does not."""


@cache
def own_version() -> str:
    """What the installed package says; read once, because it lies in a file."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        return NOT_INSTALLED


def own_commit(file: Path = COMMIT_FILE) -> str | None:
    """The commit, ``-dirty`` behind it where files differ; ``None`` where nothing says. Blocks briefly."""
    try:
        return file.read_text().strip() or None
    except OSError:
        pass
    root = file.parents[1]
    if not (root / ".git").exists():
        return None
    ask = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        output = subprocess.run(ask, capture_output=True, text=True, timeout=GIT_LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return output.stdout.strip() or None
