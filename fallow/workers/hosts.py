"""Where workers run: this machine and others that joined.

``Slots`` are one machine's places for workers: which device each has, and who sits there.

A slot of a machine with devices has one of them, and its worker sees no other. A slot that is taken away is
gone only when its worker's process has ended, because until then the device isn't free. Devices are names: a
GPU's UUID, an index, a MIG instance; nothing here looks whether there is such a thing.
"""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from fallow import protocol
from fallow.protocol import AgentId, MemberId
from fallow.workers.pool import Handle, Spawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a machine brings: so many slots, the address at which workers reach each other, its devices.

    ``job`` is the id of the workload manager's job that it runs in, ``None`` outside of one.
    """

    name: str
    slots: int
    host: str
    devices: tuple[str, ...] = ()
    job: str | None = None


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
        self.leaving = False
        self._spawn = spawn
        self._slots = [Slot(number=n, device=_device(offer, n)) for n in range(offer.slots)]
        self._sitters: list[_Sitter] = []

    @property
    def size(self) -> int:
        """How many workers it takes."""
        return len(self._slots)

    def free(self) -> int:
        """How many more workers could be started now; none on a machine that leaves."""
        return 0 if self.leaving else len(self._empty())

    def sitting(self) -> tuple[MemberId, ...]:
        """Whose processes are there."""
        self._bury()
        return tuple(sitter.member for sitter in self._sitters)

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
        by_device = {slot.device: slot for slot in slots}
        fresh = iter(sorted(set(range(len(slots) + len(devices))) - {slot.number for slot in slots}))
        self._slots = [by_device.get(name) or Slot(number=next(fresh), device=name) for name in devices]
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
        slots = {sitter.slot for sitter in self._sitters}
        return [slot for slot in self._slots if slot not in slots]

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


# Agents look every quarter of a second; who does not hear it in time sees that the controller is gone.
DISMISSAL_S = 3.0
AGENT_SILENCE_S = 20.0
"""A machine whose agent shows no life for so long is out of reach, and so are its workers."""
BROKEN_SILENCE_S = 4.0
"""The same while a group is broken: who is killed takes its connections along, and its peers notice at once.
An agent shows life four times a second; one that was merely slow is told, and joins again."""


class Box(Protocol):
    """The part of the controller's store through which agents are spoken to."""

    def set(self, key: str, value: str, /) -> None:
        """Leave a value."""
        ...

    def get(self, key: str, /) -> bytes | None:
        """A value; ``None`` when there is none of this job's."""
        ...


class Hosts:
    """All machines of one training. ``spawn`` places a worker where a slot is free, this machine first."""

    def __init__(
        self,
        here: Offer,
        spawn_here: Spawn,
        words: Sequence[str],
        tell: Callable[[str], None] = lambda line: None,
    ):
        self._words, self._tell = tuple(words), tell
        self._machines = [Machine(here, spawn_here)]
        self._agents: list[Agent] = []
        self._agent_of: dict[Machine, Agent] = {}

    def spawn(self, variables: Mapping[str, str]) -> Handle:
        """Start a worker on the first machine with room. Raises StopIteration when there is none."""
        machine = next(machine for machine in self._machines if machine.free())
        return machine.start(variables)

    def room(self) -> int:
        """How many more workers could be started now."""
        return sum(machine.free() for machine in self._machines)

    def assign(self, devices: Sequence[str]) -> frozenset[MemberId]:
        """Have exactly these devices on this machine; returns who sits on one that goes."""
        return self._machines[0].assign(devices)

    def seating(self) -> tuple[Seating, ...]:
        """Who sits on which device of this machine."""
        return self._machines[0].seating()

    def elsewhere(self) -> int:
        """How many workers other machines take."""
        return sum(machine.size for machine in self._machines[1:])

    def look(self, box: Box, *, broken: bool = False) -> frozenset[MemberId]:
        """Take in machines that have joined, and let go of those that have left or are out of reach.

        ``broken`` says that a group is: then those that show no life are waited for less long. Returns who is
        on a machine that leaves: they are to leave with it.
        """
        while (text := box.get(protocol.offer_key(len(self._agents) + 1))) is not None:
            name, offer = decode_offer(text.decode())
            offer = replace(offer, name=self._unlike_others(offer.name))
            agent = Agent(box, name, self._words)
            self._agents.append(agent)
            machine = Machine(offer, agent.spawn, agent.reachable)
            self._machines.append(machine)
            self._agent_of[machine] = agent
            self._tell(f"{offer.name} joined with {offer.slots} slots at {offer.host}")
        for machine, agent in list(self._agent_of.items()):
            agent.silence_s = BROKEN_SILENCE_S if broken else AGENT_SILENCE_S
            if agent.left or not machine.reachable():
                self._machines.remove(machine)
                del self._agent_of[machine]
                agent.dismiss()
                self._tell(f"{machine.offer.name} {'has left' if agent.left else 'is out of reach'}")
            elif agent.leaving:
                self._begin_to_leave(machine)
        leaving = (machine for machine in self._agent_of if machine.leaving)
        return frozenset(member for machine in leaving for member in machine.sitting())

    def drop(self, names: Collection[str]) -> None:
        """Have the machines of these names leave: their workers at the next step boundary, then they."""
        for machine, agent in self._agent_of.items():
            if machine.offer.name in names and not machine.leaving:
                agent.ask({"leave": True})
                self._begin_to_leave(machine)

    def guests(self) -> tuple[Machine, ...]:
        """The machines that have joined and are in reach, oldest first."""
        return tuple(self._agent_of)

    def _begin_to_leave(self, machine: Machine) -> None:
        if not machine.leaving:
            machine.leaving = True
            self._tell(f"{machine.offer.name} leaves")

    def _unlike_others(self, name: str) -> str:
        """``name``, with a number behind it while another machine has it: so each can be told to leave."""
        others = {machine.offer.name for machine in self._machines}
        names = [name, *(f"{name}.{number}" for number in range(2, len(others) + 2))]
        return next(free for free in names if free not in others)

    def dismiss(self) -> None:
        """Tell all agents that the training is over; blocks until they heard it, shortly at most."""
        for agent in self._agents:
            agent.ask({"over": True})
        deadline_s = time.monotonic() + DISMISSAL_S
        while time.monotonic() < deadline_s and not all(agent.over() for agent in self._agents):
            time.sleep(0.02)


