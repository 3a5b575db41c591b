"""Words of pages and reports: a point of time, a GPU's name, what is held now, what a flag means.

How a number with a unit reads is ``analytics.text``'s to say.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from analytics import text
from analytics.vocabulary.findings import title_of_kind, words_of_kind
from analytics.vocabulary.states import GpuState, label_of
from collector.gpu_place import name_within
from service.durations import STALE_S
from service.energy import Energy, used, wasted
from service.schemas.values import as_text

if TYPE_CHECKING:
    from service.schemas.rows import ClusterNowRecord


GAP = "\u00a0"
"""Between GPU and its number: a name is not broken."""
DOUBTS: Mapping[str, str] = {
    "uses-of-another-namespace": "The driver told of use by pids that are not listed here, as it does in a "
    "container: no process has a share of the GPU's time.",
    "uses-by-mps-server": "CUDA's multi-process service runs these: the driver tells of its server's use "
    "alone, so its clients have no share of the GPU's time.",
    "pids-of-another-namespace": "The driver lists processes of another pid namespace: they are counted, and "
    "named nobody.",
    "none-of-own-namespace-listed": "The driver lists this container's processes alone, and none of them "
    "is on this GPU: whether others hold it is not known.",
    "process-memory-above-board": "One of them has more memory than the GPU: CUDA manages it and keeps a "
    "part elsewhere; how much is on the GPU is not known.",
    "process-list-of-unseen-pids": "The driver lists processes that nobody sees here, and the GPU is in use, "
    "or too little is told of them: who is on it is not known.",
    "gone-process-listed": "One of the processes that the driver listed exists no more; it is left out.",
    "process-shares-scaled": "The driver's shares added up to more than the GPU did; they are scaled down.",
    "processes-by-mig-instance": "A MIG instance tells no process's share of its time.",
}
"""What a collector's flags about processes mean to a reader; docs/flags.md says what is made of each."""


def activity(utilization: float | None, engines: float | None) -> float | None:
    """What the busiest part of a GPU of ``gpus_now`` does: the SMs, or a video engine beside them."""
    ratios = [ratio for ratio in (text.known(utilization), text.known(engines)) if ratio is not None]
    return max(ratios, default=None)


AT_MOST, AT_LEAST = "≤", "≥"
LEAST_BOUND_HOURS = 0.05
"""Fewer GPU-hours show as 0.0."""


def at_most(sentence: str, bound: float | None) -> str:
    """A ``sentence`` about use, marked where ``bound`` hours (or GPUs) rest on GPU utilization alone."""
    return f"{AT_MOST}{sentence}" if is_bound(bound) else sentence


def is_bound(bound: float | None) -> bool:
    """Whether so many GPU-hours (or GPUs) are to be told as an upper bound; an older service tells none."""
    return (text.known(bound) or 0.0) >= LEAST_BOUND_HOURS


def at_least(bound: float | None) -> str:
    """Before hours at low saturation, which is not seen where use rests on GPU utilization alone."""
    return "at least " if is_bound(bound) else ""


def upper_bound(gpu_hours: float | None = None, of: str = "the use") -> str:
    """What a reader must know of use that rests on GPU utilization alone; of how much, where that is told."""
    part = f"Some of {of} rests" if gpu_hours is None else f"{text.gpu_hours(gpu_hours)} of {of} rest"
    return (
        f"{part} on GPU utilization alone, the time in which any kernel ran: an upper bound ({AT_MOST}), and "
        "low saturation is not seen there."
    )


def bounds(rows: Iterable[Mapping[str, float | None]]) -> str:
    """The same of the use in rows of ``people`` or a ledger, after a space; nothing where there is none."""
    hours = sum(text.known(row.get("bound_used_gpu_hours")) or 0.0 for row in rows)
    return f" {upper_bound(hours)}" if is_bound(hours) else ""


def state_shown(state: str | None, rhythm: str | None) -> str | None:
    """What a GPU of ``gpus_now`` is shown as: how it is used, where known; else its state of this tick.

    An older service tells no rhythm.
    """
    return state if text.missing(rhythm) else rhythm


def state_label(state: str | None, rhythm: str | None) -> str:
    """The same in words."""
    return label_of(state) if rhythm is None or text.missing(rhythm) else title_of_kind(rhythm).lower()


def state_coloured(state: str | None, rhythm: str | None) -> str | None:
    """The state whose colour it has: a kind's is that of the state which it resembles."""
    words = None if rhythm is None or text.missing(rhythm) else words_of_kind(rhythm)
    return state if words is None else words.like


