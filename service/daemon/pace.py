"""How the one process shares its processor among those who answer, those who act and those who measure.

All of them are threads of one interpreter, and only one runs at a time. A request passes from thread to
thread five to eight times, and each time waits until whoever computes gives way: at Python's own 5 ms, a
decision about 10,000 waiting jobs makes everybody wait for 25 to 40 ms; at a twentieth of it, for two.
Handing over more often costs a computing thread about one part in a hundred.

What was made at the start lives as long as the process. Taken out of the garbage collector's sight, it is
not looked through again: a full collection over modules and a long queue stops all threads for 0.1 s.

These are settings of the whole process, so whoever owns the process makes them: ``fallow serve``.
"""

import gc
import sys

SWITCH_S = 0.000_25
YOUNG_OBJECTS = 20_000
"""So many new objects until the young ones are looked through; a cycle makes some tens of thousands."""


def share_often() -> None:
    """Let threads change places often, and collect no garbage until ``settle``."""
    sys.setswitchinterval(SWITCH_S)
    gc.disable()


def settle() -> None:
    """The start is over: what there is stays for good, and garbage is collected from now on."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    gc.enable()
