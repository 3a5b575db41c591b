"""From a change of a case to letters: who gets a word, what it says, and when it goes out. Pure.

A letter goes out at once, or is *gathered*: kept for the receiver's working hours to begin, or, when it is
above the bound or of a kind that the receiver wants gathered, for the next digest. Gathered letters of one
receiver that fall due together are one message (``service.alerts.messages``).

Many letters to one receiver as one: a digest. Pure.

What was gathered is told case by case by its newest word; a case that came and went meanwhile is one line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from urllib.parse import quote
from zoneinfo import ZoneInfo

from analytics import text
from analytics.vocabulary.alerts import ALERTS, Page
from service.alerts.model import EVENTS, AlertKind, Change, Condition, Incident, Turn, kinds_of
from service.alerts.receivers import is_working, next_digest, next_hours
from service.config.alerting import EVERYTHING, AlertsConfig, ReceiverConfig
from service.config.telling import DeliveryConfig
from service.notify.dialects import uncalled
from service.notify.message import receiver_of
from service.printable import OUR_SPACES, on_a_line, unlinked

OWNERS_KINDS = frozenset(kind for kind, words in ALERTS.items() if words.to_owner)
PROJECT_KINDS = OWNERS_KINDS
FALLEN = "falling"
GIVEN = "given_gpu_hours"
"""The evidence of a job's end by which who wants to hear of it is chosen."""
USER, PROJECT, OPERATOR = "user", "project", "to"
MOST_CHARS = 4_000
"""Names and commands in a text can be as long as somebody likes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Somebody who is told: a user, a project, or one of the operators' routes or addresses."""

    role: str
    name: str

    @property
    def id(self) -> str:
        """As it is kept: ``user:ada``, ``project:vision``, ``to:ops``."""
        return f"{self.role}:{self.name}"

    @classmethod
    def of(cls, id: str) -> "Receiver":
        """What ``id`` wrote."""
        role, _, name = id.partition(":")
        return cls(role=role, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """It goes out at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """It is kept until then."""

    due_ms: int


Moment = Now | Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """A word about a case to one receiver; ``number`` is given when it is kept.

    ``due_ms`` is when it goes out, ``gathered`` whether with others. ``telling``: the ladder waits for it to
    arrive, as the telling of the job's owner.
    """

    receiver: Receiver
    case: int
    opened_ms: int
    turn: str
    kind: AlertKind
    title: str
    text: str
    made_ms: int
    due_ms: int
    gathered: bool
    telling: str | None = None
    number: int = 0


def letters_of(
    change: Change,
    at_ms: int,
    rules: tuple[AlertsConfig, DeliveryConfig],
    recipients: Iterable[Receiver],
    lately: Mapping[str, int],
) -> Iterator[AlertMessage]:
    """The letters of one change; none where it is worth no word.

    ``recipients`` got a word of this case before: they are told that it is over. ``lately`` counts the
    letters that went to each receiver by itself within the hour.
    """
    if not change.word:
        return
    config, delivery = rules
    condition = change.case.condition
    receivers = tuple(recipients) if change.turn is Turn.CLOSED else audience(condition, config, delivery)
    for receiver in receivers:
        wishes = wishes_of(receiver, config, delivery)
        kinds = [kind for kind in kinds_of(condition) if not wishes.kinds or kind in wishes.kinds]
        if not kinds:
            continue
        moment = when(_most_pressing(kinds, wishes), wishes, at_ms, lately.get(receiver.id, 0))
        yield AlertMessage(
            receiver=receiver,
            case=change.case.number,
            opened_ms=change.case.opened_ms,
            turn=change.turn.value,
            kind=condition.kind,
            title=title_of(change.case, change.turn),
            text=text_of(change.case, change.turn, wishes, config.dashboard_url),
            made_ms=at_ms,
            due_ms=at_ms if isinstance(moment, Now) else moment.due_ms,
            gathered=isinstance(moment, Digest),
        )


def _most_pressing(kinds: Sequence[str], wishes: ReceiverConfig) -> AlertKind:
    """Of a case's kinds the one by which it is decided when a receiver hears of it."""
    return AlertKind(min(kinds, key=lambda kind: (kind not in wishes.urgent, kind in wishes.gather)))


def audience(condition: Condition, config: AlertsConfig, delivery: DeliveryConfig) -> tuple[Receiver, ...]:
    """Who is told of it: the owner and the project where it is theirs, and the operators."""
    receivers: list[Receiver] = []
    theirs = condition.kind in OWNERS_KINDS or condition.rung == FALLEN
    if config.owners and theirs and not condition.by_ladder and is_reachable(condition.user, delivery):
        receivers.append(Receiver(role=USER, name=condition.user or ""))
    if config.owners and condition.kind in PROJECT_KINDS and (condition.project or "") in delivery.projects:
        receivers.append(Receiver(role=PROJECT, name=condition.project or ""))
    receivers += [Receiver(role=OPERATOR, name=each) for each in config.to]
    if condition.kind is AlertKind.JOB_ENDED:
        return tuple(each for each in receivers if _asked_for_ends(each, condition, config, delivery))
    return tuple(receivers)


def _asked_for_ends(
    receiver: Receiver, condition: Condition, config: AlertsConfig, delivery: DeliveryConfig
) -> bool:
    """Whether a receiver wants a message at the end of a job of this size; others than owners ask by name."""
    own = wishes_of(receiver, config, delivery).ended_gpu_hours
    if receiver.role == USER:
        least = own or config.ended_gpu_hours
    else:
        names = (receiver.name, goes_to(receiver, delivery))
        least = own if any(name in config.by_receiver for name in names) else 0.0
    value = next((each.value for each in condition.evidence if each.name == GIVEN), None)
    return least > 0 and isinstance(value, int | float) and value >= least


def is_reachable(user: str | None, delivery: DeliveryConfig) -> bool:
    """Whether the configuration has an address for a person."""
    return user is not None and receiver_of(user, delivery) is not None


def goes_to(receiver: Receiver, delivery: DeliveryConfig) -> str | None:
    """The route or address of a receiver; ``None`` where the configuration has none any more."""
    match receiver.role:
        case "user":
            return receiver_of(receiver.name, delivery)
        case "project":
            return delivery.projects.get(receiver.name)
        case _:
            return receiver.name


def wishes_of(receiver: Receiver, config: AlertsConfig, delivery: DeliveryConfig) -> ReceiverConfig:
    """What the receiver wants: by its own name, else by its route's, else what holds for everybody."""
    route = goes_to(receiver, delivery)
    for name in (receiver.name, route, EVERYTHING):
        if name is not None and name in config.by_receiver:
            return config.by_receiver[name]
    return ReceiverConfig()


def when(kind: AlertKind, wishes: ReceiverConfig, at_ms: int, lately: int) -> Moment:
    """When a letter of this kind goes to a receiver that got ``lately`` within the hour."""
    if kind.value in wishes.gather or EVERYTHING in wishes.gather:
        return Digest(due_ms=next_digest(wishes, at_ms))
    if not is_working(wishes, at_ms) and kind.value not in wishes.urgent:
        return Digest(due_ms=next_hours(wishes, at_ms))
    if lately >= wishes.most_per_hour:
        return Digest(due_ms=next_digest(wishes, at_ms))
    return Now()


def title_of(case: Incident, turn: Turn | str) -> str:
    """The subject of a letter."""
    if case.condition.kind in EVENTS:
        return harmless(case.condition.title)
    head = {Turn.OPENED: "", Turn.WORSE: "Worse: ", Turn.UPDATED: "Update: ", Turn.CLOSED: "Over: "}.get(
        Turn(turn), ""
    )
    return f"{head}{harmless(case.condition.title)}"


def text_of(case: Incident, turn: Turn | str, wishes: ReceiverConfig, dashboard_url: str = "") -> str:
    """The words of a letter, times in the receiver's zone; plain text, a paragraph a thought."""
    condition = case.condition
    parts = [harmless(condition.says)]
    if turn == Turn.CLOSED:
        parts = [f"This is over: {harmless(case.because)}.", f"It was said before: {parts[0]}"]
    else:
        parts.append(f"What happens next: {harmless(condition.next)}")
        if condition.evidence:
            facts = "; ".join(
                f"{name} {value}"
                for name, value in (text.evidence(each.name, each.value) for each in condition.evidence)
            )
            parts.append(f"Evidence: {harmless(facts)}.")
        if condition.do:
            parts.append(f"{_intent(condition)} {harmless(condition.do)}")
    if dashboard_url:
        parts.append(link_of(condition, dashboard_url))
    opened = f"{datetime.fromtimestamp(case.opened_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    parts.append(f"Fallow, case {case.number}, opened {opened}.")
    return in_zone("\n\n".join(parts), wishes.zone)


def link_of(condition: Condition, dashboard_url: str) -> str:
    """Where the dashboard shows it."""
    base = dashboard_url.rstrip("/")
    match ALERTS[condition.kind].page:
        case Page.OVERVIEW:
            return f"{base}/"
        case Page.QUEUE:
            return f"{base}/queue"
        case Page.FINDINGS:
            return f"{base}/todo?kind={condition.kind.value}"
        case Page.GPU if condition.gpus:
            return f"{base}/gpu?gpu={quote(condition.gpus[0], safe='')}"
    return f"{base}/jobs?job={quote(condition.job or '', safe='')}"


_STAMP = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b")


def in_zone(text: str, zone: str) -> str:
    """The text with its instants, which are written in UTC, in a zone of people."""
    if zone == "UTC":
        return text

    def moved(match: "re.Match[str]") -> str:
        try:
            at = datetime.fromisoformat(f"{match[1]}+00:00").astimezone(ZoneInfo(zone))
        except (ValueError, OverflowError):  # in a job's name anything may stand
            return match[0]
        return f"{at:%Y-%m-%d %H:%M} {at.tzname()}"

    return _STAMP.sub(moved, text)


def harmless(text: str) -> str:
    """Words in which users' names for their jobs stand: one line, nothing unprintable, no call, no link.

    A job called ``@everyone`` or ``<!channel>`` must not ring a whole chat, nor one called ``http://...``
    lead anybody there.
    """
    plain_spaces = text.translate(dict.fromkeys(map(ord, OUR_SPACES), " "))
    return unlinked(uncalled(on_a_line(plain_spaces, MOST_CHARS)))


def _intent(condition: Condition) -> str:
    return "To keep it:" if condition.do.startswith("fallow keep") else "To look at it:"


MOST = 60
"""So many cases are told in full; of the others only how many there are."""
DIGEST = "digest"


def digest_of(letters: Sequence[AlertMessage], at_ms: int) -> AlertMessage:
    """One letter of all these, which are for one receiver and not none; a single one stays as it is."""
    first = letters[0]
    if len(letters) == 1:
        return replace(first, due_ms=at_ms, gathered=False)
    by_case: dict[int, list[AlertMessage]] = {}
    for letter in letters:
        by_case.setdefault(letter.case, []).append(letter)
    passing = {case for case, words in by_case.items() if _came_and_went(words)}
    open_ones = [words[-1] for case, words in by_case.items() if case not in passing]
    parts = [_head(len(open_ones), len(passing))]
    parts += [f"{place}. {each.title}\n\n{each.text}" for place, each in enumerate(open_ones[:MOST], start=1)]
    if len(open_ones) > MOST:
        parts.append(f"And {len(open_ones) - MOST} more: `fallow alerts` lists all.")
    if passing:
        lines = [f"- {by_case[case][0].title}" for case in list(passing)[:MOST]]
        parts.append("\n".join(("Came and went:", *lines)))
    return replace(
        first,
        case=0,
        turn=DIGEST,
        title=f"{len(by_case)} alerts: {first.title}" if len(by_case) > 1 else first.title,
        text="\n\n".join(parts),
        made_ms=at_ms,
        due_ms=at_ms,
        gathered=False,
        telling=None,
        number=0,
    )


def _came_and_went(words: Sequence[AlertMessage]) -> bool:
    return len(words) > 1 and words[0].turn != Turn.CLOSED and words[-1].turn == Turn.CLOSED


def _head(still: int, passing: int) -> str:
    count = f"{still} case{'' if still == 1 else 's'}"
    return f"{count}, and {passing} that came and went." if passing else f"{count}."
