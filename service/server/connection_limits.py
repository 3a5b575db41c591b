"""Who holds how many connections, and whether one more may come in. On the event loop alone.

Connections are few (each takes a file and some memory), and who holds them all keeps everybody out without
asking anything. So one person holds some, launchers' streams some more, and the last ones are for operators
and for those whose jobs hold GPUs.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collector.procfs.owners import SUBUID
from service.trust.persons import containers_of, person_of_uid

MOST_PARTING = 128
"""Of the files that a process keeps for other things (``service.server.listeners``) a quarter."""
PARTING_OF_ONE = 16
RETRY_S = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """How many there are in all, of one person, of those who are not on this machine, and kept in reserve."""

    total: int
    of_one: int
    reserved: int

    @property
    def streams_of_one(self) -> int:
        """Launchers' streams beside the others: one a job, as far as half of all goes."""
        return self.total // 2

    @property
    def remote(self) -> int:
        """Over the network, together: nobody elsewhere shuts the door for those who are here."""
        return self.total // 2


class ConnectionSlots:
    """``is_operator`` and ``has_gpus`` say of a person's key who may take what is kept in reserve.

    ``arrives`` counts a connection, and says whether its person may open another one now.
    """

    def __init__(
        self,
        rules: ConnectionLimits,
        *,
        is_operator: Callable[[str], bool] = lambda person: False,
        has_gpus: Callable[[str], bool] = lambda person: False,
        arrives: Callable[[str], bool] = lambda person: True,
    ) -> None:
        self._rules = rules
        self._is_operator, self._arrives = is_operator, arrives
        self.has_gpus = has_gpus
        self._held: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._parting: Counter[str] = Counter()
        self._open = self._remote = 0
        self.shed_answer = refusal(
            f"too many connections of yours: one person has {rules.of_one} open (limits.connections), and "
            "opens so many a minute (limits.calls_per_minute); close some, and ask again in 1 s"
        )

    def person_of_uid(self, uid: int, lent: Path = SUBUID) -> str:
        """The key of an account that connects. An operator's uids are lent without what operators may."""
        person = person_of_uid(uid, lent)
        is_lent = person != f"uid {uid}"
        return containers_of(person) if is_lent and self._is_operator(person) else person

    def come(self, person: str, *, is_remote: bool = False) -> str | None:
        """Take a place; why there is none, for whoever came."""
        rules, mine = self._rules, self._held[person] - self._streams[person]
        if not self._is_operator(person):
            if mine >= rules.of_one or self._held[person] >= rules.of_one + rules.streams_of_one:
                return (
                    f"{self._held[person]} connections of yours are open, as many as one person may have "
                    "(limits.connections); close some, and ask again"
                )
            # Some places are kept for people whose jobs have GPUs.
            rest = rules.total - self._open - (0 if self.has_gpus(person) else rules.reserved)
            if rest <= 0 or (is_remote and self._remote >= rules.remote):
                return "the service has as many connections as it takes (api.connections); ask again in 1 s"
        elif self._open >= rules.total:
            return "the service has as many connections as it takes (api.connections); ask again in 1 s"
        self._held[person] += 1
        self._open += 1
        self._remote += is_remote
        return None

    def linger(self, person: str) -> bool:
        """Whether somebody who found no place may stay until the answer is read; then ``part`` follows."""
        if self._parting.total() >= MOST_PARTING or self._parting[person] >= PARTING_OF_ONE:
            return False
        self._parting[person] += 1
        return True

    def part(self, person: str) -> None:
        """One of those has gone."""
        self._parting[person] -= 1
        if self._parting[person] <= 0:
            del self._parting[person]

    def is_shed(self, person: str) -> bool:
        """Count a connection that comes; whether it is closed unheard, for its person opens too many."""
        if self._is_operator(person):
            return False
        if not self._arrives(person):
            return True
        at_most = self._held[person] - self._streams[person] >= self._rules.of_one
        return at_most and self._parting[person] >= PARTING_OF_ONE

    def go(self, person: str, *, is_remote: bool = False) -> None:
        """Give a place back."""
        self._held[person] -= 1
        if self._held[person] <= 0:
            del self._held[person]
        self._open -= 1
        self._remote -= is_remote

    def stream(self, person: str, begins: bool) -> None:
        """One of that person's connections begins, or ends, to be a launcher's stream."""
        self._streams[person] += 1 if begins else -1
        if self._streams[person] <= 0:
            del self._streams[person]


def refusal(why: str) -> bytes:
    """The whole answer to a connection that finds no place."""
    body = json.dumps({"error": "over-limit", "message": why}).encode()
    head = (
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nconnection: close\r\n"
        f"retry-after: {RETRY_S}\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
