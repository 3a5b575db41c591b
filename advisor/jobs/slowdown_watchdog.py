"""How fast jobs go, alone and beside a neighbour, by the steps that they count; when a pair is parted. Pure.

A speed is steps a second over a window, and a window is only ever of one way of running: the same GPUs, the
same share, the same neighbours. What a job reached alone is what its windows beside another are held against.
The pair's first windows are its trial (``policies.pairing.Trial``); a foreground that is over 10% slower for
three of them in a row is alone again, and those two profiles stay apart on that GPU model.

A window lasts ``Span.window_ms``, and for slow jobs until ``least_steps`` would have been made alone: a count
is off by less than one step, so by 5% at most. A job that stands still beside another is measured as still.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

from advisor.actions import Action, Move, Requeue
from advisor.jobs.lifecycle import in_flight, lapsing
from advisor.jobs.model import JobRecord, JobState
from advisor.planner.pairing import Experience, PairingRules, Trial, learn, must_undo, part
from advisor.planner.quota import is_usable
from advisor.planner.transition import SHARE_SLACK
from advisor.state.model import ActionClass, ClusterState, Gpu
from collector.model import GpuUuid, JobId

ALONE_LEAST, ALONE_KEPT = 3, 5
"""So many windows alone tell a job's own speed, their median; older ones are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """How windows are cut. For ``settle_ms`` after any change nothing counts: a job warms up."""

    window_ms: int = 30_000
    settle_ms: int = 60_000
    least_steps: int = 20

    def at_speed(self, speed: float) -> "Span":
        """The same where the calendar runs ``speed`` times as fast."""
        return replace(self, window_ms=round(self.window_ms / speed), settle_ms=round(self.settle_ms / speed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a job runs: on which devices, with what share of each, beside whom."""

    gpus: tuple[GpuUuid, ...]
    share: float
    beside: frozenset[JobId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """So many steps were made by ``at_ms``, a steady clock of the job's launcher."""

    at_ms: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One job's windows in its present way of running, the newest last, in steps a second.

    ``begun`` is where the present window begins, ``None`` while it settles; ``since`` when this way began.
    """

    way: Way
    since: Counted
    newest: Counted
    begun: Counted | None = None
    windows: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two jobs that Fallow put on one GPU: ``host`` was there and is the foreground, ``guest`` came.

    ``alone`` are both speeds before that, host first, in steps a second; ``speeds`` what both reached of that
    in the trial. ``None`` where it was not measured. ``expected_gain`` is what they were expected to add, in
    GPUs, when they were put together.
    """

    host: JobId
    guest: JobId
    host_profile: str
    guest_profile: str
    gpu_model: str
    alone: tuple[float | None, float | None] = (None, None)
    expected_gain: float = 0.0
    speeds: tuple[float, float] | None = None
    windows: int = 0
    undone: bool = False


def ways(state: ClusterState, entries: Iterable[JobRecord]) -> Mapping[JobId, Way]:
    """How each submitted job runs now; whoever is being changed, or beside somebody unknown, is left out."""
    on: dict[GpuUuid, set[JobId]] = {}
    for id, placement in state.placements.items():
        for uuid in placement.gpus:
            on.setdefault(uuid, set()).add(id)
    return {
        entry.id: Way(
            gpus=entry.gpus,
            share=entry.share,
            beside=frozenset().union(*(on.get(uuid, set()) for uuid in entry.gpus)) - {entry.id},
        )
        for entry in entries
        if _is_steady(entry) and not any(_is_occupied(state, uuid) for uuid in entry.gpus)
    }


def counted(entry: JobRecord) -> Counted | None:
    """What its launcher last said of its steps; ``None`` where nobody counts them."""
    report = entry.report
    if report is None or report.step is None or report.counted_ms is None:
        return None
    return Counted(at_ms=report.counted_ms, step=report.step)


def followed(track: Track | None, way: Way, now: Counted, span: Span, alone: float | None = None) -> Track:
    """The track with one more count. ``alone``: the own speed of who has neighbours, where that is known."""
    if track is None or track.way != way or now.step < track.newest.step or now.at_ms < track.newest.at_ms:
        return Track(way=way, since=now, newest=now)
    if now.at_ms == track.newest.at_ms:
        return track
    begun = track.begun
    if begun is None:
        settled = now.at_ms - track.since.at_ms >= span.settle_ms
        return replace(track, newest=now, begun=now if settled else None)
    took_ms, steps = now.at_ms - begun.at_ms, now.step - begun.step
    enough = steps if alone is None else alone * took_ms / 1000
    if took_ms < span.window_ms or enough < span.least_steps:
        return replace(track, newest=now)
    windows = (*track.windows, steps / took_ms * 1000)
    return replace(track, newest=now, begun=now, windows=windows[-ALONE_KEPT:])


def own_speed(track: Track | None) -> float | None:
    """Steps a second alone; ``None`` until that was measured often enough."""
    if track is None or track.way.beside or len(track.windows) < ALONE_LEAST:
        return None
    result = median(track.windows)
    return result if result > 0 else None


def beside(track: Track | None, other: JobId, alone: float | None) -> tuple[float, ...]:
    """The windows beside ``other`` alone, each of the job's own speed."""
    if track is None or alone is None or track.way.beside != {other}:
        return ()
    return tuple(window / alone for window in track.windows)


def couples(entries: Iterable[JobRecord], ways: Mapping[JobId, Way]) -> tuple[tuple[JobId, JobId], ...]:
    """Pairs on one device, each with less of it than it asked for: Fallow put them there; by name."""
    packed = {entry.id for entry in entries if len(entry.gpus) == 1 and is_short(entry)}
    result = set()
    for id in packed & set(ways):
        others = ways[id].beside
        if len(others) == 1 and others <= packed:
            result.add((min(id, *others), max(id, *others)))
    return tuple(sorted(result))


def tried(pair: Pair, host: Sequence[float], guest: Sequence[float], rules: PairingRules) -> Pair:
    """The pair with its trial, once it is over: the means of the first windows of both.

    Of a pair that is parted earlier, the windows that both have by then.
    """
    both = min(len(host), len(guest))
    windows = min(both, rules.undo_windows)
    if pair.speeds is not None or not windows or (windows < rules.undo_windows and not pair.undone):
        return pair
    return replace(pair, speeds=(fmean(host[:windows]), fmean(guest[:windows])), windows=windows)


def too_slow(host: Sequence[float], rules: PairingRules) -> bool:
    """Whether the foreground's newest windows were all under its floor."""
    return must_undo(host, rules)


def is_short(entry: JobRecord) -> bool:
    """Whether it has less of its GPU than it asked for: a pack took the rest for a neighbour."""
    return entry.share < entry.submission.share - SHARE_SLACK


def misses(track: Track | None, own: float | None, rules: PairingRules) -> bool:
    """Whether who is alone on less than it asked for needs the rest: it is slower, or nobody can tell."""
    if own is None:
        return True
    return track is not None and must_undo([window / own for window in track.windows], rules)


def experience_of(pairs: Iterable[Pair]) -> Mapping[str, Experience]:
    """All that was learnt from these pairs, by GPU model."""
    by_model: dict[str, Experience] = {}
    for pair in pairs:
        so_far = by_model.get(pair.gpu_model) or Experience(gpu_model=pair.gpu_model)
        names = pair.host_profile, pair.guest_profile
        if pair.speeds is not None:
            first, second = pair.speeds
            so_far = learn(
                so_far,
                Trial(
                    first=names[0],
                    second=names[1],
                    first_speed=min(1.0, first),
                    second_speed=min(1.0, second),
                    windows=pair.windows,
                ),
            )
        by_model[pair.gpu_model] = part(so_far, *names) if pair.undone else so_far
    return by_model


def pairs_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Pair, ...]:
    """The rows of the query ``pairs``."""
    return tuple(_pair(row) for row in rows)


def parting(
    state: ClusterState, pair: Pair, entries: Mapping[JobId, JobRecord], reason: str
) -> tuple[Action, ...]:
    """What leaves the host alone again: its guest to a free GPU of that model, or back into the queue."""
    host, guest = entries[pair.host], entries[pair.guest]
    free = _free_like(state, host.gpus[0])
    return (
        Requeue(job=guest.id, action=ActionClass.PACK, reason=reason)
        if free is None
        else Move(
            job=guest.id,
            gpus=(free,),
            share=guest.submission.share,
            action=ActionClass.PACK,
            reason=reason,
        ),
        unshared_move(host, reason),
    )


def unshared_move(host: JobRecord, reason: str) -> Move:
    """What gives a host as much of its GPU as it asked for."""
    return Move(
        job=host.id, gpus=host.gpus, share=host.submission.share, action=ActionClass.PACK, reason=reason
    )


def _pair(row: Mapping[str, Any]) -> Pair:
    speeds = row["host_speed_ratio"], row["guest_speed_ratio"]
    return Pair(
        host=JobId(row["host"]),
        guest=JobId(row["guest"]),
        host_profile=row["host_profile"],
        guest_profile=row["guest_profile"],
        gpu_model=row["gpu_model"],
        alone=(row["host_alone"], row["guest_alone"]),
        expected_gain=row["gain_expected_gpus"],
        speeds=None if None in speeds else speeds,
        windows=row["windows"],
        undone=row["undone"],
    )


def _free_like(state: ClusterState, uuid: GpuUuid) -> GpuUuid | None:
    """A GPU of the same model that nobody has and nobody was promised, on the same node if there is one."""
    own = state.gpus[uuid]
    occupied = {each for placement in state.placements.values() for each in placement.gpus}
    promised = {each for promise in state.reservations.values() for each in promise.gpus}

    def is_free(gpu: Gpu) -> bool:
        return gpu.model == own.model and gpu.uuid not in occupied | promised and is_usable(gpu, state)

    offers = [(gpu.node != own.node, gpu.node, gpu.uuid) for gpu in state.gpus.values() if is_free(gpu)]
    return min(offers)[2] if offers else None


def _is_steady(entry: JobRecord) -> bool:
    """Whether it runs, and has done what it was last asked to."""
    changing = in_flight(entry) or lapsing(entry)
    return entry.state is JobState.RUNNING and bool(entry.gpus) and not changing


def _is_occupied(state: ClusterState, uuid: GpuUuid) -> bool:
    gpu = state.gpus.get(uuid)
    return gpu is None or gpu.occupied
