"""Given and not used: held-idle, allocated-empty, and the job that has not computed yet.

The order of the questions is what keeps an innocent job safe. Is it starting? Then nothing is said. Has it
never computed? Then it may be downloading its data, and is excused: a terminal for two hours, others for six.
After that its hours are waste, whatever it may be doing. Any activity within the window is use, however
thin (``analytics.findings.rare`` speaks of that), and so are SMs that work a little in most of its bins.
"""

from analytics import text
from analytics.findings.share import leaves_room
from analytics.findings.window import (
    bins_in,
    copying,
    cover,
    doubt,
    faint_work,
    has_computed,
    known,
    mean,
    newest,
    presence,
    since,
)
from analytics.findings.words import gpu_name, holder_name, measured_of, read_seldom, seldom_ms
from analytics.model import (
    BIN_MS,
    Bins,
    Claim,
    Evidence,
    Finding,
    FindingKind,
    GpuPast,
    StartingUp,
    Unknown,
)
from analytics.thresholds import IDLE_RATIO, Thresholds
from analytics.vocabulary.findings import FITS_SHARE
from collector.model import JobKind

MS_PER_S = 1000
HOUR_MS = 3_600_000
ROLLED_UP_MS = 120_000
"""A minute is rolled up when it is over: the newest two may be missing, and are no hole."""
LOOKS = 60
"""So many samples that show nothing exclude use of 5% of the time with 95% (0.95^60 = 0.046), each an
instant of the time that it stands for, as where Prometheus scrapes seldom: an hour of one a minute."""
UNLIKE_ITSELF = 1.1
"""A silence is no longer a holder's own where it is longer by a tenth than those it has: who rests for the
same time in each round would be found idle at the end of every rest, and who rests for 80 to 100 minutes in
one of five (docs/decisions/0157)."""
SHORTER_SEEN_MS = 120_000
"""A silence is counted in whole minutes between two with activity, and so seems up to two minutes shorter."""
LOOP_PROCESSES = 4
"""So many starts in six hours are a loop: a job, its restart after a failure and one more try are three."""
NEVER_COMPUTED = frozenset({FindingKind.NOT_STARTED, FindingKind.SLEEPING_BATCH, FindingKind.CRASH_LOOP})


def held(past: GpuPast, claim: Claim, now_ms: int, t: Thresholds) -> Finding | Unknown | StartingUp | None:
    """What to say about a hold: nothing while it is in use or in its grace."""
    if _is_busy_now(past):
        return None
    until_ms = _grace_until(past, claim, t)
    if now_ms < until_ms:
        return StartingUp(uuid=past.uuid, holder=claim.holder, from_ms=claim.from_ms, until_ms=until_ms)
    is_empty = newest(tuple(presence(past, past.bins))) is False
    if is_empty and not has_computed(past, claim):  # between two tries of a loop nobody is there either
        is_empty = _is_empty(past, past.bins.last(bins_in(t.empty_window_s)))
    looks_ms = LOOKS * seldom_ms(past) // BIN_MS * BIN_MS
    own_ms = idle_window_ms(claim, t, is_empty=is_empty)
    quiet_ms = max(own_ms, looks_ms)
    found = _quiet(past, claim, quiet_ms, t, is_empty=is_empty)
    if (
        found is None and is_empty
    ):  # its processes have just left: what they did not do before that counts too
        quiet_ms = max(quiet_ms, idle_window_ms(claim, t))
        found = _quiet(past, claim, quiet_ms, t, is_empty=False)
    return _read_too_seldom(past, claim, own_ms, t, is_empty=is_empty) if found is None else found


