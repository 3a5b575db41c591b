"""The standard streams' edge cases: a reader that went away, a stream that was closed from the start, and one
that cannot write every letter.
"""

import os
import sys
from io import TextIOWrapper

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def quiet_stdout() -> None:
    """Nothing more can be written; keep the interpreter from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_closed() -> None:
    """Lead a standard stream that was closed (``2>&-``) to nowhere, before a file of ours gets its number.

    Else what we and the programs that we start print would go into that file. What a terminal's own encoding
    has no letter for is a question mark on it, not the end of the verb.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(opened, opened == number)
            setattr(sys, name, open(opened, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
