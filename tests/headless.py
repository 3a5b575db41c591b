"""A process whose first thread has ended while another works on: the kernel shows it as a zombie."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import ctypes, os, sys, threading, time
kept = open(sys.argv[1]) if len(sys.argv) > 1 else None
leader = f"/proc/{os.getpid()}/stat"

def work():
    while open(leader).read().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.001)
    os.write(1, b"headless\\n")
    time.sleep(600)

threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(__EXIT__, 0)  # of this thread alone, as pthread_exit(3) ends it
"""
EXIT = {"x86_64": 60, "aarch64": 93}
"""The number of exit(2), which ends one thread; what the C library calls so ends all of them."""


def program() -> str:
    """The program's text; its first argument is a file that it holds open."""
    import platform

    return PROGRAM.replace("__EXIT__", str(EXIT[platform.machine()]))


@contextmanager
def headless(opens: Path = Path("/dev/null")) -> Iterator["subprocess.Popen[bytes]"]:
    """Such a process, until the end of the block."""
    words = [sys.executable, "-c", program(), str(opens)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"headless\n"
            yield process
        finally:
            process.kill()
