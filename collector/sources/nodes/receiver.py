"""Takes in what nodes push, checks it, and hands it to the loop until the store has it for good.

    POST ──► accept: whose, since when, which ticks are new ──► queue of the node ──► read, at the loop's tick
         ◄── received, stored                                   ◄── stored, after the commit

A node forgets a tick only once it is told that it is stored; the store writes a node's highest number in the
transaction of its ticks. So each tick is stored once, whoever is killed when. What a node says of itself is
not believed: its name is its token's, its times are held against this machine's clock, and a GPU that
somebody else tells of stays theirs.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from collector.dcgm.endpoint import BELIEVED_MS, Endpoint, News
from collector.dcgm.text import MalformedText
from collector.model import NODES_SOURCE, GpuUuid, NodeName
from collector.reading import NodeMark, Reading, Tick
from collector.sources.nodes.clocks import NodeClock
from collector.sources.nodes.headship import Headship
from collector.sources.nodes.item import (
    Item,
    clock_words,
    hole,
    is_silent,
    may_say,
    of_gpus,
    shifted,
    silence,
    untimely,
)
from collector.sources.nodes.joining import reading_of
from collector.sources.nodes.terms import Term
from collector.sources.nodes.wire import BadBatch, Batch, Record, unpack
from collector.sources.peer import heard

MOST_QUEUED = 360
"""Ticks of one node that wait for the store: an hour of them, as many as one body holds."""
A_TICK = 12_000
"""Ticks of all nodes that one tick of the head takes up: ten minutes of 200 nodes, some seconds of work."""
USUAL_MS = 10_000
"""Of a node that has not said yet how wide its ticks are."""


class NotTheHead(BadBatch):
    """Another head is the one, or may be; what the node measured waits in its spool."""


class NotYours(BadBatch):
    """A node speaks for what isn't its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKey:
    """Who pushes, as its token or munge says it: the node's name, and which credential that was."""

    node: NodeName
    credential: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a node is told: of its spool, up to where ticks are stored, and up to where they need not be sent.

    ``notes`` are sentences for whoever looks after the node. ``is_full``: it is to wait for the next tick.
    ``head`` is who answers.
    """

    spool: str
    stored: int
    received: int
    is_full: bool = False
    notes: tuple[str, ...] = ()
    head: Term | None = None


@dataclass(slots=True, kw_only=True)
class _Node:
    """One node, from request to request."""

    mark: NodeMark
    received: int
    endpoint: Endpoint
    clock: NodeClock = field(default_factory=NodeClock)
    queue: deque[Item] = field(default_factory=deque)
    last_ms: int | None = None
    """When its newest tick taken in was, by this machine's clock; ``None`` before the first."""
    busy: threading.Lock = field(default_factory=threading.Lock)
    notes: tuple[str, ...] = ()