def _read_too_seldom(
    past: GpuPast, claim: Claim, own_ms: int, t: Thresholds, *, is_empty: bool
) -> Unknown | None:
    """Unknown where who is read seldom has been quiet for its own clock, and too few readings say so."""
    apart_ms = seldom_ms(past)
    if own_ms >= LOOKS * apart_ms // BIN_MS * BIN_MS:
        return None
    found = _quiet(past, claim, own_ms, t, is_empty=is_empty)
    if not isinstance(found, Finding):
        return None
    reason = (
        f"it is read every {text.length(apart_ms / 1000)}, and work between two readings is not seen: "
        f"{LOOKS} of them, {text.length(LOOKS * apart_ms / 1000)}, have to show nothing before it is told "
        f"idle"
    )
    return Unknown(uuid=past.uuid, kinds=(found.kind,), reason=reason)


def _quiet(
    past: GpuPast, claim: Claim, quiet_ms: int, t: Thresholds, *, is_empty: bool
) -> Finding | Unknown | None:
    """What is to be said where nothing was done for ``quiet_ms``, nor anybody there if ``is_empty``."""
    kind = FindingKind.ALLOCATED_EMPTY if is_empty else FindingKind.HELD_IDLE
    from_ms = past.bins.end_ms - quiet_ms
    if claim.from_ms > from_ms:
        return None
    window = past.bins.last(quiet_ms // BIN_MS)
    expected = min(quiet_ms // BIN_MS, max(len(window.covered), bins_in(t.idle_window_s)))
    unsure = doubt(past, window, expected, t, kind)
    if unsure is not None:
        return unsure
    busiest = known(window.busiest)
    if not busiest and not is_empty:
        return Unknown(uuid=past.uuid, kinds=(kind,), reason="its utilization is not measured")
    if not is_empty and len(busiest) < t.coverage_ratio * expected:  # rows may bear memory and no utilization
        seen = text.coverage(len(busiest) / expected)
        window_s = expected * BIN_MS / 1000
        reason = f"its utilization was measured in only {seen} of the last {text.length(window_s)}"
        return Unknown(uuid=past.uuid, kinds=(kind,), reason=reason)
    if max(busiest, default=0.0) > IDLE_RATIO or (is_empty and not _is_empty(past, window)):
        return None
    if faint_work(past, window) is not None:  # thin, and work all the same
        return None
    found = _kind(past, claim, kind, t)
    if any(copying(window)) and found is not FindingKind.CRASH_LOOP:  # each try of a loop loads its model
        return None
    if expected < quiet_ms // BIN_MS:
        answer = _earlier(past, claim, from_ms, t, kind)
        if answer is not None:
            return answer if isinstance(answer, Unknown) else None
    return _finding(past, claim, found, (window, from_ms), t)


def idle_window_ms(claim: Claim, t: Thresholds, *, is_empty: bool = False) -> int:
    """How long a GPU must have been quiet, in whole bins: the ladder's window, or the holder's own silences.

    For batch jobs and servers that have worked it grows beyond the 90th percentile of the silences between
    their spells of activity, to at most ``idle_longest_s``. For an empty GPU these are the silences in which
    nobody was there: a job whose process used to stay has no such excuse once it is gone. A server that frees
    its model between questions may take its process away: it has the idle clock from the first. A terminal
    keeps the ladder's clock.
    """
    least_ms = bins_in(t.empty_window_s if is_empty else t.idle_window_s) * BIN_MS
    if _is_interactive(claim):
        return least_ms
    if is_empty and claim.first_used_ms is not None and claim.holder.kind is JobKind.INFERENCE:
        least_ms = max(least_ms, bins_in(t.idle_window_s) * BIN_MS)
    own_ms = claim.rhythm.absence_p90_ms if is_empty else claim.rhythm.silence_p90_ms
    if own_ms is None:
        return least_ms
    unlike_ms = round(own_ms * UNLIKE_ITSELF) + SHORTER_SEEN_MS
    return max(least_ms, min(unlike_ms, t.idle_longest_s * MS_PER_S) // BIN_MS * BIN_MS)


def _earlier(
    past: GpuPast, claim: Claim, from_ms: int, t: Thresholds, kind: FindingKind
) -> Unknown | bool | None:
    """The part of a long window that lies before the bins, from the roll-ups: True when active in it."""
    rhythm = claim.rhythm
    if (rhythm.active_until_ms or 0) > from_ms:
        return True
    since_ms = max(rhythm.active_until_ms or 0, claim.from_ms)
    length_ms = past.bins.end_ms - since_ms - ROLLED_UP_MS
    if rhythm.known_since_ms >= t.coverage_ratio * length_ms:
        return None
    seen = text.coverage(rhythm.known_since_ms / length_ms)
    return Unknown(
        uuid=past.uuid,
        kinds=(kind,),
        reason=f"only {seen} of the last {text.length(length_ms / 1000)} were measured",
    )


def _kind(past: GpuPast, claim: Claim, kind: FindingKind, t: Thresholds) -> FindingKind:
    """What an idle or empty GPU is called, where its job may never have computed."""
    if has_computed(past, claim) or _is_interactive(claim):
        return kind
    if past.bins.end_ms - claim.from_ms < max(t.forgive_s, t.start_limit_s) * MS_PER_S:
        return FindingKind.NOT_STARTED
    if len(past.claims) > 1 or _is_older_than_records(past, claim):
        return kind
    if max(claim.processes_started, claim.process_arrivals) >= LOOP_PROCESSES:
        return FindingKind.CRASH_LOOP
    return kind if claim.holder.kind is JobKind.INFERENCE else FindingKind.SLEEPING_BATCH


def _is_interactive(claim: Claim) -> bool:
    return claim.holder.kind is JobKind.INTERACTIVE


def _grace_until(past: GpuPast, claim: Claim, t: Thresholds) -> int:
    """Until when the job counts as starting.

    Everybody has grace from the allocation, and the longer limit until it first computes. A process that
    came after the job had computed, and has not computed yet, has them again, but at most ``forgive_s`` after
    the last work: a process that is started again and again excuses nobody for ever.
    """
    grace_ms, limit_ms = t.grace_s * MS_PER_S, t.start_limit_s * MS_PER_S
    if not has_computed(past, claim):
        return claim.from_ms + max(grace_ms, limit_ms)
    started_ms, worked_ms = claim.process_started_ms or claim.from_ms, claim.busy_until_ms or 0
    until_ms = claim.from_ms + grace_ms
    if started_ms <= claim.from_ms or worked_ms >= started_ms:
        return until_ms
    longest_ms = grace_ms if _is_interactive(claim) else max(grace_ms, limit_ms)
    forgiven_ms = (
        t.start_limit_s if _is_interactive(claim) else max(t.forgive_s, t.start_limit_s)
    ) * MS_PER_S
    return max(until_ms, min(started_ms + longest_ms, max(worked_ms, claim.from_ms) + forgiven_ms))


def _is_older_than_records(past: GpuPast, claim: Claim) -> bool:
    """Whether the job may have had the GPU before anything was recorded of it."""
    return claim.from_ms <= past.installed_from_ms + BIN_MS


def _is_busy_now(past: GpuPast) -> bool:
    busy = newest(past.bins.busiest)
    return busy is not None and busy > IDLE_RATIO


def _is_empty(past: GpuPast, window: Bins) -> bool:
    """Nobody was there in any bin of the window of which that is known."""
    return not any(presence(past, window))


def _finding(
    past: GpuPast, claim: Claim, kind: FindingKind, span: tuple[Bins, int], t: Thresholds
) -> Finding:
    window, from_ms = span
    never = kind in NEVER_COMPUTED
    rhythm = claim.rhythm
    worked_ms = 0 if never else max(claim.busy_until_ms or 0, rhythm.active_until_ms or 0)
    # An hour stands for its last minute where the minutes are gone: what the window shows to be quiet, is.
    since_ms = max(claim.from_ms, min(worked_ms, from_ms))
    grace_ms = t.grace_s * MS_PER_S if never else 0
    hours = _hours(past, claim, window, since_ms, grace_ms)
    return Finding(
        kind=kind,
        uuid=past.uuid,
        node=past.node,
        gpu_index=past.gpu_index,
        holder=claim.holder,
        since_ms=since_ms,
        window_from_ms=from_ms,
        window_to_ms=window.end_ms,
        coverage=cover(window, len(window.covered)),
        rung=past.rung,
        wasted_gpu_hours=None if kind is FindingKind.NOT_STARTED else hours,
        sentence=_sentence(past, claim, kind, window, (since_ms, hours, t)) + read_seldom((past,)),
        evidence=(*_evidence(past, claim, window, hours), _measured_from(claim, since_ms)),
    )


def _hours(past: GpuPast, claim: Claim, window: Bins, since_ms: int, grace_ms: int) -> float:
    """GPU-hours of quiet: the ledger's since then, never less than the bins of the window show.

    ``grace_ms`` is left out of them: that of a job that has never computed.
    """
    shares = past.share_of_device * claim.share
    hours = claim.idle_gpu_hours
    if hours is None:
        hours = (window.end_ms - since_ms) / HOUR_MS * shares
    if grace_ms:
        hours = min(hours, max(0, window.end_ms - since_ms - grace_ms) / HOUR_MS * shares)
    return max(hours, sum(window.covered) * BIN_MS / HOUR_MS * shares)


def _measured_ms(past: GpuPast, claim: Claim, window: Bins, since_ms: int) -> int:
    """How much of the quiet time was measured, by the roll-ups, and never less than the window shows."""
    length_ms = window.end_ms - since_ms
    if claim.idle_gpu_hours is None:
        return length_ms
    shares = past.share_of_device * claim.share / max(1.0, sum(each.share for each in past.claims))
    by_hours_ms = claim.idle_gpu_hours / shares * HOUR_MS if shares else 0.0
    at_least_ms = max(by_hours_ms, claim.rhythm.known_since_ms, sum(window.covered) * BIN_MS)
    return min(length_ms, int(at_least_ms))


def _sentence(
    past: GpuPast, claim: Claim, kind: FindingKind, window: Bins, lost: tuple[int, float, Thresholds]
) -> str:
    """What is said; ``lost`` is since when nothing was done, in ms, and what that cost in GPU-hours."""
    since_ms, hours, t = lost
    length_ms = window.end_ms - since_ms
    from_records = _is_older_than_records(past, claim)
    bound = " at least, when its records begin" if from_records else ""
    start = f"{holder_name(claim)} has held {gpu_name(past)} since {text.clock(claim.from_ms)}{bound}"
    since, cost = text.length(length_ms / 1000), f" ({text.gpu_hours(hours)})"
    is_bound = from_records and since_ms <= claim.from_ms
    quiet = f"{'at least ' if is_bound else ''}{since}{cost}"
    measured_ms = _measured_ms(past, claim, window, since_ms)
    seen = text.length(measured_ms / 1000)
    part, during, never = "", f"for {quiet}", f"in {quiet}"
    if measured_ms < t.coverage_ratio * (length_ms - ROLLED_UP_MS):  # in the rest it may have worked
        part, during = f", {seen} of it measured", f"in the measured {seen} of the last {since}{cost}"
        never = during
    if kind is FindingKind.NOT_STARTED and from_records:
        return (
            f"{holder_name(claim)} has not computed on {gpu_name(past)} since the records begin, for "
            f"{since}{part}; what it did before is not known."
        )
    if kind is FindingKind.NOT_STARTED:
        return f"{start} and has not computed on it yet after {since}{part}; it may still be preparing."
    if kind is FindingKind.SLEEPING_BATCH:
        return f"{start} and has never computed on it {never}: whatever it is doing needs no GPU."
    if kind is FindingKind.CRASH_LOOP:
        starts = f"{claim.processes_started} of its processes started"
        if not claim.processes_started:
            starts = f"a process came to the GPU {claim.process_arrivals} times"
        return (
            f"{start} and has never computed on it {never}, while {starts} within the last 6 h: "
            f"it seems to crash and start again."
        )
    if kind is FindingKind.ALLOCATED_EMPTY:
        return f"{start}, and no process has used it {during}."
    memory, is_own = _memory(past, claim, window)
    there = newest(tuple(presence(past, window)))
    is_kept = memory is not None and there is not False and not (is_own and memory == 0)
    kept = f", keeping {text.size(memory)} of its memory" if is_kept else ""
    if is_kept and not is_own:
        kept = f", while all who hold it keep {text.size(memory)} of its memory"
    busy = _mean_level(window) or 0.0
    little = "next to nothing" if busy > 0 else "nothing"
    what = f"its processes have done {little} on it" if there else f"{little} has run on it"
    unseen = "" if there else "; whether a process sits there cannot be seen"
    if there is False:
        unseen = "; its processes have left"
    lately = text.length(len(window.covered) * BIN_MS / 1000)
    return (
        f"{start}, and {what} {during}{kept}: {text.percent(busy)} busy "
        f"over the last {lately} ({measured_of(past, claim)}){unseen}."
    )


def _memory(past: GpuPast, claim: Claim, window: Bins) -> tuple[int | None, bool]:
    """The newest memory in bytes, and whether it is the holder's own, or that of all who hold the GPU."""
    own = newest(claim.memory_bytes[-len(window.covered) :])
    memory = newest(window.memory_bytes) if own is None else own
    is_alone = len(past.claims) == 1 and claim.bins is None and all(each.to_ms for each in past.intruders)
    return None if memory is None else int(memory), own is not None or is_alone


def _mean_level(window: Bins) -> float | None:
    """The mean of what its rung told, which the sentence names: another counter's noise may be higher."""
    return mean(known(window.utilization) or known(window.busiest))


def _mean_power_w(window: Bins) -> float | None:
    """What the whole board drew, in W; ``None``: nobody told."""
    power = mean(known(window.power_mw))
    return None if power is None else power / 1000


def _evidence(past: GpuPast, claim: Claim, window: Bins, hours: float) -> tuple[Evidence, ...]:
    busiest = known(window.busiest)
    memory, _ = _memory(past, claim, window)
    alone = since(window, claim.from_ms)
    return (
        Evidence(name="idle_bins", value=sum(value <= IDLE_RATIO for value in busiest)),
        Evidence(name="valid_bins", value=len(busiest)),
        Evidence(name="utilization_mean_ratio", value=_mean_level(window)),
        Evidence(name="utilization_max_ratio", value=max(busiest, default=None)),
        Evidence(name="bins_with_process", value=sum(there is True for there in presence(past, alone))),
        Evidence(name="memory_used_bytes", value=memory),
        Evidence(name="power_mean_w", value=_mean_power_w(window)),
        Evidence(name="has_computed", value=claim.first_used_ms is not None),
        Evidence(name="older_than_records", value=_is_older_than_records(past, claim)),
        Evidence(name="idle_gpu_hours", value=round(hours, 4)),
        Evidence(name="processes_started", value=claim.processes_started),
        Evidence(name="process_arrivals", value=claim.process_arrivals),
        Evidence(name="silence_p90_minutes", value=_minutes(claim.rhythm.silence_p90_ms)),
        Evidence(name="share", value=claim.share),
        Evidence(name=FITS_SHARE, value=leaves_room(past, claim)),
    )


def _measured_from(claim: Claim, since_ms: int) -> Evidence:
    """From when on the quiet was measured without a gap that is too large; ``None``: from its start.

    Clocks of what is done to a job count from there: in the gap it may have worked.
    """
    from_ms = claim.rhythm.measured_from_ms
    is_holed = from_ms is not None and from_ms > since_ms
    return Evidence(name="measured_from_ms", value=from_ms if is_holed else None)


def _minutes(ms: int | None) -> int | None:
    return None if ms is None else ms // 60_000
