"""One machine's slots for workers: which device each has, and who sits there.

A slot of a machine with devices has one of them, and its worker sees no other. A slot that is taken away is
gone only when its worker's process has ended, because until then the device isn't free. Devices are names: a
GPU's UUID, an index, a MIG instance; nothing here looks whether there is such a thing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fallow import protocol
from fallow.machines.workers import Handle, Spawn
from fallow.protocol import MemberId


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a machine brings: so many slots, the address at which workers reach each other, its devices."""

    name: str
    slots: int
    host: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A place for one worker; ``device`` is ``None`` on a machine without devices."""

    number: int
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """Who sits on a device, ``None`` for nobody; ``kept`` says whether the device stays the training's."""

    device: str
    member: MemberId | None
    kept: bool


@dataclass(frozen=True, slots=True)
class _Sitter:
    slot: Slot
    member: MemberId
    worker: Handle


class Machine:
    """One machine's slots and who sits in them; ``reachable`` says whether it can be spoken to."""

    def __init__(self, offer: Offer, spawn: Spawn, reachable: Callable[[], bool] = lambda: True):
        self.offer, self.reachable = offer, reachable
        self._spawn = spawn
        self._slots = [Slot(number=n, device=_device(offer, n)) for n in range(offer.slots)]
        self._sitters: list[_Sitter] = []

    @property
    def size(self) -> int:
        """How many workers it takes."""
        return len(self._slots)

    def free(self) -> int:
        """How many more workers could be started now."""
        return len(self._empty())

    def start(self, variables: Mapping[str, str]) -> Handle:
        """Start a worker in the first free slot. Raises IndexError when there is none."""
        slot = self._empty()[0]
        placed = variables_of(slot, self.offer, self.size, int(variables["WORLD_SIZE"]))
        worker = self._spawn({**variables, **placed})
        self._sitters.append(_Sitter(slot, MemberId(variables.get(protocol.ENV_MEMBER, "")), worker))
        return worker

    def assign(self, devices: Sequence[str]) -> frozenset[MemberId]:
        """Have exactly these devices from now on; returns who sits on one that goes."""
        self._bury()
        slots = [*(sitter.slot for sitter in self._sitters), *self._slots]
        known = {slot.device: slot for slot in slots}
        fresh = iter(sorted(set(range(len(slots) + len(devices))) - {slot.number for slot in slots}))
        self._slots = [known.get(name) or Slot(number=next(fresh), device=name) for name in devices]
        return frozenset(s.member for s in self._sitters if s.slot not in self._slots)

    def seating(self) -> tuple[Seating, ...]:
        """Its devices in their order, then those that were taken away and aren't free yet."""
        self._bury()
        sitting = {sitter.slot: sitter.member for sitter in self._sitters}
        going = [slot for slot in sitting if slot not in self._slots]
        return tuple(
            Seating(device=slot.device, member=sitting.get(slot), kept=slot in self._slots)
            for slot in (*self._slots, *going)
            if slot.device is not None
        )

    def _empty(self) -> list[Slot]:
        self._bury()
        taken = {sitter.slot for sitter in self._sitters}
        return [slot for slot in self._slots if slot not in taken]

    def _bury(self) -> None:
        self._sitters = [sitter for sitter in self._sitters if sitter.worker.poll() is None]


def variables_of(slot: Slot, offer: Offer, slots: int, world_size: int) -> dict[str, str]:
    """What a worker in this slot must know: its place, and its device as the only one it sees.

    Of ``world_size`` workers at most the machine's ``slots`` are local, as torchrun counts them.
    """
    local, number = min(slots, world_size), str(slot.number)
    placed = {"LOCAL_RANK": number, "LOCAL_WORLD_SIZE": str(local), "FALLOW_SLOT": number}
    if offer.host:
        placed[protocol.ENV_HOST] = offer.host
    if slot.device is not None:
        placed |= {"CUDA_VISIBLE_DEVICES": slot.device, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    return placed


def _device(offer: Offer, number: int) -> str | None:
    return offer.devices[number] if offer.devices else None
