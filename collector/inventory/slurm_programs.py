"""Asks Slurm's own programs for text: what they print, or nothing where they can't be asked."""

import shutil
import subprocess
from collections.abc import Sequence

TIMEOUT_S = 6.0
"""Below the loop's own limit for a source, so that the reason is ours."""


def output(command: Sequence[str]) -> str | None:
    """What the command printed; ``None`` where it isn't there, fails, or takes too long. Blocks."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
