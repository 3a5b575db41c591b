"""Where workers run: this machine and others that joined. What a machine's slots are, ``slots`` says."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fallow import protocol
from fallow.machines.slots import Machine, Offer, Seating
from fallow.machines.workers import Handle, Spawn
from fallow.protocol import AgentId, MemberId

DISMISSAL_S = 3.0
AGENT_SILENCE_S = 20.0
"""A machine whose agent shows no life for so long is out of reach, and so are its workers."""


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

    def look(self, box: Box) -> None:
        """Take in machines that have joined, and let go of those that are out of reach."""
        while (told := box.get(protocol.offer_key(len(self._agents) + 1))) is not None:
            name, offer = decode_offer(told.decode())
            agent = Agent(box, name, self._words)
            self._agents.append(agent)
            self._machines.append(Machine(offer, agent.spawn, agent.reachable))
            self._tell(f"{offer.name} joined with {offer.slots} slots at {offer.host}")
        for machine in [machine for machine in self._machines if not machine.reachable()]:
            self._machines.remove(machine)
            self._tell(f"{machine.offer.name} is out of reach")

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
        self._pulse, self._heard_s = b"", time.monotonic()

    def spawn(self, variables: Mapping[str, str]) -> "RemoteWorker":
        """Have a worker started there."""
        return RemoteWorker(self, self.ask({"start": dict(variables), "words": self._words}))

    def ask(self, request: Mapping[str, Any]) -> int:
        """Leave a request; returns its number."""
        self._asked += 1
        self._box.set(protocol.request_key(self._name, self._asked), json.dumps(request))
        return self._asked

    def ended(self, worker: int) -> tuple[int, str | None] | None:
        """How a worker there ended and why, once it has."""
        ended = self._box.get(protocol.ended_key(self._name, worker))
        if ended is None:
            return None
        told = json.loads(ended)
        return told["code"], told["reason"]

    def reachable(self) -> bool:
        """Whether it showed life lately."""
        pulse = self._box.get(protocol.agent_pulse_key(self._name)) or b""
        if pulse != self._pulse:
            self._pulse, self._heard_s = pulse, time.monotonic()
        return time.monotonic() - self._heard_s < AGENT_SILENCE_S

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
                self._code, self.reason = -signal.SIGKILL, "its machine is out of reach"
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
    told = {"name": offer.name, "slots": offer.slots, "host": offer.host, "devices": list(offer.devices)}
    return json.dumps({"agent": agent, **told})


def decode_offer(text: str) -> tuple[AgentId, Offer]:
    """What ``encode_offer`` wrote."""
    told = json.loads(text)
    devices = tuple(told["devices"])
    offer = Offer(name=told["name"], slots=told["slots"], host=told["host"], devices=devices)
    return AgentId(told["agent"]), offer


def devices_here(environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """This process's GPUs as CUDA_VISIBLE_DEVICES names them, else all that the driver lists."""
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return tuple(device.strip() for device in given.split(",") if device.strip() not in ("", "-1"))
    listed = Path("/proc/driver/nvidia/gpus")
    return tuple(str(index) for index in range(len(list(listed.iterdir())))) if listed.is_dir() else ()


def offer_here(slots: int | None, host: str, devices: Sequence[str]) -> Offer:
    """What this machine brings: a slot a GPU unless fewer are asked for; without GPUs that many, or 1."""
    count = (len(devices) or 1) if slots is None else slots
    if devices:
        count = min(count, len(devices))
    return Offer(name=socket.gethostname(), slots=count, host=host, devices=tuple(devices))
