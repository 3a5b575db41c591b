"""The service's side: the same ports as this process would serve itself, answered by probe and hand.

Where they are is told by the environment that systemd's unit sets: ``FALLOW_PROBE`` and ``FALLOW_HAND``,
paths of their sockets; without them the service looks and acts with its own powers.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from advisor.engines.cuda_checkpoint import TRIED_DRIVERS, Deed, Host, Target
from advisor.engines.cuda_checkpointer import NOT_SAID, Begun, Over, major
from advisor.engines.gpu_room import ProcessMemory
from advisor.engines.memory_transfers import Ongoing
from advisor.engines.mps import MpsSearch
from advisor.engines.notify_owner import Notice, Told
from advisor.jobs.external_jobs import Seen
from advisor.jobs.gpu_sharing import PIPE_DIRECTORY, Mps
from advisor.serialize import Unreadable, from_tree, to_tree
from collector.model import NodeName, Process
from collector.procfs.proc_files import parse_boot_ms, parse_stat, started_ms
from collector.procfs.process_table import PROC, ProcessTable
from service.privileged import wire
from service.privileged.wire import Refused, Unanswered

log = logging.getLogger(__name__)

PROBE_VARIABLE, HAND_VARIABLE = "FALLOW_PROBE", "FALLOW_HAND"
LONGEST_S = 900.0
"""To move a GPU's whole memory over a slow bus takes minutes, and nobody is told that it failed meanwhile."""


def probe_socket() -> Path | None:
    """Where the probe listens; ``None`` where there is none."""
    return _named(PROBE_VARIABLE)


def hand_socket() -> Path | None:
    """Where the hand listens; ``None`` where there is none."""
    return _named(HAND_VARIABLE)


class ProbeTable:
    """``collector.procfs.process_table.ProcessTable`` as the probe sees it; as this process does while it is
    away.
    """

    def __init__(self, node: NodeName, path: Path, trusted: Sequence[int] = (0,)) -> None:
        self._path, self._trusted = path, trusted
        self._own = ProcessTable(node)
        self._known: dict[int, Process] = {}
        self._settled = False
        self._away: str | None = None
        self._faulty: frozenset[int] = frozenset()

    def look(self, pids: Iterable[int], now_ms: int) -> dict[int, Process]:
        """A process for each pid that is not gone; the same object while nothing changed."""
        pids_list = list(pids)
        try:
            answer = wire.ask(self._path, {"verb": "look", "pids": pids_list}, self._trusted)
            trees = answer["processes"]
            if not isinstance(trees, Mapping):
                raise ValueError("it answers without processes")
            processes = self._read(trees)
        except (Unanswered, Refused, Unreadable, KeyError, ValueError) as error:
            why = str(error)
            if self._away != why:
                log.warning(
                    "fallow-probe: %s; other users' processes are told by what everybody may read", why
                )
            self._away = why
            self._settled = False
            return self._own.look(pids_list, now_ms)
        if self._away is not None:
            log.warning("fallow-probe answers again")
            self._away = None
        self._settled = bool(answer.get("settled"))
        if self._faulty:
            processes |= self._own.look(self._faulty, now_ms)
        starts = {pid: self._same(pid, process) for pid, process in processes.items()}
        self._known = starts
        return dict(starts)

    def has_settled(self, pids: Iterable[int]) -> bool:
        """Whether another look can say nothing new."""
        return self._settled

    def close(self) -> None:
        """Let go of what this process itself has open."""
        self._own.close()

    def _read(self, trees: Mapping[str, object]) -> dict[int, Process]:
        """The processes of an answer; one that cannot be read is left to what this process may see itself.

        Raises Unreadable where none can: then probe and service are of two versions.
        """
        processes: dict[int, Process] = {}
        faults: dict[int, Unreadable] = {}
        for pid, tree in trees.items():
            try:
                processes[int(pid)] = from_tree(Process, tree)
            except Unreadable as error:
                faults[int(pid)] = error
        if faults and not processes:
            raise next(iter(faults.values()))
        for amiss in faults.keys() - self._faulty:
            log.error("fallow-probe: what it says of process %d cannot be read: %s", amiss, faults[amiss])
        self._faulty = frozenset(faults)
        return processes

    def _same(self, pid: int, process: Process) -> Process:
        before = self._known.get(pid)
        return before if before == process and before is not None else process


def daemon_finder(trusted: Sequence[int] = (0,)) -> Callable[[], Mps]:
    """Looks for the MPS daemon that jobs may use, each time it is called; see ``find_daemon``."""
    search = MpsSearch()
    return lambda: find_daemon(trusted, search)


def find_daemon(trusted: Sequence[int] = (0,), search: MpsSearch | None = None) -> Mps:
    """The MPS daemon that jobs may use; the probe looks where there is one, for root's powers are needed."""
    path = probe_socket()
    if path is None:
        return (search or MpsSearch()).find()
    request: wire.Request = {"verb": "mps", "directory": os.environ.get(PIPE_DIRECTORY)}
    try:
        mps: Mps = from_tree(Mps, wire.ask(path, request, trusted)["mps"])
    except (Unanswered, Refused, Unreadable, KeyError) as error:
        return Mps(why=f"fallow-probe could not look for an MPS daemon: {error}")
    return mps


