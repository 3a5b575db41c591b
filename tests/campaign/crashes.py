"""What is killed, at which point of a verb, and for how long it is away; drawn from a seed."""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tests.slurm_cluster import SlurmCluster

HEAD, AGENT, LAUNCHER = "head", "agent", "launcher"
"""Fallow's own: the service, the process of a top-up, the controller of a training."""
UP = frozenset({"idle", "mix", "alloc", "comp"})
"""States of a node that answers (sinfo(1), "NODE STATE CODES")."""
AWAY_S = {
    "slurmctld": (0.0,),
    "slurmdbd": (0.0, 1.0, 4.0),
    "munged": (0.0, 0.5, 2.0),
    "slurmd": (0.0, 1.0, 4.0),
}
"""A controller comes back at once, so that what it forgot is asked for again at once."""


@dataclass(frozen=True, kw_only=True)
class Crash:
    """``at`` counts the commands of a verb, ``delay_s`` is after that; ``node`` says which slurmd."""

    daemon: str
    at: int
    is_after: bool
    delay_s: float
    away_s: float
    node: str

    @property
    def process(self) -> str:
        """The cluster's name of it."""
        return self.node if self.daemon == "slurmd" else self.daemon


def crash_of(draw: random.Random, daemons: Sequence[str], nodes: Sequence[str]) -> Crash:
    """The next one of a campaign."""
    daemon = draw.choice(daemons)
    return Crash(
        daemon=daemon,
        at=draw.choice((1, 2, 3, 3, 3, 4, 4, 5)),
        is_after=draw.random() < 0.7,
        delay_s=draw.choice((0.0, 0.0, 0.05, 0.3, 1.0)),
        away_s=draw.choice(AWAY_S.get(daemon, (0.0,))),
        node=draw.choice(nodes),
    )


@dataclass
class Daemons:
    """Ends daemons as a crash does, and starts them again."""

    cluster: SlurmCluster
    _returning: list[threading.Timer] = field(default_factory=list)

    def crash(self, name: str, away_s: float) -> None:
        """Returns at once; the daemon comes back by itself."""
        self.cluster.kill(name)
        if away_s <= 0:
            self.cluster.start(name)
            return
        timer = threading.Timer(away_s, self.cluster.start, (name,))
        timer.start()
        self._returning.append(timer)

    def until_all_answer(self) -> None:
        """Blocks until each daemon is back and answers. Fails the test when one never does."""
        while self._returning:
            self._returning.pop().join()
        cluster = self.cluster
        socket = f"--socket={cluster.folder}/munge/sock"
        cluster.until("munge", "munge", socket, "--no-input", "--output=/dev/null", says="")
        cluster.until("slurmctld", "sh", "-c", "scontrol ping | grep -c UP", says="1")
        if "slurmdbd" in cluster.commands:
            cluster.until(
                "slurmdbd", "sh", "-c", "sacctmgr -n list cluster format=cluster%9 | xargs", says="lab"
            )
        end_s = time.monotonic() + 60
        while not set(states := self._nodes().values()) <= UP:
            assert time.monotonic() < end_s, states
            time.sleep(0.1)

    def _nodes(self) -> dict[str, str]:
        """The state of each node. One that Slurm drained is put back, as its administrator does, and said: it
        does so where a step couldn't be ended in time."""
        rows = self.cluster.ask("sinfo", "--noheader", "--Node", "--format=%N|%t|%E").splitlines()
        states = {}
        for node, state, reason in (row.split("|", 2) for row in rows):
            states[node] = state
            if state.startswith(("drain", "drng")):
                print(f"      Slurm drained {node}: {reason}", flush=True)
                with suppress(AssertionError):  # it may be back by itself since
                    self.cluster.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")
        return states
