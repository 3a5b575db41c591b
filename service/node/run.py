"""The node's life: a tick, its page into the spool, a push; to the end of the process."""

import hashlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from collector.clock import SystemClock
from collector.metrics_endpoint import exposition
from collector.scrape_loop import Hurried, Loop, LoopDependencies
from service.errors import FallowError
from service.logs import log_event
from service.node.push import HeadAway, Machine, Pusher, steady_ms
from service.node.spool import Spool, SpoolLimits, SpoolTrouble
from service.node.token_file import must_be_secret
from service.server.systemd_notify import notify
from service.version import own_version

if TYPE_CHECKING:
    from service.config.model import Config

log = logging.getLogger(__name__)

PHASE = 0.6
"""Where in a tick a node measures. A head ticks at the whole tick: what it has then is four seconds old."""
SPREAD = 0.2
"""Of a tick: nodes of one site don't all push at one moment."""
FULL_S = 2.0
"""How soon a head that had no room is asked again: it takes up at each of its ticks what waits."""
END_S = 3.0
"""At the end the head gets so long for a last push; the spool keeps what it does not take."""
MACHINE_ID = Path("/etc/machine-id")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class NoHead(FallowError):
    """Nobody said where to push."""


class Invented(FallowError):
    """What would be pushed was measured nowhere."""


def run_node(config: "Config", data: Path, say: Callable[[str], None]) -> None:
    """Measure and push until SIGTERM or SIGINT. Blocks. Raises ``FallowError`` where it cannot begin."""
    from service.sources.making import refuse_no_gpus

    if not config.node.head:
        raise NoHead("give the head's address: fallow node --head https://head:9475, or head in [node]")
    refuse_no_gpus(config, None)
    must_be_secret(config.node.token)
    limits = SpoolLimits(
        most_bytes=config.node.spool_mib << 20,
        most_ms=round(config.node.spool_hours * 3_600_000),
        stored_ms=round(config.node.stored_hours * 3_600_000),
    )
    spool = Spool(data, limits)
    node = _Node(config, spool, say)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: node.end())
    log_event(log, "node-started", version=own_version(), head=config.node.head, node=socket.gethostname())
    state = spool.state
    say(
        f"Node {socket.gethostname()} pushes to {config.node.head}; {state.waiting} ticks wait in "
        f"{data}. Nothing listens."
    )
    notify(f"READY=1\nSTATUS=pushes to {config.node.head}")
    try:
        node.live()
    finally:
        notify("STOPPING=1")
        spool.close()
        log_event(log, "node-stopped")


class _Node:
    """Two threads over one spool: this one measures, the other pushes."""

    def __init__(self, config: "Config", spool: Spool, say: Callable[[str], None]) -> None:
        from service.server.assemble import timing
        from service.sources.making import make_attribute, make_sources

        config = replace(config, collect=replace(config.collect, slurm=False))  # the head asks it for all
        self._spool, self._say = spool, say
        self._ended, self._ticked = threading.Event(), threading.Event()
        self._machine = Machine(machine=_machine(spool), boot=BOOT_ID.read_text().strip())
        self._pusher = Pusher(config.node, spool, self._machine)
        self._tick_s = config.collect.tick_s
        self._clock = SystemClock()
        sources = make_sources(config)
        if sources.are_simulated:  # a head would refuse each of its ticks
            raise Invented(
                "a node pushes what it measures; a simulated cluster is shown by `fallow up --simulated`"
            )
        for remark in sources.remarks:
            say(remark)
        self._loop = Loop(
            LoopDependencies(sources=sources.live, attribute=make_attribute(config), sink=lambda tick: None),
            clock=self._clock,
            timing=timing(config),
        )
        self._trouble: str | None = None
        self._notes: tuple[str, ...] = ()

    def live(self) -> None:
        """Measure until the end."""
        pushing = threading.Thread(target=self._push, name="push", daemon=True)
        pushing.start()
        while not self._ended.is_set():
            try:
                self._tick()
            except Hurried:
                break
            except Exception:
                log.exception("the tick failed; the head will see a hole")
            # To this node's place in the next tick of the calendar; never longer than a tick, if it jumps.
            spread = int(hashlib.sha256(self._machine.machine.encode()).hexdigest(), 16) % 1000 / 1000
            phase_s = (PHASE + SPREAD * spread) * self._tick_s
            self._ended.wait(self._tick_s - (time.time() - phase_s) % self._tick_s)
        self._ticked.set()
        pushing.join(END_S + 1)
        self._loop.close()

    def end(self) -> None:
        """Come to an end soon; safe in a signal's handler."""
        self._ended.set()
        self._ticked.set()
        self._loop.hurry()

    def _tick(self) -> None:
        tick = self._loop.tick_once()
        page = exposition(self._loop.snapshot, version=own_version())
        steady = steady_ms() - (self._clock.now_ms() - tick.at_ms)
        self._spool.add(
            at_ms=tick.at_ms, width_ms=tick.width_ms, boot=self._machine.boot, steady_ms=steady, page=page
        )
        self._ticked.set()

    def _push(self) -> None:
        wait_s = self._tick_s
        while not self._ended.is_set():
            self._ticked.wait(wait_s)
            self._ticked.clear()
            wait_s = self._turn()
        self._turn(END_S)

    def _turn(self, timeout_s: float | None = None) -> float:
        """Push once; how long to wait for the next time, if no tick comes before."""
        try:
            pushed = self._pusher.turn() if timeout_s is None else self._pusher.turn(timeout_s)
        except (HeadAway, SpoolTrouble) as error:
            self._went(str(error))
            return self._tick_s
        except Exception as error:
            log.exception("pushing failed")
            self._went(f"pushing failed: {error}")
            return self._tick_s
        self._went(None)
        for note in pushed.notes:
            if note not in self._notes:
                self._say(f"The head says: {note}")
        self._notes = pushed.notes
        return FULL_S if pushed.more else self._tick_s

    def _went(self, trouble: str | None) -> None:
        """Say it where it changed."""
        if trouble == self._trouble:
            return
        state = self._spool.state
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        sentence = "the head takes what is pushed" if trouble is None else f"the head is away: {trouble}"
        notify(f"STATUS={sentence}, since {since}")
        if trouble is not None:
            self._say(
                f"The head took nothing: {trouble}. {state.waiting} ticks wait here, {state.lost} were lost."
            )
            log_event(log, "head-away", logging.WARNING, reason=trouble, waiting=state.waiting)
        else:
            self._say(
                f"The head takes what is sent again; {state.waiting} ticks wait until it has stored them."
            )
            log_event(log, "head-back", waiting=state.waiting)
        self._trouble = trouble


def _machine(spool: Spool) -> str:
    """What tells this machine from others, without telling its id: machine-id(5) asks for that.

    A machine without one is known by its spool.
    """
    try:
        return hashlib.sha256(b"fallow node " + MACHINE_ID.read_bytes().strip()).hexdigest()[:32]
    except OSError:
        return spool.name