class HandCheckpointer:
    """``advisor.engines.cuda_checkpointer.Checkpointer`` through the hand.

    ``drivers``: the major versions under which this site lets jobs be checkpointed.
    """

    def __init__(
        self,
        path: Path,
        driver_version: Callable[[], str | None],
        trusted: Sequence[int] = (0,),
        drivers: tuple[int, ...] = TRIED_DRIVERS,
    ) -> None:
        self._path, self._driver_version, self._trusted = path, driver_version, trusted
        self._drivers = drivers
        self._started_ms: dict[int, int] = {}

    def host(self) -> Host:
        """What is known of the machine; of one whose hand does not answer nothing can be checkpointed."""
        try:
            result: Host = from_tree(Host, self._ask({"verb": "host"})["host"])
        except (Unanswered, Refused, Unreadable, KeyError):
            return Host(architecture="unknown", driver_major=None, uid=os.geteuid(), available_bytes=None)
        return Host(
            architecture=result.architecture,
            driver_major=major(self._driver_version()),
            uid=result.uid,
            available_bytes=result.available_bytes,
            mps_pids=result.mps_pids,
            drivers=self._drivers,
        )

    def targets(self, processes: Sequence[Seen]) -> tuple[Target, ...]:
        """The processes as they are now; those of a hand that does not answer count as gone."""
        self._started_ms.update({each.pid: each.started_ms for each in processes})
        try:
            rows = self._ask({"verb": "targets", "seen": [to_tree(each) for each in processes]})["targets"]
            return tuple(from_tree(Target, row) for row in rows)
        except (Unanswered, Refused, Unreadable, KeyError):
            return tuple(
                Target(
                    pid=each.pid, memory_bytes=each.memory_bytes, uuids=each.uuids, world_size=each.world_size
                )
                for each in processes
            )

    def pause(self, pids: Sequence[int], memory: ProcessMemory, begun_ms: Begun = NOT_SAID) -> Ongoing:
        """Begin to take them off their GPUs."""
        self._started_ms.update(begun_ms)
        return self._begin("pause", pids, memory)

    def resume(
        self,
        pids: Sequence[int],
        memory: ProcessMemory,
        locks: Sequence[int] = (),
        begun_ms: Begun = NOT_SAID,
    ) -> Ongoing:
        """Begin to bring them back."""
        self._started_ms.update(begun_ms)
        return self._begin("resume", pids, memory, locks)

    def look(self, pids: Sequence[int], begun_ms: Begun = NOT_SAID) -> Deed:
        """Only their states; blocks for a moment."""
        try:
            deed: Deed = from_tree(Deed, self._ask({"verb": "look", "pids": list(pids)})["deed"])
        except (Unanswered, Refused, Unreadable, KeyError) as error:
            return Deed(ok=False, found=f"fallow-hand: {error}")
        return deed

    def _begin(
        self, verb: str, pids: Sequence[int], process_memory: ProcessMemory, locks: Sequence[int] = ()
    ) -> Ongoing:
        processes = [[pid, self._started_ms.get(pid) or _started_ms(pid)] for pid in pids]
        ended = [pid for pid, started_ms in processes if started_ms is None]
        if ended:
            return Over(Deed(ok=False, found=f"process {ended[0]} is gone; nothing was done", undone=True))
        try:
            sizes = {str(pid): dict(each) for pid, each in process_memory.items()}
            request: wire.Request = {"verb": verb, "processes": processes, "held": sizes}
            connection = wire.begin(self._path, request, self._trusted, locks)
        except Unanswered as error:
            return Over(Deed(ok=False, found=f"fallow-hand: {error}", undone=True))
        connection.settimeout(LONGEST_S)
        return Asked(connection)

    def _ask(self, request: wire.Request) -> wire.Request:
        return dict(wire.ask(self._path, request, self._trusted))


class Asked:
    """An act of the hand that is under way. It goes on there whatever becomes of this process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def ended(self, at_most_s: float) -> Deed | None:
        """What came of it, waiting so long at most; ``None`` while it goes on."""
        if not wire.is_answered(self._connection, at_most_s):
            return None
        with self._connection:
            try:
                deed: Deed = from_tree(Deed, wire.finish(self._connection)["deed"])
            except Refused as refused:
                return Deed(ok=False, found=f"fallow-hand refuses: {refused}", undone=True)
            except (Unanswered, Unreadable, KeyError) as error:
                return Deed(ok=False, found=f"what fallow-hand did is not known: {error}")
        return deed


class HandNotifier:
    """``advisor.engines.notify_owner.Notifier``: terminals, written on by the hand."""

    def __init__(self, path: Path, trusted: Sequence[int] = (0,)) -> None:
        self._path, self._trusted = path, trusted

    def notify(self, notice: Notice) -> Told:
        """The terminals that took the message."""
        if notice.uid is None:
            return Told(missed=("terminal: the owner's account is not known",))
        request: wire.Request = {"verb": "tell", **to_tree(notice)}
        try:
            outcome: Told = from_tree(Told, wire.ask(self._path, request, self._trusted)["told"])
        except (Unanswered, Refused, Unreadable, KeyError) as error:
            return Told(missed=(f"terminal: {error}",))
        return outcome


def _started_ms(pid: int) -> int | None:
    """When a process started, which everybody may read; ``None`` when it is gone."""
    try:
        stat = parse_stat((PROC / str(pid) / "stat").read_bytes())
        return started_ms(stat, parse_boot_ms((PROC / "stat").read_bytes()), os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError):
        return None


def _named(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path) if path else None
