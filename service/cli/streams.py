"""Standard output's edge cases: a reader that went away."""

import os
import sys


def quiet_stdout() -> None:
    """Nothing more can be written; keep the interpreter from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
