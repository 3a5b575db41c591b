"""One lock a GPU: two services with different folders never lease the same one.

Measuring needs no lock, leasing does. A lock is a file named by the GPU's UUID, held by ``flock`` from the
first lease of that GPU to its last; the kernel drops it with the process, however that ends. Services whose
account may write to the machine's folder (the installed one's, and root's) share it. Any other account's has
a folder of its own: there the promise holds among that account's services alone, and the start says so.
"""

import fcntl
import logging
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.jobs.lifecycle import leased
from advisor.jobs.model import JobRecord
from collector.model import GpuUuid, JobId
from service.errors import FallowError

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from advisor.state.model import ClusterState

log = logging.getLogger(__name__)

MACHINE_FOLDER = Path("/run/fallow-gpus")
"""Made by systemd for the installed service, and kept when that stops; root makes it where it is missing."""
UNSHARED = (
    "GPUs that are leased here are locked in {folder}, for services of this account alone: a service of "
    "another account on this machine may lease the same. The service that `fallow service install` sets up "
    "has a lock that holds for the machine."
)
JUST_TAKEN_S = 60.0
"""A lock is taken before its lease is written down, which waits for the disk; it is kept meanwhile."""
AGAIN_S = 30.0
"""How long a GPU that another service holds is not planned with."""
HOLDER_BYTES = 200
"""Of the holder's name, which stands in a line of a message to people."""