class Agent:
    """The controller's end of one other machine: asks it to start and to end workers."""

    def __init__(self, box: Box, name: AgentId, words: Sequence[str]):
        self._box, self._name, self._words = box, name, list(words)
        self._asked = 0
        self._lost = False
        self.silence_s = AGENT_SILENCE_S
        self._pulse, self._heard_s = b"", time.monotonic()

    def spawn(self, variables: Mapping[str, str]) -> "RemoteWorker":
        """Have a worker started there."""
        return RemoteWorker(self, self.ask({"start": dict(variables), "words": self._words}))

    def ask(self, request: Mapping[str, Any]) -> int:
        """Leave a request; returns its number."""
        self._asked += 1
        self._box.set(protocol.request_key(self._name, self._asked), json.dumps(request))
        return self._asked

    def dismiss(self) -> None:
        """It is out of reach from now on: should it hear this, it ends its workers and joins anew."""
        self._lost = True
        self.ask({"lost": True})

    def ended(self, worker: int) -> tuple[int, str | None] | None:
        """How a worker there ended and why, once it has."""
        ended = self._box.get(protocol.ended_key(self._name, worker))
        if ended is None:
            return None
        record = json.loads(ended)
        return record["code"], record["reason"]

    def reachable(self) -> bool:
        """Whether it showed life lately; one that has left, or was given up, counts as silent."""
        pulse = self._box.get(protocol.agent_pulse_key(self._name)) or b""
        if pulse != self._pulse:
            self._pulse, self._heard_s = pulse, time.monotonic()
        silent_s = time.monotonic() - self._heard_s
        return not (self.left or self._lost) and silent_s < self.silence_s

    @property
    def leaving(self) -> bool:
        """Whether its newest sign of life said that it was asked to leave, or has left."""
        return protocol.is_leaving(self._pulse)

    @property
    def left(self) -> bool:
        """Whether its last sign of life was that it has left."""
        return self._pulse.decode() == protocol.LEFT

    def over(self) -> bool:
        """Whether it has heard that the training is over, or cannot hear any more."""
        return not self.reachable() or self._pulse.decode() == protocol.OVER


class RemoteWorker:
    """One worker on another machine; has the part of ``subprocess.Popen`` that a controller needs."""

    def __init__(self, agent: Agent, number: int):
        self._agent, self._number = agent, number
        self._code: int | None = None
        self.reason: str | None = None

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs; SIGKILL's when its machine is out of reach."""
        if self._code is None:
            ended = self._agent.ended(self._number)
            if ended is not None:
                self._code, self.reason = ended
            elif not self._agent.reachable():
                state = "has left" if self._agent.left else "is out of reach"
                self._code, self.reason = -signal.SIGKILL, f"its machine {state}"
        return self._code

    def terminate(self) -> None:
        """Ask it to end."""
        self._agent.ask({"signal": int(signal.SIGTERM), "worker": self._number})

    def kill(self) -> None:
        """End it at once."""
        self._agent.ask({"signal": int(signal.SIGKILL), "worker": self._number})

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended; one that cannot be reached in time counts as killed."""
        deadline_s = time.monotonic() + (AGENT_SILENCE_S if timeout is None else timeout)
        while self.poll() is None and time.monotonic() < deadline_s:
            time.sleep(0.02)
        return -signal.SIGKILL if self._code is None else self._code


def encode_offer(agent: AgentId, offer: Offer) -> str:
    """The offer and who makes it, as one line of JSON."""
    record = {"name": offer.name, "slots": offer.slots, "host": offer.host, "devices": list(offer.devices)}
    return json.dumps({"agent": agent, "job": offer.job, **record})


def decode_offer(text: str) -> tuple[AgentId, Offer]:
    """What ``encode_offer`` wrote."""
    record = json.loads(text)
    devices = tuple(record["devices"])
    offer = Offer(
        name=record["name"],
        slots=record["slots"],
        host=record["host"],
        devices=devices,
        job=record.get("job"),
    )
    return AgentId(record["agent"]), offer


def devices_here(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """This process's GPUs as CUDA_VISIBLE_DEVICES names them, else all that the driver lists."""
    devices = environment.get("CUDA_VISIBLE_DEVICES")
    if devices is not None:
        return tuple(device.strip() for device in devices.split(",") if device.strip() not in ("", "-1"))
    listed = Path("/proc/driver/nvidia/gpus")
    return tuple(str(index) for index in range(len(list(listed.iterdir())))) if listed.is_dir() else ()


def offer_here(
    slots: int | None,
    host: str,
    devices: Sequence[str],
    environment: Mapping[str, str] = os.environ,
) -> Offer:
    """What this machine brings: a slot a GPU unless fewer are asked for; without GPUs that many, or 1.

    In a step of Slurm's the machine is called as the node is, else by its host name.
    """
    count = (len(devices) or 1) if slots is None else slots
    if devices:
        count = min(count, len(devices))
    name = environment.get("SLURMD_NODENAME") or socket.gethostname()
    job = environment.get("SLURM_JOB_ID")
    return Offer(name=name, slots=count, host=host, devices=tuple(devices), job=job)
