"""The acting half on ``/metrics``: jobs, leases, cycles, actions, refusals, messages. Names and units are
Prometheus's: seconds, bytes, ``_total`` for what only grows while the service runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from advisor.jobs.model import JobRecord, JobState
from collector.metrics_endpoint import COUNTER, Metric, family, single
from collector.model import JobId
from service.control.activity import Counts

if TYPE_CHECKING:
    from advisor.jobs.job_store import Register


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is told at one scrape; ``None`` is not known and left out.

    ``switched_off`` says that the kill switch is thrown. ``undelivered`` are messages that are still to be
    sent, and ``oldest_s`` is how long the oldest has waited. ``connections`` by listener (``socket``,
    ``tcp``), ``refused_requests`` by HTTP status since the start.
    """

    entries: Iterable[JobRecord]
    counts: Counts
    now_ms: int
    switched_off: bool
    last_cycle_s: float | None
    undelivered: int | None
    oldest_s: float | None
    harvested: tuple[float, Mapping[JobId, float]] = (0.0, {})
    """GPU-seconds, and the slowdown of each job that has a background job in its idle gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFacts:
    """The store's and the listeners' part; sizes in bytes."""

    store_bytes: int | None
    wal_bytes: int | None
    connections: Mapping[str, int]
    refused_requests: Mapping[int, int]


def acting_exposition(facts: Facts) -> bytes:
    """Jobs, leases, cycles, actions and messages as Prometheus text."""
    return _text(
        (*_jobs(facts), *_cycles(facts), *_actions(facts.counts), *_messages(facts), *_harvested(facts))
    )


def acting_metrics(
    *,
    register: "Register",
    counts: Callable[[], Counts],
    halt: Callable[[], str | None],
    cycle_s: Callable[[], float | None],
    undelivered: Callable[[], tuple[int, float | None]],
    harvested: Callable[[], tuple[float, Mapping[JobId, float]]],
    now_ms: Callable[[], int],
) -> Callable[[], bytes]:
    """The acting half's part of ``/metrics``, as it is when asked."""

    def metrics() -> bytes:
        count, oldest_s = undelivered()
        facts = Facts(
            entries=register.entries().values(),
            counts=counts(),
            now_ms=now_ms(),
            switched_off=halt() is not None,
            last_cycle_s=cycle_s(),
            undelivered=count,
            oldest_s=oldest_s,
            harvested=harvested(),
        )
        return acting_exposition(facts)

    return metrics


def service_exposition(facts: ServiceFacts) -> bytes:
    """The store and the listeners as Prometheus text."""
    lines: list[str] = []
    if facts.store_bytes is not None:
        lines += single("fallow_store_bytes", "Size of the store's file.", facts.store_bytes)
    if facts.wal_bytes is not None:
        lines += single("fallow_store_wal_bytes", "Size of the store's write-ahead log.", facts.wal_bytes)
    lines += family(
        _metric("fallow_api_connections", "Open connections by listener."),
        (({"listener": name}, count) for name, count in sorted(facts.connections.items())),
    )
    lines += family(
        _metric("fallow_api_refusals_total", "Requests that were refused, by HTTP status.", COUNTER),
        (({"status": str(status)}, count) for status, count in sorted(facts.refused_requests.items())),
    )
    return _text(lines)


def _jobs(facts: Facts) -> Iterator[str]:
    entries = [each for each in facts.entries if each.state is not JobState.ENDED]
    states = Counter(each.state.value for each in entries)
    waiting = [each.submitted_ms for each in entries if each.state is JobState.PENDING]
    leased: dict[str, float] = {}
    for each in entries:
        for uuid in each.gpus:
            leased[uuid] = leased.get(uuid, 0.0) + each.share
    yield from family(
        _metric("fallow_jobs", "Jobs that have not ended, by state; pending ones are the queue."),
        (({"state": state.value}, states[state.value]) for state in JobState if state is not JobState.ENDED),
    )
    oldest_s = max((facts.now_ms - at_ms for at_ms in waiting), default=0) / 1000
    yield from single("fallow_queue_oldest_seconds", "How long the oldest pending job has waited.", oldest_s)
    yield from single("fallow_leases", "Jobs that hold GPUs.", sum(1 for each in entries if each.gpus))
    yield from single("fallow_leased_gpus", "GPUs leased, parts counted as parts.", sum(leased.values()))
    yield from single(
        "fallow_kill_switch", "1 while all acting is stopped by the kill switch.", int(facts.switched_off)
    )


def _cycles(facts: Facts) -> Iterator[str]:
    counts = facts.counts
    if facts.last_cycle_s is not None:
        yield from single("fallow_cycle_seconds", "How long the newest cycle took.", facts.last_cycle_s)
    yield from single(
        "fallow_cycle_seconds_total", "Time that all cycles took.", round(counts.cycle_s, 3), COUNTER
    )
    yield from family(
        _metric("fallow_cycles_total", "Cycles of the acting loop, by outcome.", COUNTER),
        [
            ({"outcome": "ok"}, counts.cycles - counts.failed_cycles),
            ({"outcome": "failed"}, counts.failed_cycles),
        ],
    )


def _actions(counts: Counts) -> Iterator[str]:
    yield from family(
        _metric("fallow_actions_total", "Actions by verb and result.", COUNTER),
        (({"verb": verb, "result": result}, n) for (verb, result), n in sorted(counts.actions.items())),
    )
    yield from single(
        "fallow_actions_in_progress", "Actions whose result is not known yet.", counts.in_progress
    )
    yield from family(
        _metric(
            "fallow_refusals_total",
            "Steps refused or put off, by class of action and rule; counted when that begins.",
            COUNTER,
        ),
        (({"action": action, "rule": rule}, n) for (action, rule), n in sorted(counts.refusals.items())),
    )


def _messages(facts: Facts) -> Iterator[str]:
    if facts.undelivered is not None:
        yield from single(
            "fallow_messages_undelivered", "Messages that are still to be sent.", facts.undelivered
        )
    if facts.oldest_s is not None:
        yield from single(
            "fallow_messages_oldest_seconds", "How long the oldest of those has waited.", facts.oldest_s
        )


def _harvested(facts: Facts) -> Iterator[str]:
    seconds, slowdowns = facts.harvested
    yield from single(
        "fallow_harvested_gpu_seconds_total",
        "GPU time that background jobs made in others' idle gaps; of the stays that the store keeps.",
        round(seconds, 3),
        COUNTER,
    )
    yield from family(
        _metric(
            "fallow_foreground_slowdown_ratio",
            "Step time of a job with a background job in its idle gaps over that of its control steps.",
        ),
        (({"job": job}, ratio) for job, ratio in sorted(slowdowns.items())),
    )


def _metric(name: str, says: str, kind: str = "gauge") -> Metric:
    return Metric(field="", name=name, says=says, kind=kind)


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
