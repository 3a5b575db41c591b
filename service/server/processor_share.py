"""How the one process shares its processor among those who answer, those who act and those who measure.

All of them are threads of one interpreter, of which one runs at a time. A request passes from thread to
thread several times, and each time waits until whoever computes gives way: by Python's own setting for up to
5 ms, here for a twentieth of that. So a decision about thousands of waiting jobs is no pause for others.

What was made at the start lives as long as the process: of 172,010 objects 429 were garbage, and to find that
out took 0.1 s (23 November 2026). Taken out of the garbage collector's sight, it is not looked through again:
with 10,000 waiting jobs a full collection stopped all threads for 0.09 to 0.1 s of processor time, about
every second cycle (21 November 2026). Young objects are collected in pieces of about 1 ms.

These are settings of the whole process, so whoever owns the process makes them: ``fallow serve``.
"""

import gc
import sys

SWITCH_S = 0.000_25
YOUNG_OBJECTS = 5_000
"""So many new objects until the young ones are looked through; a cycle over 10,000 jobs makes eight times as
many."""


def begin() -> None:
    """Collect no garbage until ``settle``: at a start all is made to stay."""
    gc.disable()


def settle() -> None:
    """The start is over: threads change places often, what there is stays, and new garbage is collected."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    gc.enable()


def end() -> None:
    """The end is over: what was kept out of sight may go, or DuckDB's binding calls it leaked on stderr."""
    gc.unfreeze()
