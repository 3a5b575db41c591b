"""Whether somebody sits at a launcher's terminal, and for how long nobody has typed there."""

import os
import time


def is_attached() -> bool:
    """Whether somebody may sit at a terminal, and the launcher is in its foreground."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def quiet_s() -> float | None:
    """For how long nobody typed at its terminal, to 8 s (Linux tells it no finer); ``None``: it has none."""
    return max(0.0, time.time() - os.fstat(0).st_atime) if is_attached() else None
