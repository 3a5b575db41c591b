"""Reads the recent past of every GPU that is installed at an instant, by named queries, the costly parts of
it only where something may be found. No clock. Blocks while it reads; judges nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from analytics.bin_table import bins_by_gpu
from analytics.findings.unproven import LASTS_S
from analytics.findings.window import newest, stale
from analytics.model import BIN_MS, Bins, Claim, GpuPast, Intruder, Onset, UnprovenClaim
from analytics.power_falls import with_power_falls
from analytics.query import Connection, run
from analytics.rhythm import with_rhythm
from analytics.sharing import with_own_bins
from analytics.thresholds import IDLE_RATIO, Thresholds
from collector.model import Basis, Holder, JobId, JobKind

MINUTE_MS = 60_000
DAY_MS = 86_400_000
REACH_MS = 30 * DAY_MS
"""How far back a holder's use is looked for; a job that never computed in a month may be told so."""
LATELY_BINS = 600_000 // BIN_MS
"""Ten minutes: a crash loop computes for a moment at each try, and waits five minutes at most between two."""
Row = Mapping[str, Any]
Claims = Mapping[int, list[Claim]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When is judged, over the bins of ``[from_ms, end_ms)``, and how often sources are read.

    ``now_ms`` says who holds what, ``seen_ms`` up to when samples count: 1 ms more at the end of a hold.
    """

    now_ms: int
    seen_ms: int
    from_ms: int
    end_ms: int
    tick_ms: int


def read_pasts(
    connection: Connection,
    at: Moment,
    t: Thresholds,
    jobs: Collection[str] | None = None,
    held_at: Callable[[int], Claims] | None = None,
) -> list[GpuPast]:
    """Every installed GPU's past, the costly parts of it only where something may be found.

    ``jobs``: only GPUs that these hold, and those that are silent while nobody is known to hold them.
    ``held_at``: ``claims_at`` of this connection, where it remembers what was asked before.
    """
    held_at = held_at or partial(claims_at, connection)
    now_ms, end_ms = at.now_ms, at.end_ms
    window = {"bins_from": at.from_ms, "bins_to": end_ms, "as_of": at.seen_ms}
    gpus = run(connection, "assess_gpus", {"as_of": now_ms, "bins_from": at.from_ms}).to_pylist()
    claims = held_at(now_ms)
    known = {row["gpu_id"]: _past(row, Bins(end_ms=end_ms), claims.get(row["gpu_id"], ())) for row in gpus}
    fresh = {gpu_id for gpu_id, past in known.items() if stale(past, now_ms, t, at.tick_ms) is None}
    wanted = known
    if jobs is not None:
        wanted = {
            gpu_id: past
            for gpu_id, past in known.items()
            if any(each.holder.job in jobs for each in past.claims)
            or (gpu_id not in fresh and not past.claims)
        }
    plain = _measured(connection, at, window, wanted)
    used = with_rhythm(connection, now_ms, _with_use(connection, now_ms, plain, t), t)
    used = with_power_falls(connection, now_ms, with_own_bins(connection, window, used), t)
    onsets = _onsets(connection, now_ms, used, t)
    whole = {
        gpu_id: replace(past, onset=onsets.get(gpu_id), siblings_fresh=_siblings_fresh(gpu_id, known, fresh))
        for gpu_id, past in used.items()
    }
    return list(_with_last_claims(held_at, whole, fresh).values())


def _measured(
    connection: Connection, at: Moment, window: Mapping[str, int], pasts: Mapping[int, GpuPast]
) -> dict[int, GpuPast]:
    """The pasts with their bins, with the strangers on them and with unproven claims."""
    table = run(connection, "assess_bins", {**window, "gpu_ids": list(pasts)})
    bins = bins_by_gpu(table, at.end_ms, (at.end_ms - at.from_ms) // BIN_MS)
    asked = {"as_of": at.now_ms, "bins_from": at.from_ms}
    strangers = _intruders(run(connection, "assess_intruders", asked).to_pylist())
    unproven = _unproven(connection, at.now_ms)
    return {
        gpu_id: replace(
            past,
            bins=bins.get(gpu_id, past.bins),
            intruders=tuple(strangers[gpu_id]),
            unproven=tuple(unproven[gpu_id]),
        )
        for gpu_id, past in pasts.items()
    }


def holder_of(row: Row) -> Holder:
    """The holder that a row of a query names."""
    return Holder(
        job=JobId(row["job"]),
        user=row["user_name"],
        project=row["project"],
        name=row["job_name"],
        kind=None if row["kind"] is None else JobKind(row["kind"]),
        framework=row["framework"],
        command=row.get("command"),
    )


def _with_last_claims(
    held_at: Callable[[int], Claims], pasts: dict[int, GpuPast], fresh: set[int]
) -> dict[int, GpuPast]:
    """Who held the GPUs that fell off: where the holder is told by the GPU's own lines, both end together."""
    fallen = {
        gpu_id: past.newest_ms
        for gpu_id, past in pasts.items()
        if gpu_id not in fresh and not past.claims and past.newest_ms is not None
        if past.siblings_fresh or past.lost_ms is not None
    }
    return pasts | {
        gpu_id: replace(pasts[gpu_id], last_claims=tuple(held_at(at_ms).get(gpu_id, ())))
        for gpu_id, at_ms in fallen.items()
    }


def _past(row: Row, bins: Bins, claims: Iterable[Claim]) -> GpuPast:
    return GpuPast(
        uuid=row["uuid"],
        node=row["node"],
        gpu_index=row["gpu_index"],
        gpu_place=row["gpu_place"],
        model=row["model"],
        mig_profile=row["mig_profile"],
        share_of_device=row["share_of_device"],
        memory_total_bytes=row["memory_total_bytes"],
        memory_free_bytes=row["memory_free_bytes"],
        idle_power_mw=row["idle_power_mw"],
        power_limit_mw=row["power_limit_mw"],
        installed_from_ms=row["installed_from_ms"],
        newest_ms=row["newest_ms"],
        newest_width_ms=row["newest_width_ms"],
        rung=Basis(row["rung"]),
        bins=bins,
        claims=tuple(claims),
        lost_ms=row["lost_ms"],
        falls=row["falls"],
        is_off_the_bus=row["is_off_the_bus"],
        xid=row["xid"],
        xid_ms=row["xid_ms"],
        ecc_errors=row["ecc_errors"],
    )


def claims_at(connection: Connection, at_ms: int) -> Claims:
    """Who holds which GPU at an instant, UTC ms, by the GPU's number in the store."""
    claims: dict[int, list[Claim]] = defaultdict(list)
    for row in run(connection, "assess_claims", {"as_of": at_ms}).to_pylist():
        claims[row["gpu_id"]].append(
            Claim(
                holder=holder_of(row),
                share=row["share"],
                from_ms=row["from_ms"],
                holder_id=row["holder_id"],
                suspended=bool(row["is_suspended"]),
            )
        )
    return claims


def _intruders(rows: list[Row]) -> Mapping[int, list[Intruder]]:
    found: dict[int, list[Intruder]] = defaultdict(list)
    for row in rows:
        found[row["gpu_id"]].append(
            Intruder(
                pid=row["pid"],
                from_ms=row["from_ms"],
                to_ms=row["to_ms"],
                user=row["user_name"],
                uid=row["uid"],
                name=row["process_name"],
                command=row["command"],
                memory_used_bytes=row["memory_used_bytes"],
                sm_ratio=row["sm_ratio"],
            )
        )
    return found


def _unproven(connection: Connection, now_ms: int) -> Mapping[int, list[UnprovenClaim]]:
    found: dict[int, list[UnprovenClaim]] = defaultdict(list)
    asked = {"since_ts": now_ms - LASTS_S * 1000, "as_of": now_ms}
    for row in run(connection, "assess_unproven_claims", asked).to_pylist():
        found[row["gpu_id"]].append(
            UnprovenClaim(
                job=row["job"],
                user=row["user_name"],
                from_ms=row["from_ms"],
                last_ms=row["last_ms"],
                why=row["why"],
            )
        )
    return found


def _with_use(
    connection: Connection, now_ms: int, pasts: Mapping[int, GpuPast], t: Thresholds
) -> dict[int, GpuPast]:
    """The pasts with the holders' use filled in, for GPUs that look idle or full of memory."""
    wanted = {gpu_id for gpu_id, past in pasts.items() if past.claims and _needs_use(past, t)}
    if not wanted:
        return dict(pasts)
    earliest = min(claim.from_ms for gpu_id in wanted for claim in pasts[gpu_id].claims)
    use_from = max(earliest, now_ms - REACH_MS) // MINUTE_MS * MINUTE_MS
    asked = {"as_of": now_ms, "use_from": use_from, "gpu_ids": sorted(wanted)}
    use = {(row["gpu_id"], row["holder_id"]): row for row in run(connection, "assess_use", asked).to_pylist()}
    return {
        gpu_id: replace(
            past, claims=tuple(_used(claim, use.get((gpu_id, claim.holder_id))) for claim in past.claims)
        )
        for gpu_id, past in pasts.items()
    }


def _needs_use(past: GpuPast, t: Thresholds) -> bool:
    """Shared or intruded upon, idle now or lately, or full: the roll-ups are asked about these alone."""
    if len(past.claims) > 1 or past.intruders:
        return True
    recent = [busy for busy in past.bins.busiest[-LATELY_BINS:] if busy is not None]
    return newest(past.bins.busiest) is None or min(recent, default=0.0) <= IDLE_RATIO or _is_full(past, t)


def _is_full(past: GpuPast, t: Thresholds) -> bool:
    held = newest(past.bins.memory_bytes) or 0
    return held >= t.hog_memory_ratio * (past.memory_total_bytes or float("inf"))


def _used(claim: Claim, row: Row | None) -> Claim:
    if row is None:
        return claim
    return replace(
        claim,
        first_used_ms=row["first_used_ms"],
        busy_until_ms=row["busy_until_ms"],
        process_started_ms=row["process_started_ms"],
        idle_gpu_hours=row["idle_gpu_hours"],
        processes_started=row["processes_started"],
        process_arrivals=row["process_arrivals"],
        longest_life_ms=row["longest_life_ms"],
        listening_unknown=row["listening_unknown"],
    )


def _onsets(
    connection: Connection, now_ms: int, pasts: Mapping[int, GpuPast], t: Thresholds
) -> dict[int, Onset]:
    """How memory rose, for full GPUs whose holder came within the last day."""
    since_ms = now_ms - DAY_MS
    full = sorted(
        gpu_id
        for gpu_id, past in pasts.items()
        if len(past.claims) == 1 and past.claims[0].from_ms >= since_ms and _is_full(past, t)
    )
    if not full:
        return {}
    asked = {
        "as_of": now_ms,
        "samples_from": min(pasts[gpu_id].claims[0].from_ms for gpu_id in full),
        "gpu_ids": full,
        "full_ratio": t.signature_memory_ratio,
        "flat_ratio": t.signature_flat_ratio,
    }
    return {
        row["gpu_id"]: Onset(
            first_used_ms=row["first_used_ms"], full_after_ms=row["full_after_ms"], flat=row["flat"]
        )
        for row in run(connection, "assess_onset", asked).to_pylist()
    }


def _siblings_fresh(gpu_id: int, pasts: Mapping[int, GpuPast], fresh: set[int]) -> bool | None:
    if gpu_id in fresh:
        return None
    node = pasts[gpu_id].node
    others = [other for other, past in pasts.items() if past.node == node and other != gpu_id]
    return any(other in fresh for other in others) if others else None