class NoLockFolder(FallowError):
    """There is no folder for the locks of GPUs that this account could trust."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFolder:
    """Where the locks lie; ``remark``: what is then not promised."""

    path: Path
    remark: str | None = None


def lock_folder(environment: Mapping[str, str], shared: Path = MACHINE_FOLDER) -> LockFolder:
    """The machine's folder, made where this account may; else the account's own. Raises ``NoLockFolder``."""
    if os.geteuid() == 0 or os.access(shared, os.W_OK):
        try:
            _make(shared)
            return LockFolder(path=shared)
        except OSError as error:
            log.warning("%s cannot be used for the locks of GPUs: %s", shared, error.strerror or error)
    session = environment.get("XDG_RUNTIME_DIR")
    own = Path(session) if session else Path(tempfile.gettempdir()) / f"fallow-{os.geteuid()}"
    try:
        _make(own)
        _make(own / shared.name)
    except OSError as error:
        raise NoLockFolder(
            f"the locks of GPUs cannot lie in {own}: {error.strerror or error}; name a folder of your own in "
            "$XDG_RUNTIME_DIR"
        ) from error
    return LockFolder(path=own / shared.name, remark=UNSHARED.format(folder=own / shared.name))


class GpuLocks:
    """The locks that one service holds; ``folder`` is where, ``None`` holds none. Safe from any thread."""

    def __init__(
        self, folder: Path | None = None, owner: str = "", monotonic_ms: Callable[[], int] = int
    ) -> None:
        self._folder, self._owner, self._monotonic_ms = folder, owner, monotonic_ms
        self._held: dict[GpuUuid, tuple[int, int]] = {}
        self._refused_ms: dict[GpuUuid, int] = {}
        self._reserved: dict[GpuUuid, JobId] = {}
        self._guard = threading.Lock()

    def take(self, uuids: Iterable[GpuUuid]) -> str | None:
        """Hold the locks of all these; why one cannot be held, and then none is that was not before."""
        with self._guard:
            return self._take(tuple(uuids))

    def reserve(self, job: JobId, uuids: Collection[GpuUuid], leased: Collection[GpuUuid]) -> str | None:
        """Keep these from every other lease, for a job whose memory comes back onto them; why not.

        ``leased`` is what this service has given out.
        """
        with self._guard:
            unlocked = [uuid for uuid in uuids if self._reserved.get(uuid) == job and uuid not in self._held]
            for uuid in unlocked:  # `under_way` kept them without a lock: another process held those
                del self._reserved[uuid]
            free = tuple(uuid for uuid in uuids if self._reserved.get(uuid) != job)
            for uuid in free:
                if uuid in leased:
                    return f"{uuid} is leased to somebody else"
                if uuid in self._held and uuid not in self._reserved and self._is_fresh(uuid):
                    return f"{uuid} is being leased to somebody else"
            refused = self._take(free)
            if refused is not None:
                self._reserved |= dict.fromkeys(unlocked, job)
            else:
                self._reserved |= dict.fromkeys(free, job)
                for uuid in free:
                    if uuid in self._held:
                        _name(self._held[uuid][0], f"{_return_of(job)}{self._owner}")
            return refused

    def descriptors(self, job: JobId) -> tuple[int, ...]:
        """The locks of what is reserved for it. A lock is held as long as any process has it open."""
        with self._guard:
            mine = [uuid for uuid, each in self._reserved.items() if each == job]
            return tuple(self._held[uuid][0] for uuid in mine if uuid in self._held)

    def under_way(self, job: JobId, uuids: Collection[GpuUuid]) -> bool:
        """Whether a process that is not this one holds some of these for the job's return.

        All of them are reserved for it here then, so that none is given out between its end and ``release``.
        """
        with self._guard:
            if not any(self._comes_back(uuid, job) for uuid in uuids if uuid not in self._held):
                return False
            for uuid in uuids:
                self._reserved.setdefault(uuid, job)
            return True

    def release(self, job: JobId) -> None:
        """What was reserved for it may be leased again."""
        with self._guard:
            mine = [uuid for uuid, each in self._reserved.items() if each == job]
            for uuid in mine:
                del self._reserved[uuid]
                if uuid in self._held:
                    os.close(self._held.pop(uuid)[0])

    def keep(self, uuids: Collection[GpuUuid]) -> None:
        """Let go of the locks of all others, but those that were only just taken."""
        with self._guard:
            ended = [
                each
                for each in self._held
                if each not in uuids and each not in self._reserved and not self._is_fresh(each)
            ]
            for uuid in ended:
                os.close(self._held.pop(uuid)[0])

    def mark(self, state: "ClusterState") -> "ClusterState":
        """The state, in which GPUs that another service holds have somebody on them."""
        since_ms = self._monotonic_ms() - AGAIN_S * 1000
        with self._guard:
            self._refused_ms = {uuid: at for uuid, at in self._refused_ms.items() if at >= since_ms}
            refused = self._refused_ms.keys() & state.gpus.keys()
        placed = {uuid for placement in state.placements.values() for uuid in placement.gpus}
        others = refused - placed
        if not others:
            return state
        marked = {uuid: replace(state.gpus[uuid], occupied=True) for uuid in others}
        return replace(state, gpus={**state.gpus, **marked})

    def close(self) -> None:
        """Let go of all; safe to call twice."""
        with self._guard:
            for descriptor, _ in self._held.values():
                os.close(descriptor)
            self._held.clear()

    def _take(self, uuids: Sequence[GpuUuid]) -> str | None:
        conflict = next((uuid for uuid in uuids if uuid in self._reserved), None)
        if conflict is not None:
            return f"{conflict} is kept for {self._reserved[conflict]}, whose memory comes back onto it"
        if self._folder is None:
            return None
        fresh: list[GpuUuid] = []
        for uuid in uuids:
            if uuid in self._held:
                continue
            refused = self._lock(self._folder, uuid)
            if refused is not None:
                self._refused_ms[uuid] = self._monotonic_ms()
                for each in fresh:
                    os.close(self._held.pop(each)[0])
                return refused
            fresh.append(uuid)
        return None

    def _comes_back(self, uuid: GpuUuid, job: JobId) -> bool:
        if self._folder is None:
            return False
        try:
            descriptor = os.open(_lock_path(self._folder, uuid), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _holder(descriptor).startswith(_return_of(job))
        finally:
            os.close(descriptor)
        return False

    def _is_fresh(self, uuid: GpuUuid) -> bool:
        """Whether its lock was only just taken: its lease may not be written down yet."""
        return self._held[uuid][1] >= self._monotonic_ms() - JUST_TAKEN_S * 1000

    def _lock(self, folder: Path, uuid: GpuUuid) -> str | None:
        # The file stays when its lock ends: two services could else hold locks on two files of one name.
        path = _lock_path(folder, uuid)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            return f"{uuid} cannot be locked for a lease: {path}: {error.strerror}"
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(descriptor)
            os.close(descriptor)
            return f"{uuid} is leased by another Fallow service on this machine ({holder or 'unknown'})"
        # What root makes in another account's folder is that account's: its service needs it as well.
        if os.geteuid() == 0 and folder.stat().st_uid != 0:
            os.chown(path, folder.stat().st_uid, folder.stat().st_gid, follow_symlinks=False)
        _name(descriptor, self._owner)
        self._held[uuid] = descriptor, self._monotonic_ms()
        return None


@dataclass(frozen=True, slots=True)
class RestoreLease:
    """``advisor.engines.external.Lease`` by these locks; ``leased`` are the GPUs given out by this
    service.
    """

    locks: GpuLocks
    leased: Callable[[], Collection[GpuUuid]]

    def reserve(self, job: JobId, uuids: Sequence[GpuUuid]) -> str | None:
        """Keep them from everybody else; why not."""
        return self.locks.reserve(job, uuids, self.leased())

    def release(self, job: JobId) -> None:
        """Nothing of it comes back any more."""
        self.locks.release(job)

    def descriptors(self, job: JobId) -> tuple[int, ...]:
        """The locks, for the process that restores: they outlive this one."""
        return self.locks.descriptors(job)

    def under_way(self, job: JobId, uuids: Sequence[GpuUuid]) -> bool:
        """Whether a process that another service began brings the job back."""
        return self.locks.under_way(job, uuids)


def hold_leased(locks: GpuLocks, register: "Register") -> None:
    """Lock what is leased already, as after a restart, and let go of each GPU with its last lease."""

    def lock(uuids: Iterable[GpuUuid]) -> None:
        for uuid in uuids:
            # One by one: a GPU that is leased elsewhere too must not keep the locks of the others from being
            # held.
            refused = locks.take((uuid,))
            if refused is not None:
                log.error("a GPU that is leased here is leased elsewhere too: %s", refused)

    def changed(before: JobRecord | None, after: JobRecord) -> None:
        had = () if before is None else leased(before)
        lock(
            uuid for uuid in leased(after) if uuid not in had
        )  # one that a launcher proved was not asked for
        locks.keep(register.holders())

    lock(register.holders())
    register.listen(changed)


def _lock_path(folder: Path, uuid: GpuUuid) -> Path:
    return folder / f"{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock"


def _return_of(job: JobId) -> str:
    """How the name begins of a lock that is held until a job's memory is back."""
    return f"the return of {job}; "


def _name(descriptor: int, holder: str) -> None:
    """Write who holds a lock into its file, for whoever is refused."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{holder}\n".encode()[:HOLDER_BYTES], 0)


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, HOLDER_BYTES, 0).decode(errors="replace").strip()


def _make(folder: Path) -> None:
    """The folder, closed to others. Raises OSError where somebody else's stands in its place."""
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    mine = os.geteuid() == 0 or status.st_uid in (0, os.geteuid())
    if not stat.S_ISDIR(status.st_mode) or not mine or status.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a folder of this account that others cannot write to")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder} may not be written")
