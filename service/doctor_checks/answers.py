"""What each source of a running service answered last: how many GPUs are measured, what is silent, and why.

The service is asked, not its sources: it reads what it was started with, as whom it runs, and that may be
other than what a configuration says or this account may read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from analytics import text
from service.doctor_checks.results import Finding, Verdict
from service.health.components import SOURCE_PREFIX, ComponentState

if TYPE_CHECKING:
    from service.client import Client
    from service.schemas.rows import GapsRow
    from service.schemas.service import ComponentHealth, Health

OWN_SOURCES = frozenset({"leases"})
"""What Fallow itself gave out: told only where it can't be read."""
MOST_REASONS = 3
RECENT = timedelta(minutes=10)
"""A gap that lasts began before now, and reaches the newest tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAnswer:
    """One source: its name, whether it was read, and every reason why a part of it was not."""

    name: str
    is_read: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What a service measures now. ``gpus`` it knows, ``measured`` are those of them that have a state."""

    gpus: float
    measured: float
    sources: tuple[SourceAnswer, ...]


def answers_of(client: "Client") -> Answers:
    """What the sources of a running service answered last. Blocks. Raises ``ClientError``."""
    health = client.health()
    now = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    clusters = client.rows("cluster_now")
    gaps = client.rows("gaps", from_ts=now - RECENT, to_ts=now + timedelta(days=1))
    cluster = clusters[0] if clusters else None
    gpus = 0.0 if cluster is None else float(cluster["gpus"] or 0.0)
    unknown = 0.0 if cluster is None else float(cluster["unknown_gpus"] or 0.0)
    components = [each for each in health.components if each.name.startswith(SOURCE_PREFIX)]
    newest = max((gap["to_ts"] for gap in gaps), default="")
    lasting = [gap for gap in gaps if gap["to_ts"] == newest and gap["to_ts"] >= _last_tick(health)]
    return Answers(gpus=gpus, measured=gpus - unknown, sources=tuple(_sources(components, lasting)))


def lines(answers: Answers) -> list[str]:
    """The same in words: what each source answered, then how many GPUs are measured. Pure."""
    lines_of_answer = []
    for source in answers.sources:
        listing = "; ".join(source.reasons[:MOST_REASONS])
        more = len(source.reasons) - MOST_REASONS
        also = f"; and {more} more" if more > 0 else ""
        lines_of_answer.append(f"{source.name}: {listing or 'answers'}{also}")
    if answers.measured == answers.gpus:
        return [*lines_of_answer, f"{text.some_gpus(answers.gpus)} measured"]
    return [*lines_of_answer, f"{text.gpus(answers.measured)} of {text.some_gpus(answers.gpus)} measured"]


def findings(answers: Answers) -> Iterator[Finding]:
    """A row of ``fallow doctor`` for each source. Pure."""
    for source in answers.sources:
        verdict = (
            Verdict.TROUBLE if not source.is_read else Verdict.LIMITED if source.reasons else Verdict.GOOD
        )
        yield Finding(
            subject=source.name, verdict=verdict, found="; ".join(source.reasons) or "the service reads it"
        )
    silent = answers.gpus and not answers.measured
    yield Finding(
        subject="measured",
        verdict=Verdict.TROUBLE if silent or not answers.gpus else Verdict.GOOD,
        found=lines(answers)[-1],
    )


def _last_tick(health: "Health") -> str:
    """The newest tick as rows write it; a gap that ended before it is over."""
    at_ms = health.last_tick_ms
    if at_ms is None:
        return ""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")[:19]


def _sources(components: "Sequence[ComponentHealth]", gaps: "Sequence[GapsRow]") -> Iterator[SourceAnswer]:
    for each in components:
        name = each.name.removeprefix(SOURCE_PREFIX)
        state = ComponentState(each.state)
        of_gaps = (str(gap["reason"]) for gap in gaps if gap["source"] == name)
        reasons = tuple(dict.fromkeys([*([each.reason] if each.reason else []), *of_gaps]))
        is_read = state is ComponentState.OK or (state is ComponentState.STARTING and not reasons)
        if name in OWN_SOURCES and is_read and not reasons:
            continue
        yield SourceAnswer(name=name, is_read=is_read, reasons=reasons)
