"""``fallow-hand``: what is done to other people's processes by root's power, and nothing else.

    look, host, targets     reads: states of processes, and what stands against a checkpoint
    pause, resume           CUDA's process checkpoint, for the processes named by pid and start time
    tell                    a message on the owner's terminals that accept some (mesg y)

It does not believe the service: a pid has to be the process that was meant, never one of root's; at most so
many pauses an hour and messages to a person; only what it paused itself is resumed, where there is room for
what it measured at the pause; and while a stop file is there it pauses nobody. Each act is in its own journal
(``journal.jsonl``, synced) before it is begun, and after it ended. No verb sends a signal or ends a process.

The driver is asked by a child that has become the owner of the process (``owners_driver``): CAP_SETUID and
CAP_SETGID are for that alone, and it becomes nobody but the owner of a process that it has just looked at.
"""

import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.engines.cuda_checkpoint import Deed
from advisor.engines.cuda_checkpointer import Checkpointer, LocalCheckpointer, held_memory
from advisor.engines.gpu_room import ProcessMemory
from advisor.engines.memory_transfers import Ongoing
from advisor.engines.notify_owner import Notice, Notifier, TerminalNotifier
from advisor.jobs.external_jobs import Seen
from advisor.serialize import from_tree, to_tree
from collector.model import GpuUuid, JobId
from collector.procfs.checkpoint_blockers import CheckpointBlocker, owner
from collector.procfs.proc_files import is_same_start
from service.privileged.journal import HandJournal, open_journal
from service.privileged.probe import options
from service.privileged.wire import DESCRIPTORS, Refused, Request, serve, server

HOUR_S = 3600.0
_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,95}")
"""It becomes an argument of a command, and no option: 96 characters are what NVML gives one at most."""

PAUSES_AN_HOUR = 20
"""Four times what the service itself allows in a cluster (5 an hour): a service that lies does no more."""

MOST_PROCESSES = 64
"""Of one job on one machine: 16 GPUs with four loader processes each that have them open. A service that lies
could name everybody's processes as one job's."""

PROCESSES_AN_HOUR = 2 * MOST_PROCESSES
"""Processes that are paused within an hour, of all jobs together."""

MESSAGES_AN_HOUR = 12
"""To one person: the ladder tells twice a job."""

NEVER_PAUSED = "unknown (it is on no GPU, and fallow-hand never paused it)"
POLL_S = 1.0


@dataclass(slots=True)
class Rate:
    """At most ``most`` in an hour for each key; by a steady clock."""

    most: int
    _times: dict[object, deque[float]] = field(default_factory=dict)

    def take(self, key: object, now_s: float, count: int = 1) -> bool:
        """Whether so many more are allowed; they count then."""
        times = self._times.setdefault(key, deque())
        while times and now_s - times[0] > HOUR_S:
            times.popleft()
        if len(times) + count > self.most:
            return False
        times.extend([now_s] * count)
        return True


