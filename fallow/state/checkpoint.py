"""Saves a training's state so that a crash at any moment leaves the last good file, and loads it again.

Nothing in a checkpoint depends on the world size: the step number says which samples come next. Where and
when to save, the trainer decides. A file is what ``torch.save`` writes, readable by ``torch.load``, and one
line more with a checksum, because a flipped bit in a tensor is otherwise read as a number (296 of 300 flips
went unseen by torch 2.13, November 2026).

Where a training is kept: saved when the script or a signal asks, taken up again when it starts.

SIGUSR1 asks a training to save itself at its next step boundary; here it is only remembered.
"""

import io
import logging
import os
import re
import signal
import stat
import tempfile
import threading
import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

import torch

from fallow import accounts
from fallow.errors import StateError
from fallow.state.replica import Replica

PART = ".part"
TRAILER = b"\nfallow crc32 "
TRAILER_BYTES = len(TRAILER) + 9
# The sum is formed as the file is read, so a checkpoint larger than memory can be checked.
CHUNK_BYTES = 8 * 1024 * 1024
VALUES = {int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size}
MAPPINGS = {dict, OrderedDict, Counter, defaultdict}
SEQUENCES = {list, tuple, set}
COPIED = frozenset({"model", "buffers", "optimizer"})
"""Parts of a training's state. ``Optimizer.load_state_dict`` leaves Adam's ``step`` where it is given: on a
GPU, the host would wait for it twice a parameter in every step."""


class CheckpointDamaged(Exception):
    """The file is there but is no whole checkpoint."""


def check_holdable(node: Any, where: str) -> None:
    """Refuse now what ``torch.load(weights_only=True)`` would refuse when the training is to go on.

    Raises StateError, which names the part; ``where`` is what ``node`` is called.
    """
    kind = type(node)
    if kind in MAPPINGS:
        for key, value in node.items():
            check_holdable(key, f"a key of {where}")
            check_holdable(value, f"{where}[{key!r}]")
    elif kind in SEQUENCES:
        for place, value in enumerate(node):
            check_holdable(value, f"{where}[{place}]")
    elif kind not in VALUES and not isinstance(node, torch.Tensor):
        raise StateError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which only its own code could read back "
            "from a checkpoint: let state_dict() give tensors, numbers, strings, lists and dicts"
        )


def save(path: Path, state: Any) -> int:
    """Write ``state`` to ``path`` atomically; returns its size in bytes. Blocks until it is on disk.

    The new file is complete and on disk before it takes the old one's name. Raises OSError, or StateError
    for what could not be read back; the old file is intact then.
    """
    check_holdable(state, "state")
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            summed = _Summed(file)
            summed.take(state)
            file.write(TRAILER + b"%08x\n" % summed.crc32)
            file.flush()
            os.fsync(file.fileno())
        size = Path(name).stat().st_size
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    # The new name is on disk only with the folder: a power cut would bring the old file back.
    _sync_folder(path.parent)
    return size


def load(path: Path, device: torch.device) -> Any | None:
    """The state saved at ``path``, or ``None`` when there is none.

    What is copied to its place when it is loaded (COPIED) stays on the CPU, so that it doesn't lie on a GPU
    twice; of the rest, what did not lie on the CPU when it was saved lies on ``device``.

    Raises CheckpointDamaged, OSError, or StateError for a file that any account could have put there.
    """
    try:
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            _check_sum(path, file)
            file.seek(0)
            return _read(file, device)
    except FileNotFoundError:
        return None
    except (OSError, CheckpointDamaged, StateError):
        raise
    except Exception as error:
        raise _damaged(path, str(error)) from error


def _read(file: IO[bytes], device: torch.device) -> Any:
    away: set[int] = set()

    def stay(storage: Any, location: str) -> Any:
        if location != "cpu":
            away.add(storage._cdata)
        return storage

    state = torch.load(file, map_location=stay, weights_only=True)
    if device.type == "cpu" or not isinstance(state, dict):
        return state
    return {name: part if name in COPIED else _moved(part, away, device) for name, part in state.items()}


def _moved(node: Any, away: Collection[int], device: torch.device) -> Any:
    """``node`` with those of its tensors on ``device`` whose storage is one of those ``away``."""
    if isinstance(node, torch.Tensor):
        return node.to(device) if _elements(node).untyped_storage()._cdata in away else node
    if isinstance(node, dict):
        for key, value in node.items():
            node[key] = _moved(value, away, device)
        return node
    if type(node) in SEQUENCES:
        return type(node)([_moved(value, away, device) for value in node])
    return node


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """The dense tensor that holds what isn't zero."""
    if tensor.layout is torch.strided:
        return tensor
    return tensor._values() if tensor.layout is torch.sparse_coo else tensor.values()


class _Summed(io.RawIOBase):
    """Passes on what is written, and sums it."""

    def __init__(self, file: IO[bytes]):
        self._file = file
        self._failure: OSError | None = None
        self.crc32 = 0

    def take(self, state: Any) -> None:
        """Write ``state``. Raises OSError, which torch 2.13 would hide behind an error of its own."""
        try:
            torch.save(state, self)
        except RuntimeError:
            if self._failure is not None:
                raise self._failure from None
            raise

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        try:
            return self._file.write(data)
        except OSError as failure:
            self._failure = failure
            raise


