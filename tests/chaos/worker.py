"""A job of the chaos run: holds its GPUs by locks for so long, and writes down when it began and ended.

Run as the job's user: ``worker.py LEDGER KEY SECONDS``. It trusts nobody: that a GPU has two holders shows in
a lock that cannot be had, whatever the service says.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

BUSY = 3
"""The exit code when another job holds one of the GPUs."""


def main(ledger: Path, key: str, seconds: float) -> int:
    """Hold, wait, end."""
    log = os.open(ledger / f"{key}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(word: str) -> None:
        os.write(log, f"{word} {os.getpid()} {time.monotonic():.3f} {','.join(gpus)}\n".encode())

    def stop(*_: object) -> None:
        write("stopped")
        os._exit(143)

    gpus = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
    locks = []
    for gpu in gpus:
        path = ledger / f"{gpu}.lock"
        lock = os.open(path, os.O_RDWR)  # made by root beforehand, for everybody
        locks.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            write("doubled")
            return BUSY
    signal.signal(signal.SIGTERM, stop)
    write("begun" if gpus else "without")
    time.sleep(seconds)
    write("ended")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