class Hand:
    """The closed list of verbs. Safe from any thread: one act at a time."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        notifier: Notifier,
        journal: HandJournal,
        stop_files: Sequence[Path],
        *,
        look: Callable[[int], CheckpointBlocker | None] = owner,
        measure: Callable[[Sequence[int]], ProcessMemory] = held_memory,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpointer, self._notifier, self._journal = checkpointer, notifier, journal
        self._stop_files, self._look, self._now_s = tuple(stop_files), look, now_s
        self._measure = measure
        self._pauses, self._messages = Rate(PAUSES_AN_HOUR), Rate(MESSAGES_AN_HOUR)
        self._processes = Rate(PROCESSES_AN_HOUR)
        self._acting = threading.Lock()

    def handle(self, request: Request, uid: int) -> Mapping[str, object]:
        """One request. Raises ``Refused``."""
        match request["verb"]:
            case "host":
                return {"host": to_tree(self._checkpointer.host())}
            case "targets":
                processes = tuple(from_tree(Seen, each) for each in request["seen"])
                return {"targets": [to_tree(each) for each in self._checkpointer.targets(processes)]}
            case "look":
                return {"deed": to_tree(self._states(_pids(request)))}
            case "pause":
                return {"deed": to_tree(self._pause(request, uid))}
            case "resume":
                return {"deed": to_tree(self._resume(request, uid))}
            case "tell":
                return self._tell(request, uid)
            case verb:
                raise Refused(f"{verb!r} is not a verb of fallow-hand")

    def _pause(self, request: Request, uid: int) -> Deed:
        processes = _processes(request)
        _memory(request)  # nonsense is refused; what is believed is measured below
        stopped = next((path for path in self._stop_files if path.exists()), None)
        if stopped is not None:
            raise Refused(f"acting is stopped: {stopped} is there")
        for pid, started_ms in processes:
            self._must_be_meant(pid, started_ms)
        memory = self._measure([pid for pid, _ in processes])
        unknown = next((pid for pid, _ in processes if not memory.get(pid)), None)
        if unknown is not None:
            raise Refused(f"the driver does not say what process {unknown} holds, so it might not fit back")
        with self._acting:
            now_s = self._now_s()
            if not self._processes.take("all", now_s, len(processes)):
                raise Refused(f"fallow-hand pauses {PROCESSES_AN_HOUR} processes within the hour at most")
            if not self._pauses.take("all", now_s):
                raise Refused(f"{PAUSES_AN_HOUR} pauses were made within the hour; fallow-hand makes no more")
            number = self._journal.begun("pause", processes, uid, memory)
            return self._done(
                number, self._checkpointer.pause(list(dict(processes)), memory, dict(processes))
            )

    def _resume(self, request: Request, uid: int) -> Deed:
        """A stop file does not hold this up: it is the way back.

        The locks of GPUs that came along are kept open by whoever restores, until it is done.
        """
        processes, requested, locks = _processes(request), _memory(request), request.get(DESCRIPTORS, ())
        paused = self._journal.paused()
        for pid, started_ms in processes:
            if not any(pid == each and is_same_start(at_ms, started_ms) for each, at_ms in paused):
                raise Refused(f"process {pid} was not paused by fallow-hand")
            self._must_be_meant(pid, started_ms)
        # Only of a pause that an older version made is the service's word all there is.
        memory = {pid: self._journal.held(pid) or requested.get(pid, {}) for pid, _ in processes}
        with self._acting:
            number = self._journal.begun("resume", processes, uid)
            pids, begun_ms = list(dict(processes)), dict(processes)
            return self._done(number, self._checkpointer.resume(pids, memory, locks, begun_ms))

    def _states(self, pids: Sequence[int]) -> Deed:
        """Where they stand. It becomes an account only for those that it has paused at some time; another one
        runs where NVML says what it holds on a GPU.
        """
        begun_ms = {pid: at_ms for pid in pids if (at_ms := self._journal.last_paused(pid)) is not None}
        deed = Deed(ok=True, found="looked")
        if begun_ms:
            deed = self._checkpointer.look(list(begun_ms), begun_ms)
        others = [pid for pid in pids if pid not in begun_ms]
        memory = self._measure(others) if others else {}
        states = {str(pid): "running" if memory.get(pid) else NEVER_PAUSED for pid in others}
        return replace(deed, states={**states, **deed.states})

    def _done(self, number: int, ongoing: Ongoing) -> Deed:
        while (deed := ongoing.ended(POLL_S)) is None:
            pass
        self._journal.ended(number, ok=deed.ok, undone=deed.undone, found=deed.found)
        return deed

    def _must_be_meant(self, pid: int, started_ms: int) -> None:
        result = self._look(pid)
        if result is None or not is_same_start(result.started_ms, started_ms):
            raise Refused(f"process {pid} is gone, or another one by now")
        if not result.uid:
            raise Refused(f"process {pid} is root's or nobody knows whose; fallow-hand leaves it alone")

    def _tell(self, request: Request, uid: int) -> Mapping[str, object]:
        notice = Notice(
            job=JobId(str(request["job"])),
            user=None if request["user"] is None else str(request["user"]),
            uid=int(request["uid"]),
            message=str(request["message"]),
            hint=str(request["hint"]),
        )
        if not self._messages.take(notice.uid, self._now_s()):
            raise Refused(f"{MESSAGES_AN_HOUR} messages went to uid {notice.uid} within the hour")
        number = self._journal.begun("tell", ((notice.uid or 0, 0),), uid)
        outcome = self._notifier.notify(notice)
        summary = "; ".join((*outcome.reached, *outcome.missed))
        self._journal.ended(number, ok=bool(outcome.reached), undone=False, found=summary)
        return {"told": to_tree(outcome)}


def main(argv: list[str] | None = None) -> int:
    """Serve until ended."""
    from service.server.systemd_notify import notify

    parser = options("fallow-hand", __doc__ or "")
    parser.add_argument("--journal", type=Path, required=True, help="the folder of its own journal")
    parser.add_argument(
        "--stop-file", type=Path, action="append", default=[], help="while it exists, no pause"
    )
    parser.add_argument("--lock-timeout", type=float, default=10.0, metavar="SECONDS")
    flags = parser.parse_args(argv)
    flags.journal.mkdir(mode=0o700, parents=True, exist_ok=True)
    journal = open_journal(flags.journal / "journal.jsonl")
    hand = Hand(
        LocalCheckpointer(lambda: None, flags.lock_timeout, as_owner=True),
        TerminalNotifier(),
        journal,
        (flags.journal / "stop-acting", *flags.stop_file),
    )
    listener = server(flags.socket)
    notify("READY=1")
    serve(listener, {0, flags.user}, hand.handle)
    return 0


def _pids(request: Request) -> list[int]:
    return [int(pid) for pid in request["pids"]]


def _processes(request: Request) -> list[tuple[int, int]]:
    processes = [(int(pid), int(started_ms)) for pid, started_ms in request["processes"]]
    if not 0 < len(processes) <= MOST_PROCESSES:
        raise Refused(f"{len(processes)} processes are named: one job has 1 to {MOST_PROCESSES}")
    return processes


def _memory(request: Request) -> ProcessMemory:
    """What each process held on each GPU. Missing, nothing is known, and nothing is restored."""
    memory: dict[int, dict[GpuUuid, int]] = {}
    for pid, sizes in dict(request.get("held", {})).items():
        memory[int(pid)] = {GpuUuid(uuid): int(size) for uuid, size in dict(sizes).items()}
        if any(not _UUID.fullmatch(uuid) or size < 0 for uuid, size in memory[int(pid)].items()):
            raise Refused(f"what process {pid} held is not bytes by the UUID of a GPU")
    return memory


if __name__ == "__main__":
    sys.exit(main())
