"""Cancels what was submitted and does not come to run: nobody else would before its launcher's first word.

Such a job would be given GPUs, and hold them until its launcher counts as lost.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDERS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that would end Python without a word; Ctrl-C is an exception by itself."""


@contextmanager
def calling_off(cancel: Callable[[BaseException], object]) -> Iterator[None]:
    """Whatever breaks off what is done in it, a signal as well, is told to ``cancel``, and goes on.

    Only in a process's main thread.
    """
    former = {
        each: signal.signal(each, _broken_off) for each in ENDERS if signal.getsignal(each) is signal.SIG_DFL
    }
    try:
        yield
    except BaseException as error:
        cancel(error)
        raise
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def why(error: BaseException) -> str:
    """The reason as the journal has it: one line."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "fallow run was interrupted before it ran"
    message = " ".join(str(error).split())
    shown = "".join(each for each in message if each.isprintable())
    return f"fallow run failed: {type(error).__name__}: {shown}"[:900]


def _broken_off(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
