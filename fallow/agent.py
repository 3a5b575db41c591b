"""Offers this machine's slots to a controller on another one, and runs the workers that it asks for.

    FALLOW_TOKEN=... python -m fallow.agent HOST:PORT --slots 4 [-- train.py ...]

Workers here reach the store through a relay on loopback. When the controller is out of reach they end
themselves (saved where rank 0 has a path), and the machine offers itself again until somebody answers.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fallow import protocol
from fallow.machines.gate import Refused, Relay, address, enter
from fallow.machines.hosts import devices_here, encode_offer, offer_here
from fallow.machines.nursery import Child, Nursery
from fallow.machines.slots import Offer
from fallow.machines.workers import threads

if TYPE_CHECKING:
    import torch.distributed as dist

SLICE = timedelta(milliseconds=250)
RETRY_S = 2.0
MANY = 2
"""There are other workers elsewhere; for equal bits all compute with as many threads."""
LOST_AFTER_S = 15.0
PATIENCE_S = 30.0
"""How long workers whose controller is gone may take to save and end, before they are ended."""


class Mission:
    """One stay with a controller: from the offer to its end or loss."""

    def __init__(self, relay: Relay, offer: Offer, words: Sequence[str]):
        self._relay, self._offer, self._words = relay, offer, words
        self._children: dict[int, Child] = {}
        self._nursery: Nursery | None = None
        self._heard_s = time.monotonic()
        self.over = False

    def run(self) -> None:
        """Serve until the training is over or the controller is lost; blocks. Leaves no worker behind."""
        server = threading.Thread(target=self._serve, name="fallow-agent", daemon=True)
        server.start()
        try:
            while server.is_alive() and time.monotonic() - self._heard_s < LOST_AFTER_S:
                server.join(0.1)
            self._see_off()
        finally:
            if self._nursery is not None:
                self._nursery.close()

    def _serve(self) -> None:
        from fallow.world.channel import client  # imports torch

        try:
            store = client(self._relay.address)
            number = store.add(protocol.AGENTS, 1)
            store.set(protocol.offer_key(number), encode_offer(self._offer))
            self._heard_s = time.monotonic()
            self._obey(store, number)
        except RuntimeError:
            return  # the connection is gone

    def _obey(self, store: "dist.TCPStore", number: int) -> None:
        import torch.distributed as dist

        asked, beat = 1, 0
        while not self.over:
            self._heard_s, beat = time.monotonic(), beat + 1
            store.set(protocol.agent_pulse_key(number), str(beat))
            self._bury(store, number)
            try:
                store.wait([protocol.request_key(number, asked)], SLICE)
            except dist.DistStoreError:
                continue
            self._do(store, number, asked)
            asked += 1

    def _do(self, store: "dist.TCPStore", agent: int, number: int) -> None:
        request: dict[str, Any] = json.loads(bytes(store.get(protocol.request_key(agent, number))))
        match request:
            case {"start": variables, "words": words}:
                if self._nursery is None:
                    self._nursery = Nursery(self._words or words, threads(os.environ, MANY))
                host, port = self._relay.address.rsplit(":", 1)
                ours = {protocol.ENV_STORE: self._relay.address, "MASTER_ADDR": host, "MASTER_PORT": port}
                self._children[number] = self._nursery.spawn({**variables, **ours})
            case {"signal": which, "worker": worker} if worker in self._children:
                child = self._children[worker]
                (child.kill if which == signal.SIGKILL else child.terminate)()
            case {"over": True}:
                self.over = True
                store.set(protocol.agent_pulse_key(agent), protocol.OVER)

    def _bury(self, store: "dist.TCPStore", number: int) -> None:
        for worker, child in list(self._children.items()):
            code = child.poll()
            if code is not None:
                del self._children[worker]
                told = json.dumps({"code": code, "reason": child.reason})
                store.set(protocol.ended_key(number, worker), told)

    def _see_off(self) -> None:
        deadline_s = time.monotonic() + (5.0 if self.over else PATIENCE_S)
        while time.monotonic() < deadline_s and any(c.poll() is None for c in self._children.values()):
            time.sleep(0.05)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code: 0 the training is over, 1 refused, 130 Ctrl-C, 143 SIGTERM."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    place = given.index("--") if "--" in given else len(given)
    parser = argparse.ArgumentParser(prog="python -m fallow.agent", description=__doc__)
    parser.add_argument("controller", help="HOST:PORT that the controller listens on")
    parser.add_argument("--slots", type=int, help="workers that fit here (a GPU each; without GPUs: 1)")
    options = parser.parse_args(given[:place])
    token = os.environ.get(protocol.ENV_TOKEN)
    if not token:
        parser.error(f"the controller's token belongs into the variable {protocol.ENV_TOKEN}")
    try:
        gate = address(options.controller)
    except ValueError as error:
        parser.error(str(error))
    if options.slots is not None and options.slots < 1:
        parser.error("--slots must be 1 or more")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    try:
        offer = offer_here(options.slots, "", devices_here())
        return _offer(gate, token, offer, given[place + 1 :])
    except KeyboardInterrupt:
        return 130


def _offer(gate: tuple[str, int], token: str, offer: Offer, words: Sequence[str]) -> int:
    """Join, serve, and join again after a loss, until a training was seen to its end."""
    told = False
    while True:
        try:
            with enter(gate, token) as knock:
                host = knock.getsockname()[0]
        except Refused as refusal:
            sys.stderr.write(f"fallow: {refusal}\n")
            return 1
        except OSError as error:
            if not told:
                sys.stderr.write(f"fallow: nobody answers at {gate[0]}:{gate[1]} ({error}); trying on\n")
            told = True
            time.sleep(RETRY_S)
            continue
        told = False
        relay = Relay(gate, token)
        mission = Mission(relay, replace(offer, host=host), words)
        sys.stderr.write(f"fallow: joined {gate[0]}:{gate[1]} as {host} with {offer.slots} slots\n")
        try:
            mission.run()
        finally:
            relay.close()
        if mission.over:
            sys.stderr.write("fallow: the training is over\n")
            return 0
        sys.stderr.write(f"fallow: lost the controller at {gate[0]}:{gate[1]}; its workers have ended\n")


if __name__ == "__main__":
    sys.exit(main())
