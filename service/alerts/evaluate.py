"""The alerts of a running service: looks, keeps cases and letters, and hands letters to the outbox.

    look ─► cases (kept with their letters in one commit) ─► due letters ─► outbox ─► what became of them
                                                                                └─► tellings of the ladder

Killed at any point, the next start goes on where the store stands: a letter that is kept and not posted is
posted then; one that was posted and not noted is known to the outbox by its key, and not sent again. Safe
from two threads: the chore's, and that of the acting loop, which tells through ``tell``.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from advisor.engines.notify_owner import Notice, Told
from collector.model import JobId
from service.alerts.ended_jobs import least_gpu_hours
from service.alerts.facts import Facts
from service.alerts.idle import condition_of
from service.alerts.lifecycle import Docket, Watch, after, follow, opened_at_once, unheard
from service.alerts.messages import (
    USER,
    AlertMessage,
    Digest,
    Receiver,
    digest_of,
    goes_to,
    harmless,
    in_zone,
    is_reachable,
    letters_of,
    text_of,
    title_of,
    when,
    wishes_of,
)
from service.alerts.model import AlertKind, Change, Condition, Incident, Patience, Turn
from service.alerts.one_case import asked_keys, at_case, joined
from service.alerts.rules import sight
from service.alerts.store import AlertStore, Kept
from service.config.alerting import AlertsConfig
from service.config.telling import DeliveryConfig
from service.logs import log_event
from service.notify.message import Message, What, receivers
from service.notify.outbox import Outbox

if TYPE_CHECKING:
    from collector.clock import Clock

log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
PATIENCE_S = 5.0
"""So long the acting loop waits for a look that is under way, before it tells without a letter."""
FRESH_MS = 5_000
"""By the machine's clock: what is told of a job may be so old."""
TELLING = "telling"
SIMULATED = "This is about a simulated cluster: its GPUs, people and jobs are invented."


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDependencies:
    """What the alerts stand on. ``clock`` is the calendar of cases, ``machine`` that of the outbox."""

    config: AlertsConfig
    delivery: DeliveryConfig
    book: AlertStore
    outbox: Outbox
    clock: "Clock"
    machine: "Clock"
    facts: Callable[[], Facts]
    simulated: bool = False
    """Whether the cluster is invented: then every message says so."""
    overdue: Callable[[], str | None] = lambda: None
    """What waits for too long to be delivered, in words."""
    delivered: Callable[[str | None], None] = lambda trouble: None
    """Told how each delivery ended: ``None``, or what is wrong with it."""


