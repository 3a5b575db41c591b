"""Offers this machine's slots to a controller on another one, and runs the workers that it asks for.

    python -m fallow.agent HOST:PORT --token-file FILE --slots 4 [-- train.py ...]

The token is read from a file that nobody else may read, from the standard input (``--token-file -``), or from
FALLOW_TOKEN, which workers don't inherit. The job's secret comes through the gate. Workers here reach the
store through a relay on loopback. When the controller is out of reach they end themselves (saved where rank 0
has a path), and the machine offers itself again until somebody answers.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from fallow import protocol
from fallow.protocol import AgentId
from fallow.sealed_store import SealedStore
from fallow.secret import Secret
from fallow.workers.hosts import Offer, devices_here, encode_offer, offer_here
from fallow.workers.pool import Child, WorkerPool, threads
from fallow.workers.relay import Refused, Relay, address, enter
from fallow.workers.token import TokenMissing, token_of

SLICE = timedelta(milliseconds=250)
RETRY_S = 2.0
MANY = 2
"""There are other workers elsewhere; for equal bits all compute with as many threads."""
LOST_AFTER_S = 15.0
PATIENCE_S = 30.0
"""How long workers whose controller is gone may take to save and end, before they are ended."""


class Mission:
    """One stay with a controller: from the offer to its end or loss."""

    def __init__(self, relay: Relay, offer: Offer, words: Sequence[str], secret: Secret):
        self._relay, self._offer, self._words = relay, offer, words
        self._secret = secret
        self._name = AgentId(secrets.token_hex(8))
        self._children: dict[int, Child] = {}
        self._nursery: WorkerPool | None = None
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
        from fallow.process_group.rendezvous import client  # imports torch

        try:
            store = SealedStore(client(self._relay.address), self._secret, _say)
            number = 1
            while not store.claim(protocol.offer_key(number), encode_offer(self._name, self._offer)):
                number += 1
            self._heard_s = time.monotonic()
            self._obey(store)
        except RuntimeError:
            return  # the connection is gone

    def _obey(self, store: SealedStore) -> None:
        asked, beat = 1, 0
        while not self.over:
            self._heard_s, beat = time.monotonic(), beat + 1
            store.set(protocol.agent_pulse_key(self._name), str(beat))
            self._bury(store)
            request = store.wait(protocol.request_key(self._name, asked), SLICE)
            if request is not None:
                self._do(store, json.loads(request), asked)
                asked += 1

    def _do(self, store: SealedStore, request: dict[str, Any], number: int) -> None:
        match request:
            case {"start": variables, "words": words}:
                if self._nursery is None:
                    self._nursery = WorkerPool(self._words or words, threads(os.environ, MANY))
                host, port = self._relay.address.rsplit(":", 1)
                ours = {protocol.ENV_STORE: self._relay.address, "MASTER_ADDR": host, "MASTER_PORT": port}
                ours[protocol.ENV_SECRET] = str(self._secret.descriptor)
                self._children[number] = self._nursery.spawn({**variables, **ours})
            case {"signal": which, "worker": worker} if worker in self._children:
                child = self._children[worker]
                (child.kill if which == signal.SIGKILL else child.terminate)()
            case {"over": True}:
                self.over = True
                store.set(protocol.agent_pulse_key(self._name), protocol.OVER)

    def _bury(self, store: SealedStore) -> None:
        for worker, child in list(self._children.items()):
            code = child.poll()
            if code is not None:
                del self._children[worker]
                told = json.dumps({"code": code, "reason": child.reason})
                store.set(protocol.ended_key(self._name, worker), told)

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
    parser.add_argument(
        "--token-file", metavar="FILE", help="the controller's token, in a file of mode 0600; - for stdin"
    )
    options = parser.parse_args(given[:place])
    try:
        token = token_of(options.token_file, os.environ)
        gate = address(options.controller)
    except (TokenMissing, ValueError) as error:
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
            entered = enter(gate, token)
            with entered.connection as knock:
                host = knock.getsockname()[0]
        except Refused as refusal:
            _say(f"{refusal}")
            return 1
        except OSError as error:
            if not told:
                _say(f"nobody answers at {gate[0]}:{gate[1]} ({error}); trying on")
            told = True
            time.sleep(RETRY_S)
            continue
        told = False
        relay = Relay(gate, token)
        mission = Mission(relay, replace(offer, host=host), words, entered.secret)
        _say(f"joined {gate[0]}:{gate[1]} as {host} with {offer.slots} slots")
        try:
            mission.run()
        finally:
            relay.close()
        if mission.over:
            _say("the training is over")
            return 0
        _say(f"lost the controller at {gate[0]}:{gate[1]}; its workers have ended")


def _say(sentence: str) -> None:
    sys.stderr.write(f"fallow: {sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