class NodeReceiver:
    """A ``collector.source.Source`` that is pushed to; safe from any thread.

    ``marks`` is what the store knows of each node, ``owners`` which node told of a GPU last and when;
    ``headship`` whether this head is the one, where that can be in doubt.
    """

    def __init__(
        self,
        marks: Iterable[NodeMark] = (),
        owners: Mapping[GpuUuid, tuple[NodeName, int]] | None = None,
        *,
        most_gpus: int,
        headship: Headship | None = None,
    ) -> None:
        self.headship = headship
        self.superseded = (lambda: None) if headship is None else headship.superseded
        self._guard = threading.Lock()
        self._most_gpus = most_gpus
        self._nodes = {mark.node: self._made(mark) for mark in marks}
        self._owners = dict(owners or {})
        self._others: dict[GpuUuid, NodeName] = {}

    @property
    def name(self) -> str:
        """The name of the source."""
        return NODES_SOURCE

    def accept(self, who: NodeKey, body: bytes, now_ms: int) -> Receipt:
        """Take in a request's ticks; blocks while they are read. Raises BadBatch for a body that is none."""
        batch = unpack(body)
        node = self._node(who, batch)
        reason = None if self.headship is None else self.headship.hear(who.node, batch.head)
        if reason is not None:
            raise NotTheHead(reason)
        if not node.busy.acquire(blocking=False):
            return self._receipt(node, is_full=True)
        try:
            return self._taken(node, who, batch, now_ms)
        finally:
            node.busy.release()

    def read(self, now_ms: int) -> Reading:
        """What waits, of every node its share; it waits on until ``stored`` is told of it."""
        with self._guard:
            share = max(1, A_TICK // max(1, sum(bool(each.queue) for each in self._nodes.values())))
            taken = {name: tuple(each.queue)[:share] for name, each in self._nodes.items()}
            believed = tuple(
                each.endpoint.allocations or ()
                for name, each in self._nodes.items()
                if not taken[name] and each.last_ms is not None and now_ms - each.last_ms <= BELIEVED_MS
            )
            marks = tuple(
                replace(items[-1].mark, lost=self._nodes[name].mark.lost + sum(each.lost for each in items))
                for name, items in taken.items()
                if items
            )
            silent = tuple(
                silence(name, each.last_ms, now_ms)
                for name, each in self._nodes.items()
                if not each.queue and each.last_ms is not None and is_silent(each.last_ms, now_ms)
            )
        reading = reading_of(taken, believed, marks, now_ms)
        return replace(reading, gaps=(*reading.gaps, *silent))

    def close(self) -> None:
        """Nothing is held open."""

    def stored(self, tick: Tick) -> None:
        """The tick is in the store for good: what of it was pushed need not wait any more."""
        with self._guard:
            for outcome in tick.outcomes:
                if not isinstance(outcome, Reading):
                    continue
                for mark in outcome.marks:
                    self._settle(mark)
                if outcome.source != NODES_SOURCE:
                    self._others |= {gpu.uuid: gpu.node for gpu in outcome.gpus}

    def _settle(self, mark: NodeMark) -> None:
        node = self._nodes[mark.node]
        node.mark = mark
        while node.queue and node.queue[0].mark.spool == mark.spool:
            if node.queue[0].mark.sequence > mark.sequence:
                break
            node.queue.popleft()

    def _made(self, mark: NodeMark) -> _Node:
        endpoint = Endpoint(
            url=mark.node, fallback_node=mark.node, interval_ms=USUAL_MS, most_gpus=self._most_gpus
        )
        last_ms = mark.at_ms if mark.sequence else None
        return _Node(mark=mark, received=mark.sequence, endpoint=endpoint, last_ms=last_ms)

    def _node(self, who: NodeKey, batch: Batch) -> _Node:
        """The node of a request; a token is one machine's, and a spool that is new begins anew."""
        with self._guard:
            node = self._nodes.get(who.node)
            if node is None:
                node_mark = NodeMark(node=who.node, machine=batch.machine, spool=batch.spool)
                node = self._nodes[who.node] = self._made(node_mark)
            if node.mark.credential != who.credential:  # a new token: whichever machine uses it first has it
                node.mark = replace(node.mark, credential=who.credential, machine=batch.machine)
            if node.mark.machine != batch.machine:
                raise NotYours(
                    f"the token of node {who.node} is used by another machine than before: two machines "
                    "may not share one. Give each its own (`fallow token add --role node --user NAME`); "
                    "where the machine was installed anew, revoke the old one and make another"
                )
            if node.mark.spool != batch.spool and not node.queue:
                node.mark = replace(node.mark, spool=batch.spool, sequence=0)
                node.received = 0
            return node

    def _taken(self, node: _Node, who: NodeKey, batch: Batch, now_ms: int) -> Receipt:
        if node.mark.spool != batch.spool:  # ticks of the spool before wait for the store yet
            return self._receipt(node, is_full=True)
        if (
            not batch.echo_ms
        ):  # how long it travelled, and so whether its clock is right, is known the next time
            return self._receipt(node, is_full=False)
        if batch.after > node.received:  # what lies between came before this service began: send it again
            return self._receipt(node, is_full=False)
        node.clock.hear(batch, now_ms)
        notes: dict[str, None] = {}
        is_full = False
        for record in batch.records:
            if record.sequence <= node.received:
                continue
            if len(node.queue) >= MOST_QUEUED:
                is_full = True
                break
            item = self._item(node, who, batch, record, now_ms)
            notes |= dict.fromkeys(item.notes)
            with self._guard:
                node.queue.append(item)
                node.received = record.sequence
        if node.clock.kept_ms:
            notes[clock_words(who.node, node.clock.kept_ms)] = None
        node.notes = tuple(notes)
        return self._receipt(node, is_full=is_full)

    def _item(self, node: _Node, who: NodeKey, batch: Batch, record: Record, now_ms: int) -> Item:
        """One tick, read and checked; one that cannot be believed is counted, and leaves its number only."""
        shift_ms = node.clock.shift_ms(record)
        at_ms = record.at_ms + shift_ms
        skipped = record.sequence - node.received - 1
        mark = replace(
            node.mark,
            sequence=record.sequence,
            version=batch.version,
            at_ms=node.last_ms or 0,
            heard_ms=now_ms,
            ahead_ms=node.clock.kept_ms,
            waiting=batch.waiting,
            waits_ms=batch.waits_ms,
        )
        trouble = untimely(node.last_ms, at_ms, now_ms)
        if trouble is None:
            try:
                news = self._news(node, who.node, record)
            except MalformedText as error:
                trouble = f"a page of it cannot be read: {error}"
        if trouble is not None:
            note = f"node {who.node}: {trouble}; the tick is not stored"
            return Item(mark=mark, at_ms=at_ms, width_ms=record.width_ms, lost=skipped + 1, notes=(note,))
        previous_ms, node.last_ms = node.last_ms, at_ms
        gaps = hole(who.node, previous_ms, at_ms - record.width_ms, record.width_ms, skipped)
        news, refused = self._own(who.node, shifted(news, shift_ms), at_ms)
        return Item(
            mark=replace(mark, at_ms=at_ms),
            at_ms=at_ms,
            width_ms=record.width_ms,
            previous_ms=previous_ms,
            lost=skipped,
            news=replace(news, gaps=(*gaps, *news.gaps)),
            notes=refused,
        )

    def _news(self, node: _Node, name: NodeName, record: Record) -> News:
        endpoint = replace(node.endpoint, interval_ms=record.width_ms)
        after, news = heard(endpoint, record.page, record.at_ms, NODES_SOURCE)
        strangers = sorted({gpu.node for gpu in news.gpus} - {name})
        if strangers:
            raise NotYours(
                f"the token is of node {name}, but the page tells of GPUs of {strangers[0][:64]!r}: make the "
                "token for the name that the machine calls itself (`hostname`)"
            )
        own = None if news.allocations is None else tuple(a for a in news.allocations if may_say(name, a))
        news = replace(news, allocations=own)
        node.endpoint = replace(after, allocations=own if after.allocations is not None else None)
        return news

    def _own(self, node: NodeName, news: News, at_ms: int) -> tuple[News, tuple[str, ...]]:
        """The news without GPUs that another source or node tells of, and a sentence for each of them."""
        with self._guard:
            foreign = {
                gpu.uuid: owner
                for gpu in news.gpus
                if (owner := self._owner(gpu.uuid, node, at_ms)) is not None
            }
            self._owners |= {gpu.uuid: (node, at_ms) for gpu in news.gpus if gpu.uuid not in foreign}
        own = frozenset(gpu.uuid for gpu in news.gpus if gpu.uuid not in foreign)
        notes = tuple(
            f"node {node} tells of {uuid}, which {owner} tells of: only that is believed"
            for uuid, owner in sorted(foreign.items())
        )
        return of_gpus(news, own), notes

    def _owner(self, uuid: GpuUuid, node: NodeName, at_ms: int) -> str | None:
        other = self._others.get(uuid)
        if other is not None and other != node:
            return other
        owner, seen_ms = self._owners.get(uuid, (node, 0))
        return owner if owner != node and abs(at_ms - seen_ms) <= BELIEVED_MS else None

    def _receipt(self, node: _Node, *, is_full: bool) -> Receipt:
        with self._guard:
            return Receipt(
                spool=node.mark.spool,
                stored=node.mark.sequence,
                received=node.received,
                is_full=is_full,
                notes=node.notes,
                head=None if self.headship is None else self.headship.term,
            )