def _check_sum(path: Path, file: IO[bytes]) -> None:
    rest = path.stat().st_size - TRAILER_BYTES
    crc32 = 0
    while rest > 0:
        chunk = file.read(min(CHUNK_BYTES, rest))
        if not chunk:
            break
        crc32 = zlib.crc32(chunk, crc32)
        rest -= len(chunk)
    if rest < 0 or file.read() != TRAILER + b"%08x\n" % crc32:
        raise _damaged(path, "its checksum does not fit, or it was cut short")


def _check_owner(path: Path, status: os.stat_result) -> None:
    """Raises StateError for a file that somebody may have planted: loading runs no code, but trains on it.

    A colleague's file in a folder that not everybody can write to is the site's own business.
    """
    folder = path.parent.stat()
    trusted = {os.geteuid(), accounts.ROOT, folder.st_uid}
    planted = bool(folder.st_mode & stat.S_IWOTH) and not {status.st_uid, path.lstat().st_uid} <= trusted
    if planted or (status.st_mode & stat.S_IWOTH):
        why = f"belongs to account {status.st_uid}, in a folder" if planted else "is a file"
        raise StateError(
            f"the checkpoint {path} {why} that every account of this machine can write to, so it may not be "
            "this training's. If it is, take it over (chown, chmod o-w); else choose a folder of your own"
        )


def _damaged(path: Path, problem: str) -> CheckpointDamaged:
    return CheckpointDamaged(
        f"{path} cannot be read as a checkpoint: {problem}. Put a copy there, or move it away to start anew"
    )


def _sweep(path: Path) -> None:
    """Remove what was half written when a worker was killed while it saved."""
    leftovers = re.compile(rf"\.{re.escape(path.name)}\.[a-z0-9_]{{8}}{re.escape(PART)}")
    for entry in path.parent.iterdir():
        if leftovers.fullmatch(entry.name):
            entry.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class SaveSignal:
    """``asked`` is true from the signal's arrival until ``done``."""

    def __init__(self) -> None:
        self.asked = False

    def done(self) -> None:
        """Saved, by whichever worker saves."""
        self.asked = False

    @contextmanager
    def heard(self, on: bool) -> Iterator[None]:
        """Listen meanwhile, if ``on``; only a process's main thread can. The old handler comes back."""
        if not on or threading.current_thread() is not threading.main_thread():
            yield
            return
        old = signal.signal(signal.SIGUSR1, self._arrived)
        try:
            yield
        finally:
            signal.signal(signal.SIGUSR1, old)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


LOG = logging.getLogger("fallow")
ENV_SAVED = "FALLOW_SAVED"
"""The file to touch when what a signal asked for is saved: ``fallow run`` waits for it."""


class PeriodicCheckpoint:
    """Keeps ``replica`` at ``path``, if there is one; with ``generators`` also where random numbers stood.

    ``look(wait=True)`` raises for a state that must not be saved, whose loss isn't finite.
    ``saved_ms`` is when this worker saved or resumed it last, by its file's time.
    """

    def __init__(self, replica: Replica, path: Path | None, look: Callable[..., None], *, generators: bool):
        self._look = look
        self._replica = replica
        self._path = path
        self._generators = generators
        self._signal = SaveSignal()
        self.saved_ms: int | None = None

    @property
    def asked(self) -> bool:
        """Whether this worker was asked by a signal, since the last save that was."""
        return self._signal.asked

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear the signal meanwhile, if there is a path to save to."""
        with self._signal.heard(self._path is not None):
            yield

    def resume(self) -> None:
        """Take up what was saved, if anything was. Raises CheckpointDamaged, StateError or OSError."""
        if self._path is not None:
            state = load(self._path, self._replica.device)
            if state is not None:
                self._replica.load(state)
                self.saved_ms = self._path.stat().st_mtime_ns // 1_000_000

    def save(self) -> int:
        """Save; returns the bytes written. Blocks until they are on disk. Raises StateError, LossError or
        OSError.
        """
        if self._path is None:
            raise StateError("this training has no checkpoint path: pass checkpoint=PATH to job.elastic()")
        self._look(wait=True)
        size = save(self._path, self._replica.state(generators=self._generators))
        self.saved_ms = self._path.stat().st_mtime_ns // 1_000_000
        return size

    def keep(self) -> Path | None:
        """Save where there is a path, before the training is left unfinished; returns it."""
        if self._path is not None:
            self.save()
        return self._path

    def follow_signal(self, rank: int) -> None:
        """Some worker was asked to save, so rank 0 does. If it cannot, the training still goes on."""
        self._signal.done()
        if rank != 0:
            return
        try:
            self.save()
            if folder := os.environ.get(ENV_SAVED):
                Path(folder).touch()
        except (OSError, StateError) as failure:
            step = self._replica.next_step
            LOG.error("step %d: asked to save the training, but could not: %s", step, failure)