class AlertEvaluator:
    """One for a service."""

    def __init__(self, ground: AlertDependencies) -> None:
        self._ground = ground
        self._patience = patience_of(ground.config)
        self._docket: Docket | None = None
        self._unheard: frozenset[int] = frozenset()
        self._watch = Watch()
        self._ends_noted = False
        self._recent: tuple[int, Facts] | None = None
        self._lock = threading.Lock()

    def work(self) -> None:
        """Look, then see to the letters. Blocks while it asks and writes. Raises ``StoreError``."""
        try:
            self.look()
        finally:
            try:
                self.deliver()
            except Exception as error:
                self._ground.delivered(f"messages cannot be put on their way: {error}")
                raise
            self._ground.delivered(self._ground.overdue())

    def look(self) -> tuple[Change, ...]:
        """One look at the cluster; what it changed is kept, with its letters, before this returns."""
        self._watch_ends()
        facts = self._ground.facts()
        with self._lock:
            docket = self._current_docket(facts.now_ms)
            evaluation = sight(facts, self._ground.config, asked_keys(docket.open.values()))
            joint = joined(evaluation, docket)
            watch, turned = follow(docket, self._watch, joint, self._patience)
            changes = (*turned, *unheard(docket, joint, self._unheard, turned))
            self._unheard -= {change.case.number for change in changes}
            if changes:
                self._ground.book.keep(changes, self._letters(changes, joint.at_ms), joint.at_ms)
                _log_changes(changes)
            # Only once all is kept: where the store refuses, the next look begins from what stood before.
            self._docket = after(docket, changes, joint.at_ms, self._patience)
            self._watch = watch
        return changes

    def _watch_ends(self) -> None:
        """Once a start: of what ended before messages about that were switched on nobody is told."""
        if self._ends_noted:
            return
        is_on = least_gpu_hours(self._ground.config) is not None
        self._ground.book.watch_ends(is_on, self._ground.clock.now_ms())
        self._ends_noted = True

    def deliver(self) -> None:
        """Gather what is due together, post what is due, and note what became of what was posted."""
        with self._lock:
            now_ms = self._ground.clock.now_ms()
            self._gather(now_ms)
            self._post_due(now_ms)
            for delivery in self._ground.book.due(now_ms):
                if delivery.posted_ms is not None:
                    self._settle(delivery, now_ms)
            for arrival in self._ground.book.arrived():
                self._ground.book.tell_the_ladder(arrival, f"message to {arrival.receiver.name}", now_ms)

    def tell(self, notice: Notice, user: str | None) -> Told:
        """Send the ladder's word to a job's owner; whether it arrived is noted later, on the telling.

        Never raises for a person who cannot be reached; blocks for one commit, and briefly for a look that
        is under way.
        """
        delivery = self._ground.delivery
        if user is None or not self._ground.config.owners or not is_reachable(user, delivery):
            return Told(missed=(f"message: no address of {user or 'the owner'} is configured",))
        # The facts of a moment ago: a cycle that tells many owners looks once.
        at_ms, recent = self._ground.machine.monotonic_ms(), self._recent
        if recent is None or at_ms - recent[0] > FRESH_MS:
            recent = self._recent = (at_ms, self._ground.facts())
        facts = recent[1]
        if not self._lock.acquire(timeout=PATIENCE_S):
            return Told(missed=("message: the alerts are busy",))
        try:
            return self._notify(notice, Receiver(role=USER, name=user), facts)
        finally:
            self._lock.release()

    def _notify(self, notice: Notice, receiver: Receiver, facts: Facts) -> Told:
        book, now_ms = self._ground.book, self._ground.clock.now_ms()
        under_way = book.waiting_tellings(notice.job, receiver)
        if under_way:
            return Told(missed=(f"message: one to {receiver.name} is under way already",))
        docket, condition = self._current_docket(now_ms), _condition(facts, notice.job)
        condition = None if condition is None else at_case(condition, docket)
        case = None if condition is None else opened_at_once(docket, condition, now_ms)
        changes = () if case is None else (Change(case=case, turn=Turn.OPENED, word=False),)
        incident = case if condition is None or case is not None else docket.open[condition.key]
        if incident is not None and condition is not None:
            incident = replace(incident, condition=replace(condition, level=incident.condition.level))
        letter = self._telling(notice, receiver, incident, now_ms)
        book.keep(changes, (letter,), now_ms)
        self._docket = after(docket, changes, now_ms, self._patience)
        if not letter.gathered:
            self._post_due(now_ms)
        sentence = (
            f"kept for {receiver.name}'s hours" if letter.gathered else f"on its way to {receiver.name}"
        )
        return Told(missed=(f"message: {sentence}",))

    def _telling(
        self, notice: Notice, receiver: Receiver, case: Incident | None, now_ms: int
    ) -> AlertMessage:
        config, delivery = self._ground.config, self._ground.delivery
        wishes = wishes_of(receiver, config, delivery)
        lately = self._ground.book.lately(now_ms - HOUR_MS).get(receiver.id, 0)
        moment = when(AlertKind.HELD_IDLE, wishes, now_ms, lately)
        sentence = in_zone(harmless(notice.message), wishes.zone)
        more = "" if case is None else text_of(case, Turn.OPENED, wishes, config.dashboard_url)
        hint = "" if more or not notice.hint else harmless(notice.hint)
        return AlertMessage(
            receiver=receiver,
            case=0 if case is None else case.number,
            opened_ms=now_ms if case is None else case.opened_ms,
            turn=TELLING,
            kind=AlertKind.HELD_IDLE,
            title=f"About your job {notice.job}" if case is None else title_of(case, Turn.OPENED),
            text="\n\n".join(filter(None, (sentence, more, hint))),
            made_ms=now_ms,
            due_ms=moment.due_ms if isinstance(moment, Digest) else now_ms,
            gathered=isinstance(moment, Digest),
            telling=notice.job,
        )

    def _current_docket(self, now_ms: int) -> Docket:
        if self._docket is None:
            book = self._ground.book
            self._docket = book.docket(now_ms - self._patience.quiet_ms)
            numbers = (case.number for case in self._docket.open.values() if case.told_ms is not None)
            self._unheard = frozenset(number for number in numbers if not book.receivers_of(number))
        return self._docket

    def _letters(self, changes: tuple[Change, ...], at_ms: int) -> list[AlertMessage]:
        book, rules = self._ground.book, (self._ground.config, self._ground.delivery)
        lately = book.lately(at_ms - HOUR_MS)
        messages: list[AlertMessage] = []
        for change in changes:
            recipients = book.receivers_of(change.case.number) if change.turn is Turn.CLOSED else ()
            for letter in letters_of(change, at_ms, rules, recipients, lately):
                messages.append(letter)
                if not letter.gathered:
                    lately[letter.receiver.id] = lately.get(letter.receiver.id, 0) + 1
        return messages

    def _gather(self, now_ms: int) -> None:
        """Make one letter of those that are due together, receiver by receiver."""
        waiting: Mapping[str, list[AlertMessage]] = defaultdict(list)
        for delivery in self._ground.book.due(now_ms):
            if delivery.letter.gathered and delivery.posted_ms is None:
                waiting[delivery.letter.receiver.id].append(delivery.letter)
        for letters in waiting.values():
            self._ground.book.gather(letters, digest_of(letters, now_ms))

    def _post_due(self, now_ms: int) -> None:
        for delivery in self._ground.book.due(now_ms):
            if delivery.posted_ms is None and not delivery.letter.gathered:
                self._post(delivery.letter, now_ms)
        self._ground.outbox.push(self._ground.machine.now_ms())

    def _post(self, letter: AlertMessage, now_ms: int) -> None:
        """Into the outbox, once however often this is done, and noted."""
        messages = self._messages(letter)
        if not messages:
            self._ground.book.settled(letter.number, now_ms, "nobody", "no address is configured any more")
            return
        for message in messages:
            self._ground.outbox.post(message)
        self._ground.book.posted(letter.number, now_ms)

    def _settle(self, delivery: Kept, now_ms: int) -> None:
        standings = [self._ground.outbox.standing_of(each.id) for each in self._messages(delivery.letter)]
        states = [None if each is None else each.state for each in standings]
        if What.SENT in states:
            self._ground.book.settled(delivery.letter.number, now_ms, "sent")
        elif all(each is None or each.next_ms is None for each in standings):
            log_event(
                log,
                "message-given-up",
                logging.WARNING,
                to=delivery.letter.receiver.id,
                title=delivery.letter.title,
            )
            why = "; ".join(each.found for each in standings if each is not None) or "its message is gone"
            self._ground.book.settled(delivery.letter.number, now_ms, "given-up", why)

    def _messages(self, letter: AlertMessage) -> tuple[Message, ...]:
        to = goes_to(letter.receiver, self._ground.delivery)
        return tuple(
            Message(
                key=f"alert:{letter.number}:{letter.made_ms}",
                to=each,
                title=f"[Fallow{', SIMULATED' if self._ground.simulated else ''}] {letter.title}",
                text=f"{SIMULATED}\n\n{letter.text}" if self._ground.simulated else letter.text,
                made_ms=self._ground.machine.now_ms(),
            )
            for each in (() if to is None else receivers(to, self._ground.delivery))
        )


def patience_of(config: AlertsConfig) -> Patience:
    """The configured hysteresis and quiet time."""
    return Patience(
        opens_after_ms=config.opens_after_s * 1000,
        closes_after_ms=config.closes_after_s * 1000,
        quiet_ms=config.quiet_s * 1000,
    )


def _log_changes(changes: tuple[Change, ...]) -> None:
    for change in changes:
        condition = change.case.condition
        log_event(
            log,
            f"alert-{change.turn.value}",
            alert=change.case.number,
            kind=condition.kind.value,
            key=condition.key,
            job=condition.job,
            user=condition.user,
            title=condition.title,
        )


def _condition(facts: Facts, id: JobId) -> Condition | None:
    """What is to be said of an idle job now; ``None`` where it is not known to idle on GPUs."""
    job = facts.state.jobs.get(id)
    if job is None or id not in facts.state.placements or job.idle_since_ms is None:
        return None
    return condition_of(facts, job)
