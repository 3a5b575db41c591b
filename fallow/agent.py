"""Offers this machine's slots to a controller on another one, and runs the workers that it asks for.

    python -m fallow.agent HOST:PORT --token-file FILE --slots 4 [-- train.py ...]

The token is read from a file that nobody else may read, from the standard input (``--token-file -``), or from
FALLOW_TOKEN, which workers don't inherit. The job's secret comes through the gate. Workers here reach the
store through a relay on loopback. When the controller is out of reach they end themselves (saved where rank 0
has a path), and the machine offers itself again until somebody answers, or for ``--patience`` seconds.

SIGTERM, SIGINT and SIGHUP ask the machine to leave: its workers hand over at their next step boundary and
end, then the agent ends with 0. Asked again a second later, or after ``--leave-timeout``, it ends at once,
with 143.
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
from fallow.workers.leave_signal import LeaveSignal
from fallow.workers.pool import Child, WorkerPool, threads
from fallow.workers.relay import Refused, Relay, address, enter
from fallow.workers.token import TokenMissing, token_of

# How late a request of the controller may be seen, at most.
SLICE = timedelta(milliseconds=250)
LEAVING_SLICE = timedelta(milliseconds=20)
"""Between two looks at workers that leave: whoever took the node back waits for them."""
# Between two attempts to enter: a controller that restarts is back within seconds.
RETRY_S = 2.0
MANY = 2
"""There are other workers elsewhere; for equal bits all compute with as many threads."""
# A controller that says nothing for so long counts as gone.
LOST_AFTER_S = 15.0
PATIENCE_S = 30.0
"""How long workers whose controller is gone may take to save and end, before they are ended."""
LEAVE_WITHIN_S = 25.0
"""How long workers may take to hand over: Slurm kills a step 30 s after it asked (KillWait's default)."""
AT_ONCE_S = 2.0
"""How long the controller may take to hear how killed workers ended; unheard, it waits for 20 s."""
LEAVE_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# As a shell reports them: 128 and the number of SIGINT or SIGTERM.
INTERRUPTED, TERMINATED = 130, 143


class Mission:
    """One stay with a controller: from the offer to its end or loss. ``left`` once it has left well.

    ``leave`` says when this machine is asked to leave; workers that haven't left by ``leave_within_s`` later
    are killed, and the controller is told so.
    """

    def __init__(
        self,
        relay: Relay,
        offer: Offer,
        words: Sequence[str],
        secret: Secret,
        *,
        leave: LeaveSignal,
        leave_within_s: float = LEAVE_WITHIN_S,
    ):
        self._relay, self._offer, self._words = relay, offer, words
        self._secret = secret
        self._leave, self._leave_within_s = leave, leave_within_s
        self._lost = False
        self._told_s: float | None = None
        self._killed_s: float | None = None
        self.left = False
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
            while server.is_alive() and time.monotonic() - self._heard_s < LOST_AFTER_S and not self._late():
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
        number, beat = 1, 0
        while not (self.over or self.left or self._lost):
            self._heard_s, beat = time.monotonic(), beat + 1
            leaving = self._is_leaving()
            store.set(protocol.agent_pulse_key(self._name), protocol.pulse(beat, leaving))
            self._bury(store)
            if leaving and not self._children:
                self._say_left(store)
            slice_ = LEAVING_SLICE if leaving else SLICE
            request = store.wait(protocol.request_key(self._name, number), slice_)
            if request is not None:
                self._do(store, json.loads(request), number)
                number += 1

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
            case {"leave": True}:
                self._told_s = self._told_s or time.monotonic()
            case {"lost": True}:
                self._lost = True
                for child in self._children.values():
                    child.kill()
            case {"over": True}:
                self.over = True
                store.set(protocol.agent_pulse_key(self._name), protocol.OVER)

    def _bury(self, store: SealedStore) -> None:
        for worker, child in list(self._children.items()):
            code = child.poll()
            if code is not None:
                del self._children[worker]
                message = json.dumps({"code": code, "reason": child.reason})
                store.set(protocol.ended_key(self._name, worker), message)

    def _is_leaving(self) -> bool:
        """Whether this machine was asked to leave; who takes too long over it is killed."""
        times_s = [s for s in (self._told_s, self._leave.asked_s) if s is not None]
        if not times_s:
            return False
        late = self._leave.asked_again or time.monotonic() - min(times_s) > self._leave_within_s
        if late and self._killed_s is None:
            self._killed_s = time.monotonic()
            for child in self._children.values():
                child.kill()
        return True

    def _late(self) -> bool:
        """Whether the workers are killed, and the controller, if it is in reach, had time to hear it."""
        return self._killed_s is not None and time.monotonic() - self._killed_s > AT_ONCE_S

    @property
    def killed(self) -> bool:
        """Whether workers had to be killed for this machine to leave."""
        return self._killed_s is not None

    def _say_left(self, store: SealedStore) -> None:
        key = protocol.agent_pulse_key(self._name)
        store.set(key, protocol.LEFT)
        store.get(key)  # an answer means that it has arrived; ``set`` waits for none
        self.left = True

    def _see_off(self) -> None:
        if self._killed_s is not None:
            return
        deadline_s = time.monotonic() + (5.0 if self.over else PATIENCE_S)
        while time.monotonic() < deadline_s and any(c.poll() is None for c in self._children.values()):
            time.sleep(0.05)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code.

    0 the training is over, or this machine has left; 1 refused, or nobody answered for ``--patience``; 130
    and 143 asked to end by Ctrl-C or another signal, before it had joined or before its workers had left.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # a wait in slices logs two warnings a slice
    words = list(sys.argv[1:] if arguments is None else arguments)
    place = words.index("--") if "--" in words else len(words)
    parser = _parser()
    options = parser.parse_args(words[:place])
    try:
        token = token_of(options.token_file, os.environ)
        gate = address(options.controller)
    except (TokenMissing, ValueError) as error:
        parser.error(str(error))
    if options.slots is not None and options.slots < 1:
        parser.error("--slots must be 1 or more")
    offer = offer_here(options.slots, "", devices_here())
    offer = replace(offer, name=options.name or offer.name)
    return _Visitor(gate, token, offer, words[place + 1 :], options).run()


class _Visitor:
    """Offers this machine until a training was seen to its end, or it is told to leave."""

    def __init__(
        self,
        gate: tuple[str, int],
        token: str,
        offer: Offer,
        words: Sequence[str],
        options: argparse.Namespace,
    ):
        self._gate, self._token, self._offer, self._words = gate, token, offer, words
        self._patience_s: float = options.patience
        self._leave_within_s: float = options.leave_timeout
        self._where = f"{gate[0]}:{gate[1]}"
        self._mission: Mission | None = None
        self._leave = LeaveSignal(lambda: self._mission is not None, self._end)

    def run(self) -> int:
        """Join, serve, and join again after a loss; returns the exit code. Blocks."""
        self._leave.hear(*LEAVE_ON)
        unanswered_s: float | None = None
        while True:
            try:
                entered = enter(self._gate, self._token)
                with entered.connection as knock:
                    host = knock.getsockname()[0]
            except Refused as refusal:
                _say(f"{refusal}")
                return 1
            except OSError as error:
                if unanswered_s is None:
                    unanswered_s = time.monotonic()
                    _say(f"nobody answers at {self._where} ({error}); trying on")
                if time.monotonic() - unanswered_s >= self._patience_s:
                    _say(f"nobody answered at {self._where} for {self._patience_s:g} s")
                    return 1
                time.sleep(min(RETRY_S, self._patience_s))
                continue
            unanswered_s = None
            code = self._stay(host, entered.secret)
            if code is not None:
                return code

    def _stay(self, host: str, secret: Secret) -> int | None:
        """Serve the controller that let us in; ``None`` when it was lost."""
        relay = Relay(self._gate, self._token)
        mission = Mission(
            relay,
            replace(self._offer, host=host),
            self._words,
            secret,
            leave=self._leave,
            leave_within_s=self._leave_within_s,
        )
        self._mission = mission
        _say(f"joined {self._where} as {host} with {self._offer.slots} slots")
        try:
            mission.run()
        finally:
            self._mission = None
            relay.close()
        if mission.killed:
            _say("asked to end; workers that had not handed over were killed")
            return TERMINATED
        if mission.left:
            _say("left: its workers have handed over")
            return 0
        if mission.over:
            _say("the training is over")
            return 0
        _say(f"lost the controller at {self._where}; its workers have ended")
        return TERMINATED if self._leave.asked else None

    def _end(self, number: int) -> None:
        """Asked to end with no training at hand; a training's workers are ended by ``Mission``."""
        if self._mission is None:
            sys.exit(INTERRUPTED if number == signal.SIGINT else TERMINATED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fallow.agent", description=__doc__)
    parser.add_argument("controller", help="HOST:PORT that the controller listens on")
    parser.add_argument("--slots", type=int, help="workers that fit here (a GPU each; without GPUs: 1)")
    parser.add_argument(
        "--token-file", metavar="FILE", help="the controller's token, in a file of mode 0600; - for stdin"
    )
    parser.add_argument(
        "--name", help="what this machine is called (in Slurm the node's name, else the host's)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=float("inf"),
        metavar="S",
        help="how long to try where nobody answers (for ever)",
    )
    parser.add_argument(
        "--leave-timeout",
        type=float,
        default=LEAVE_WITHIN_S,
        metavar="S",
        help=f"how long workers may take to hand over when asked to leave ({LEAVE_WITHIN_S:g})",
    )
    return parser


def _say(sentence: str) -> None:
    sys.stderr.write(f"fallow: {sentence}\n")


if __name__ == "__main__":
    sys.exit(main())
