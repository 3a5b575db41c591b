"""How a lease would be held, for the engine: the devices as they were seen, and who is on them already."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from advisor.register.model import Entry
from advisor.register.shares import Device, Mps, Sharer, Terms, terms
from collector.model import GpuUuid

if TYPE_CHECKING:
    from advisor.model import ClusterState
    from advisor.register.register import Register

INSTANCE = "MIG-"
"""What the UUIDs of MIG instances begin with (NVIDIA MIG User Guide, Device Enumeration)."""


class Granting:
    """``advisor.engines.local.Agree`` of a running service; ``seen`` remembers the state that it rests on."""

    def __init__(self, register: "Register", mps: Callable[[], Mps]) -> None:
        self._register, self._mps = register, mps
        self._memory: Mapping[GpuUuid, int | None] = {}

    def seen(self, state: "ClusterState") -> "ClusterState":
        """The state itself; its devices are what the next leases are reckoned with."""
        self._memory = {uuid: gpu.memory_bytes for uuid, gpu in state.gpus.items()}
        return state

    def agree(self, entry: Entry, gpus: tuple[GpuUuid, ...], share: float) -> Terms:
        """How the entry would hold this share of each of these GPUs."""
        devices = tuple(
            Device(uuid=uuid, memory_bytes=self._memory.get(uuid), is_instance=uuid.startswith(INSTANCE))
            for uuid in gpus
        )
        return terms(entry.submission, share, devices, self._sharers(entry, gpus), self._mps())

    def _sharers(self, entry: Entry, gpus: tuple[GpuUuid, ...]) -> tuple[Sharer, ...]:
        holders, entries = self._register.holders(), self._register.entries()
        others = {job for uuid in gpus for job in holders.get(uuid, {}) if job != entry.id}
        return tuple(
            Sharer(user=entries[job].submission.user, sharing=entries[job].sharing)
            for job in sorted(others)
            if job in entries
        )