def copies(ratio: float | None) -> str | None:
    """What a GPU of ``gpus_now`` does that copies, as far as it is told; else ``None``."""
    value = text.known(ratio)
    return (
        None
        if value is None
        else f"copies, does not compute: its memory is read or written {text.percent(value)} of the time"
    )


def measured_part(what: str, energy: Energy) -> str:
    """What an energy is called where it stands alone, with the part of its hours that was measured."""
    part = energy.partly_of
    return what if part is None else f"{what}, of {text.percent(part)} of hours"


def is_silent(row: Mapping[str, object]) -> bool:
    """Whether nothing has come of a GPU since its newest sample; a row of ``gpus_now``."""
    at = row["as_of"]
    return row["state"] == GpuState.UNKNOWN and not text.missing(at) and bool(row["state_since"] == at)


def held_now(row: "ClusterNowRecord", now: datetime) -> str:
    """The row of ``cluster_now`` in a sentence, which says how long ago it was if that is past."""
    gpus, idle = text.gpus(row["held_gpus"]), text.gpus(row["idle_held_gpus"])
    rare = row.get("rarely_used_gpus")
    rarely = "" if text.missing(rare) or not rare else f", {text.gpus(rare)} rarely used"
    withheld = row.get("withheld_gpus") or 0
    at = row["as_of"]
    age_s = 0.0 if at is None or text.missing(at) else (now - text.aware(at)).total_seconds()
    if age_s > STALE_S:
        more = f"; {text.gpus_were(withheld)} withheld" if withheld else ""
        sentence = f"{text.length(age_s)} ago {gpus} of {text.some_gpus(row['gpus'])}"
        were = "was" if gpus == "1" else "were"
        return f"{sentence} {were} held, {idle} of them did nothing{rarely}{more}; now is unknown"
    are, do = "is" if gpus == "1" else "are", "does" if idle == "1" else "do"
    more = f"; {text.gpus(withheld)} {'is' if withheld == 1 else 'are'} withheld" if withheld else ""
    return (
        f"{gpus} of {text.some_gpus(row['gpus'])} {are} held now, {idle} of them {do} nothing{rarely}{more}"
    )


def energy_measured(rows: Sequence[Mapping[str, object]]) -> str:
    """Behind a table with energy: of how much of the time it is known, where that is not all of it."""
    parts = [
        f"{text.percent(each.partly_of)} of the {which}"
        for each, which in ((used(rows), "hours"), (wasted(rows), "wasted ones"))
        if each.partly_of is not None
    ]
    return f" Energy was measured in {' and in '.join(parts)}." if parts else ""


def moment(at: datetime | None, zone: tzinfo = UTC) -> str:
    """A point in time in ``zone``: "21 Nov 09:30"; times without a zone are UTC."""
    if text.missing(at) or at is None:
        return text.NOTHING
    return text.whole(text.aware(at)).astimezone(zone).strftime("%d %b %H:%M").lstrip("0")


def so_far(measured_to: datetime | None, now: datetime, when: Callable[[datetime], str]) -> str:
    """Until when a hold without an end is known to last; ``when`` writes a time."""
    if measured_to is None or text.missing(measured_to):
        return "now"
    if (now - text.aware(measured_to)).total_seconds() <= STALE_S:
        return "now"
    return f"{when(measured_to)} or later: none of its GPUs was measured after that"


def localized(sentence: str, zone: tzinfo = UTC) -> str:
    """A stored sentence, which speaks in UTC, with its times as the rest of the screen writes them."""
    return text.localized(sentence, lambda at: moment(at, zone))


def when_to_do(*, is_over: bool) -> str:
    """How what helps is begun: of a finding that is over nothing is left to do but in a next run."""
    return "Next time" if is_over else "To do"


def in_a_spreadsheet(value: object) -> object:
    """Text that a spreadsheet would take for a formula is marked as text (CSV injection, OWASP)."""
    return as_text(value) if isinstance(value, str) else value


def short_gpu(node: str | None, place: str | None, uuid: str | None) -> str:
    """A GPU as people say it: "node03 · GPU 5", "node03 · GPU 0/1g.10gb#7"; by UUID where it has no index.

    ``place`` is what it is called on its node, the column ``gpu_place``.
    """
    if text.missing(place):
        return f"{node or 'unknown node'} · {name_within(node, uuid or '')}"
    return f"{node or 'unknown node'} · GPU{GAP}{place}"


def doubts(flags: object) -> tuple[str, ...]:
    """Sentences for what was odd when a GPU's processes were looked at; what readers need no word for is left
    out. ``flags`` as `processes_now` has them, comma-separated or missing."""
    names = () if text.missing(flags) else tuple(each.strip() for each in str(flags).split(","))
    return tuple(DOUBTS[each] for each in names if each in DOUBTS)
