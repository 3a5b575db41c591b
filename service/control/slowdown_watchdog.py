"""Sees to it that jobs which share a GPU since Fallow put them there get on, after every acting cycle.

The rule is ``advisor.jobs.slowdown_watchdog``; this is its memory and its hands. Speeds alone are kept in
memory: after a restart they take three windows again, but those of a pair that exists are in the store. A
pair whose foreground is too slow is noted as parted first and then parted, through the journal and the engine
as every step is; what cannot be done now is tried again at every cycle while they are together.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from advisor.actions import Action, Move
from advisor.jobs.lifecycle import leased
from advisor.jobs.slowdown_watchdog import (
    Pair,
    Span,
    Track,
    Way,
    beside,
    counted,
    couples,
    experience_of,
    followed,
    is_short,
    misses,
    own_speed,
    parting,
    too_slow,
    tried,
    unshared_move,
    ways,
)
from advisor.journal.records import Result
from advisor.outcomes import Done
from advisor.planner.limits import Limits, Mode
from advisor.planner.pairing import Experience, expected_gain
from advisor.policies.pack import PAIRING, profile_of
from advisor.state.model import ActionClass
from advisor.tags import verb_of
from analytics import text
from collector.model import JobId

if TYPE_CHECKING:
    from advisor.cycle import Cycle
    from advisor.jobs.job_store import Register
    from advisor.jobs.model import JobRecord
    from advisor.jobs.slowdown_store import SlowdownStore
    from advisor.journal.journal import StoreJournal
    from advisor.outcomes import Engine
    from advisor.state.model import ClusterState
    from collector.clock import Clock

log = logging.getLogger(__name__)

Couple = tuple[JobId, JobId]


class SlowdownWatchdog:
    """One thread at a time."""

    def __init__(
        self,
        register: "Register",
        engine: "Engine",
        journal: "StoreJournal",
        clock: "Clock",
        limits: Limits,
        *,
        book: "SlowdownStore",
        span: Span | None = None,
        halted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._halted = halted
        self._register, self._engine, self._journal = register, engine, journal
        self._clock, self._limits, self._book = clock, limits, book
        self._span = span or Span()
        self._tracks: dict[JobId, Track] = {}
        self._alone: dict[JobId, float] = {}
        self._pairs: dict[Couple, Pair] | None = None
        self._tried_ms: dict[JobId, int] = {}
        """When who was left alone was last to get all of its GPU: what fails is not tried at once again."""
        self._strange: set[Couple] = set()
        """Couples that the journal does not know: not put together by a pack."""

    def remember(self, state: "ClusterState") -> "ClusterState":
        """The state with who is known to count steps, and how fast each is alone."""
        jobs = {id: replace(state.jobs[id], paced=True) for id in self._alone if id in state.jobs}
        return replace(state, jobs={**state.jobs, **jobs}) if jobs else state

    def after(self, cycle: "Cycle") -> None:
        """Count, learn, and part whom the rule names; nothing is parted while acting is stopped. Blocks."""
        entries = self._register.entries()
        running = [each for each in entries.values() if each.gpus]
        now = ways(cycle.state, running)
        self._count(now, entries)
        for couple in couples(running, now):
            pair = self._pair_of(couple, cycle.state)
            if pair is not None:
                self._see_to(pair, cycle)
        if cycle.halt is None:
            self._restore(now, cycle.state, entries)

    def _count(self, now: Mapping[JobId, Way], entries: "Mapping[JobId, JobRecord]") -> None:
        """Follow the steps of everybody who is on one GPU."""
        pairs, tracks = self._open(), {}
        for id, way in now.items():
            count = counted(entries[id])
            if count is None or len(way.gpus) != 1:
                continue
            alone = self._alone.get(id) if way.beside else None
            tracks[id] = track = followed(self._tracks.get(id), way, count, self._span, alone)
            if (speed := own_speed(track)) is not None and not is_short(entries[id]):
                self._alone[id] = speed
        changing = {id: track for id, track in self._tracks.items() if id in entries and id not in now}
        self._tracks = changing | tracks
        self._tried_ms = {id: at_ms for id, at_ms in self._tried_ms.items() if id in entries}
        ids = {id for couple in pairs for id in couple} | set(entries)
        self._alone = {id: speed for id, speed in self._alone.items() if id in ids}

    def _open(self) -> dict[Couple, Pair]:
        """The pairs of the store, read once; what they know of speeds alone outlives a restart."""
        if self._pairs is None:
            self._pairs = {(min(p.host, p.guest), max(p.host, p.guest)): p for p in self._book.pairs()}
            for pair in self._pairs.values():
                for job, speed in zip((pair.host, pair.guest), pair.alone, strict=True):
                    if speed is not None:
                        self._alone.setdefault(job, speed)
        return self._pairs

    def _pair_of(self, couple: Couple, state: "ClusterState") -> Pair | None:
        """The pair, noted when it is first seen; ``None`` when no pack has put them there."""
        pairs = self._open()
        if couple in pairs or couple in self._strange:
            return pairs.get(couple)
        if not set(couple) <= set(state.placements):
            return None  # the register is newer than the look
        # Who was there and who came, by the journal's newest moves.
        moved = {job: self._moved(job) for job in couple}
        stayed = [job for job, deed in moved.items() if deed is False]
        came = [job for job, deed in moved.items() if deed is True]
        roles = (stayed[0], came[0]) if len(stayed) == len(came) == 1 else None
        if roles is None:
            self._strange.add(couple)
            return None
        host, guest = roles
        model = state.gpus[state.placements[host].gpus[0]].model
        if model is None:
            return None
        names = profile_of(state.jobs[host]), profile_of(state.jobs[guest])
        learnt = experience_of(pairs.values()).get(model) or Experience(gpu_model=model)
        pair = Pair(
            host=host,
            guest=guest,
            host_profile=names[0],
            guest_profile=names[1],
            gpu_model=model,
            alone=(self._alone.get(host), self._alone.get(guest)),
            expected_gain=expected_gain(*names, learnt, PAIRING),
        )
        self._book.open(pair)
        pairs[couple] = pair
        return pair

    def _moved(self, job: JobId) -> bool | None:
        """Whether its newest pack took it to another GPU; ``None`` when it was never packed.

        One that is not settled yet was carried out all the same: they are together, by the register.
        """
        for deed in self._journal.deeds(0, job=job):
            step, before, settled = deed.step, deed.stood, deed.result in (Result.DONE, None)
            if isinstance(step, Move) and step.action is ActionClass.PACK and before is not None and settled:
                return step.gpus != before.gpus
        return None

    def _see_to(self, pair: Pair, cycle: "Cycle") -> None:
        host = beside(self._tracks.get(pair.host), pair.guest, pair.alone[0])
        guest = beside(self._tracks.get(pair.guest), pair.host, pair.alone[1])
        noted = replace(pair, undone=pair.undone or too_slow(host, PAIRING))
        after = tried(noted, host, guest, PAIRING)
        if after != pair:
            self._book.settle(after)
            self._open()[min(pair.host, pair.guest), max(pair.host, pair.guest)] = after
        if after.undone and cycle.halt is None and self._may(pair.host, cycle.state):
            self._part(after, host, cycle.state)

    def _may(self, id: JobId, state: "ClusterState") -> bool:
        """Whether packing is anything that Fallow does here: what it did not do it does not undo."""
        job = state.jobs.get(id)
        if job is None:
            return False
        mode = self._limits.mode_for(ActionClass.PACK, job.project, state.projects)
        return mode in (Mode.AUTO, Mode.ASK)

    def _part(self, pair: Pair, host: Sequence[float], state: "ClusterState") -> None:
        speed = f"at {text.percent(host[-1])} of its own speed" if host else "too slow"
        reason = f"{pair.host} runs {speed} beside {pair.guest}, so they are parted"
        for step in parting(state, pair, self._register.entries(), reason):
            if not self._do(step):
                return

    def _restore(
        self, now: Mapping[JobId, Way], state: "ClusterState", entries: "Mapping[JobId, JobRecord]"
    ) -> None:
        """Give all of its GPU again to who has nobody beside it any more.

        The host of a pair that was parted at once; others, whose neighbour ended or never came, after their
        rest, and where they are slower for it: it takes a restart.
        """
        counts = Counter(uuid for each in entries.values() for uuid in leased(each))
        parted = {pair.host: pair.guest for pair in self._open().values() if pair.undone}
        for id, way in now.items():
            entry = entries.get(id)
            if entry is None or way.beside or entry.gpus != way.gpus or not is_short(entry):
                continue
            if any(counts[uuid] != 1 for uuid in entry.gpus) or not self._may(id, state):
                continue
            if id in parted:
                self._do(unshared_move(entry, f"{parted[id]} has left it"))
            elif self._has_rested(entry) and misses(self._tracks.get(id), self._alone.get(id), PAIRING):
                self._tried_ms[id] = self._clock.now_ms()
                why = "nobody is beside it any more, and it has only a part of its GPU"
                self._do(unshared_move(entry, why))

    def _has_rested(self, entry: "JobRecord") -> bool:
        """Whether it may be disturbed again, as any job."""
        now_ms = self._clock.now_ms()
        acted_ms = max(entry.acted_ms or 0, self._tried_ms.get(entry.id, 0))
        rested_ms = acted_ms + self._limits.cooldown_s * 1000
        return now_ms >= max(rested_ms, entry.keep_until_ms or 0)

    def _do(self, step: Action) -> bool:
        """Write it down and do it, unless acting is stopped; whether it is done. A late one goes on alone."""
        if self._halted() is not None:
            return False
        intent = self._journal.intends(self._clock.now_ms(), step)
        outcome = self._engine.do(step, intent)
        self._journal.came_of(self._clock.now_ms(), intent, outcome)
        if not isinstance(outcome, Done):
            log.info("%s of %s is not done yet: %s", verb_of(step), step.job, outcome)
        return isinstance(outcome, Done)
