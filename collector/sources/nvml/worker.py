"""The child process seen from the parent: started, asked with a time limit, and ended without fuss.

Nothing here judges what the child says. A child that crashes or hangs costs one exception that says how it
ended and which GPU it was touching.
"""

import contextlib
import mmap
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from collector.sources.nvml import wire

ROOT = Path(__file__).parents[3]
MODULE = "collector.sources.nvml.child"
_INDEX = struct.Struct("i")
_NOTE_BYTES = 4096
_TAIL_BYTES = 2000
"""Of what a child wrote to its end: the last line says why, and more would only be searched."""
_END_S = 1.0
"""For a child that was killed; one that hangs in the driver takes longer, and nobody waits for it."""


class ChildLost(Exception):
    """The child ended or hangs (``silent``); ``touching`` is the index of the GPU it was asking, if any."""

    def __init__(self, how: str, touching: int | None, *, silent: bool = False) -> None:
        super().__init__(how)
        self.touching = touching
        self.silent = silent


class Worker:
    """One child, from its start to its end; not to be used after an exception or in a forked copy.

    Making one starts the process. ``node`` names GPUs of which the driver tells no UUID. Raises ChildLost.
    """

    def __init__(self, avoid: Collection[int] = (), *, node: str = "") -> None:
        self.owner = os.getpid()
        self._note_fd = os.memfd_create("fallow-nvml") if hasattr(os, "memfd_create") else _unlinked()
        os.ftruncate(self._note_fd, _NOTE_BYTES)
        self._note = mmap.mmap(self._note_fd, _NOTE_BYTES)
        _INDEX.pack_into(self._note, 0, -1)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = self._spawn()
        except OSError as error:
            self._release()
            raise ChildLost(f"could not be started: {error}", None, silent=True) from error
        try:
            start = {"op": "start", "avoid": sorted(avoid), "row": list(wire.MEASURES), "node": node}
            self._send(start)
        except ChildLost:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    def is_ready(self, timeout_s: float) -> bool:
        """Whether an answer lies waiting, or comes in this time; also true when the child has ended."""
        return wire.has_something(self._out, timeout_s)

    def receive(self, timeout_s: float) -> Any:
        """The child's next answer. Raises ChildLost when it ends or stays silent."""
        try:
            return wire.receive(self._out, timeout_s)
        except wire.PipeSilent as error:
            raise ChildLost(f"gave no answer in {timeout_s:g} s", self.touching(), silent=True) from error
        except wire.PipeClosed as error:
            raise ChildLost(self._how_it_ended(), self.touching()) from error

    def ask(self, request: dict[str, Any], timeout_s: float) -> Any:
        """Send a request and wait for its answer. Raises ChildLost."""
        self._send(request)
        return self.receive(timeout_s)

    def touching(self) -> int | None:
        """The index of the GPU that the child is asking, if it is asking one."""
        (index,) = _INDEX.unpack_from(self._note, 0)
        return index if index >= 0 else None

    def resident_mib(self) -> float | None:
        """The child's resident memory; None when /proc does not say."""
        with contextlib.suppress(OSError, ValueError):
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
        return None

    def end(self) -> None:
        """Kill the child and release everything; never waits for a child that the kernel holds on to."""
        if self.owner == os.getpid():
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._release()

    def _release(self) -> None:
        self._note.close()
        self._stderr.close()
        os.close(self._note_fd)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(self._note_fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            bufsize=0,
            pass_fds=(self._note_fd,),
            env={**os.environ, "PYTHONPATH": path},
        )

    @property
    def _out(self) -> int:
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            wire.send(self._process.stdin.fileno(), request)
        except wire.PipeClosed as error:
            raise ChildLost(self._how_it_ended(), self.touching()) from error

    def _how_it_ended(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        code = self._process.returncode
        if code is None:
            return "closed its pipe"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(self._stderr.tell() - _TAIL_BYTES, 0))
        lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        return f"ended with status {code}" + (f": {lines[-1]}" if lines else "")


def _unlinked() -> int:
    fd, path = tempfile.mkstemp()
    Path(path).unlink()
    return fd
