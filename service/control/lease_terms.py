"""How a lease would be held, for the engine: the devices as they were seen, and who is on them already."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.jobs.gpu_sharing import Device, Mps, Sharer, Terms, terms
from advisor.jobs.lifecycle import leased
from advisor.jobs.model import JobRecord, Sharing
from collector.model import GpuUuid, JobId
from collector.procfs.accounts import name_of
from collector.procfs.owners import is_lent

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register
    from advisor.jobs.model import Submission
    from advisor.state.model import ClusterState

INSTANCE = "MIG-"
"""What the UUIDs of MIG instances begin with (NVIDIA MIG User Guide, Device Enumeration)."""


class LeaseTerms:
    """``advisor.engines.launched.Agree`` of a running service; ``seen`` remembers the state that it rests
    on.
    """

    def __init__(self, register: "Register", mps: Callable[[], Mps]) -> None:
        self._register, self._mps = register, mps
        self._memory: Mapping[GpuUuid, int | None] = {}
        self._parts: Mapping[GpuUuid, float | None] = {}
        self._strangers: Mapping[GpuUuid, frozenset[str]] = {}

    def seen(self, state: "ClusterState") -> "ClusterState":
        """The state itself; its devices are what the next leases are reckoned with."""
        self._memory = {uuid: gpu.memory_bytes for uuid, gpu in state.gpus.items()}
        self._parts = {uuid: gpu.part_of_device for uuid, gpu in state.gpus.items()}
        self._strangers = _strangers(state, self._register.entries())
        return state

    def agree(self, entry: JobRecord, gpus: tuple[GpuUuid, ...], share: float) -> Terms:
        """How the entry would hold this share of each of these GPUs."""
        devices = tuple(
            Device(
                uuid=uuid,
                memory_bytes=self._memory.get(uuid),
                is_instance=uuid.startswith(INSTANCE),
                part_of_device=self._parts.get(uuid),
            )
            for uuid in gpus
        )
        submission = replace(entry.submission, user=_account(entry.submission))
        return terms(submission, share, devices, self._sharers(entry, gpus), self._mps_beside(entry))

    def _sharers(self, entry: JobRecord, gpus: tuple[GpuUuid, ...]) -> tuple[Sharer, ...]:
        holders, entries = self._register.holders(), self._register.entries()
        others = {job for uuid in gpus for job in holders.get(uuid, {}) if job != entry.id}
        strangers = sorted({user for uuid in gpus for user in self._strangers.get(uuid, ())})
        return (
            *(
                Sharer(user=_account(entries[job].submission), sharing=entries[job].sharing)
                for job in sorted(others)
                if job in entries
            ),
            *(Sharer(user=user) for user in strangers),
        )

    def _mps_beside(self, entry: JobRecord) -> Mps:
        """The machine's daemon, and whom it serves already: one user at a time."""
        result = self._mps()
        others = [each for each in self._register.entries().values() if each.id != entry.id]
        under = {_account(each.submission) for each in others if each.sharing is Sharing.MPS and leased(each)}
        return replace(result, users=result.users | under)


def _account(submission: "Submission") -> str:
    """The user as MPS tells them apart: by the uid, even where one person has both (subuid(5))."""
    uid = submission.uid
    return name_of(uid) if uid is not None and is_lent(uid) else submission.user


def _strangers(state: "ClusterState", launched: Mapping[JobId, JobRecord]) -> dict[GpuUuid, frozenset[str]]:
    """Who uses a device by a job that Fallow did not launch; one without a known user is nobody's friend."""
    result: dict[GpuUuid, frozenset[str]] = {}
    for id, placement in state.placements.items():
        job = state.jobs.get(id)
        if job is None or id in launched:
            continue
        for uuid in placement.gpus:
            result[uuid] = result.get(uuid, frozenset()) | {job.user or f"the owner of {id}"}
    return result
