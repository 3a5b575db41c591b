"""The standard streams' edge cases: a reader that went away, a full disk, a terminal that lacks our signs,
and a stream that was closed from the start.
"""

import io
import os
import sys

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def forgive_signs() -> None:
    """Print another sign for one that the terminal's own encoding lacks, rather than nothing at all."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def quiet_stdout() -> None:
    """Nothing more can be written; keep the interpreter from complaining about it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_closed() -> None:
    """Lead a standard stream that was closed (``2>&-``) to nowhere, before a file of ours gets its number.

    Else what we and the programs that we start print would go into that file.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(opened, opened == number)
            setattr(sys, name, open(opened, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
