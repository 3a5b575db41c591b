"""Whether this head is the one, as its nodes tell it; while that isn't sure it acts on nobody.

    started ──more than half of the known nodes pushed, none has heard another──► the head
       └──a node has heard another head──► superseded, for good: takes in nothing, does nothing

A head that comes back after another took over may hear nobody at all, because its nodes push elsewhere: so it
waits for them before it acts. Known are those that it heard within a day of the last one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping

from collector.model import NodeName
from collector.reading import NodeMark
from collector.sources.nodes.terms import Term, is_genuine, superseded_by

KNOWN_MS = 86_400_000
"""A machine that was away for longer was taken down or is being mended: it is not waited for."""
MOST_NAMES = 3
"""Nodes that a message names; it counts the others."""
FOREIGN = (
    "node {node} has heard a head whose DATA had another lease.key than this one's: put that file back with "
    "the rest of the back-up, or, where this is a new head, make the node a new token"
)


class Headship:
    """The term of one start of a head; safe from any thread.

    ``key`` seals its terms; ``words`` are those of the store's starts; ``superseded`` why it was no head
    before this start, and ``keep`` writes such a reason down for the next.
    """

    def __init__(
        self,
        key: bytes,
        term: Term,
        words: Mapping[int, str],
        marks: Iterable[NodeMark] = (),
        *,
        superseded: str | None = None,
        keep: Callable[[str], None] = lambda because: None,
    ) -> None:
        marks_list = tuple(marks)
        newest_ms = max((mark.heard_ms for mark in marks_list), default=0)
        self.term, self._key = term, key
        self._words, self._keep = dict(words), keep
        self._guard = threading.Lock()
        self._known = {mark.node for mark in marks_list if newest_ms - mark.heard_ms <= KNOWN_MS}
        self._confirmed: set[NodeName] = set()
        self._superseded = superseded

    def hear(self, node: NodeName, term: Term | None) -> str | None:
        """A node pushes and says which head it has heard; why it may not push here, ``None`` where it may."""
        if term is not None and not is_genuine(self._key, term):  # costs who says it, and nobody else
            return FOREIGN.format(node=node)
        with self._guard:
            reason = None if term is None else superseded_by(self.term, self._words, term, node)
            is_news = reason is not None and self._superseded is None
            self._superseded = self._superseded or reason
            if self._superseded is None:
                self._confirmed.add(node)
            answer = self._superseded
        if is_news and reason is not None:
            self._keep(reason)
        return answer

    def superseded(self) -> str | None:
        """Which other head is the one, as a node told; ``None``: no node has told of one."""
        with self._guard:
            return self._superseded

    def withheld(self) -> str | None:
        """Why this head acts on nobody now; ``None`` where it is the head."""
        with self._guard:
            if self._superseded is not None:
                return self._superseded
            missing = sorted(self._known - self._confirmed)
            if 2 * len(missing) < len(self._known) or not missing:
                return None
            rest = len(missing) - MOST_NAMES
            shown = ", ".join(missing[:MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
            return (
                f"{len(missing)} of the {len(self._known)} machines that push to this head have not since it "
                f"started ({shown}): until more than half of them do, "
                "another head may have taken over. If none has, and they stay away: `fallow store take-over`"
            )
