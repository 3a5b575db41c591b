"""Series to devices: which GPU or MIG instance each tells of, with values in the house's units. Pure.

Columnar twin of ``collector.dcgm.readout``: a grid of scrape times for each device, a column a quantity, NaN
where a scrape did not bring it. The rules are the same: a board's values go to the parent, once; no sums; a
pod's row beside one of the device tells what that pod did.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from collector.dcgm.endpoint import STALE_MS
from collector.dcgm.labels import Claim, Identity, identity, parent_of
from collector.dcgm.own_pods import Exporters, holders
from collector.dcgm.readout import OF_HOLDERS
from collector.dcgm.vocabulary import (
    BLANKS,
    INT64_BLANK,
    Measure,
    Scope,
    Unit,
    measure_of,
)
from collector.model import GpuUuid
from collector.sources.prometheus.scale import scales
from collector.sources.prometheus.server import Series

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Ranked = dict[tuple[int, str], Values]
"""A column for each rank of a measure's name and quantity."""
_TARGET = ("job", "instance", "prometheus", "prometheus_replica", "replica", "cluster", "endpoint", "service")
_APART = 0.75
"""Of a step: nearer than this, two series' times are one scrape and not two."""
_STRETCH = 1.5
"""Of a step: a value that comes later leaves a gap, as a live exporter's does."""
_ENOUGH = 4
"""Values, before their distance in time says how often they come."""
_AROUND = 4
"""Scrapes to each side that tell a step: of nine, four may be late or missing."""
_BLANKS = np.array(sorted(BLANKS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is known of the targets before their series are read.

    ``steps`` is the time between two scrapes of each, ``step_ms`` of one that is not in it.
    """

    step_ms: int
    steps: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    exporters: Exporters = field(default_factory=Exporters)
    several_clusters: bool = False


@dataclass(slots=True)
class Part:
    """One series' share of a device: a quantity in the house's unit at the times it was scraped."""

    target: tuple[str, ...]
    at_ms: Times
    values: Values
    measure: Measure
    claims: tuple[Claim, ...]


@dataclass(slots=True)
class Collected:
    """All parts of one device; ``last_ms`` is when ``identity`` was read."""

    identity: Identity
    last_ms: int
    parts: list[Part] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device on its grid of scrape times, in order; ``of_holders``: what each of its holders did."""

    identity: Identity
    at_ms: Times
    width_ms: Times
    columns: Mapping[str, Values]
    present: Mapping[Claim, npt.NDArray[np.bool_]]
    undecided: npt.NDArray[np.bool_]
    of_holders: Mapping[Claim, Mapping[str, Values]] = field(default_factory=dict)


def devices(series: Iterable[Series], site: Site) -> tuple[Device, ...]:
    """The devices that the series tell of; widths are the time since the scrape before, at a gap one step."""
    usable = [_without_blanks(each) for each in series]
    named = holders([each.labels for each in usable], site.exporters, several_clusters=site.several_clusters)
    collected = _collect(zip(usable, named, strict=True))
    for device in tuple(collected.values()):
        if device.identity.parent is not None:
            _leave_to_the_instance(collected[device.identity.parent], device)
    grids = (_on_grid(found, site) for found in collected.values())
    return tuple(device for device in grids if len(device.at_ms))


def target_of(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The target that a series was scraped from, and by which server."""
    return tuple(labels.get(name, "") for name in _TARGET)


def usual_step_ms(at_ms: Times) -> int | None:
    """The time between two of a series' scrapes in whole seconds, where it has enough of them."""
    return max(round(np.median(np.diff(at_ms)) / 1000), 1) * 1000 if len(at_ms) > _ENOUGH else None


def _collect(series: Iterable[tuple[Series, tuple[Claim, ...] | None]]) -> dict[GpuUuid, Collected]:
    by_target: dict[tuple[str, ...], list[tuple[Series, tuple[Claim, ...] | None]]] = {}
    for each, named in series:
        by_target.setdefault(target_of(each.labels), []).append((each, named))
    result: dict[GpuUuid, Collected] = {}
    for target, group in by_target.items():
        factors = scales([each for each, _ in group])
        for each, named in group:
            _assign(result, each, target, factors, claims=named or ())
    return result


def _assign(
    result: dict[GpuUuid, Collected],
    series: Series,
    target: tuple[str, ...],
    factors: tuple[Times, Values],
    *,
    claims: tuple[Claim, ...],
) -> None:
    measure = measure_of(series.name)
    who = identity(series.labels, fallback_node=_instance(series.labels))
    if measure is None or who is None or not len(series.at_ms):
        return
    part = Part(
        target=target,
        at_ms=series.at_ms,
        values=series.values * _factor(measure, series.at_ms, factors),
        measure=measure,
        claims=claims,
    )
    last = int(series.at_ms[-1])
    device = _known(result, who, last)
    if who.parent is not None:
        board = _known(result, parent_of(who), last)
        if measure.scope is Scope.BOARD:
            board.parts.append(Part(target, part.at_ms, part.values, measure, ()))
            part.values = np.full(len(part.at_ms), np.nan)
    device.parts.append(part)


def _known(result: dict[GpuUuid, Collected], who: Identity, last_ms: int) -> Collected:
    device = result.setdefault(who.uuid, Collected(who, last_ms))
    if last_ms > device.last_ms:
        device.identity, device.last_ms = who, last_ms
    return device


def _factor(measure: Measure, at_ms: Times, factors: tuple[Times, Values]) -> Values | float:
    if measure.unit is not Unit.UNDECIDED:
        return measure.unit.factor or np.nan
    times, scale = factors
    return scale[np.searchsorted(times, at_ms)]


def _leave_to_the_instance(board: Collected, instance: Collected) -> None:
    """While a board is partitioned its own utilization and memory are its instances', counted there."""
    times = np.unique(np.concatenate([part.at_ms for part in instance.parts]))
    for part in board.parts:
        if part.measure.scope is Scope.INSTANCE:
            part.values = np.where(np.isin(part.at_ms, times), np.nan, part.values)


def _on_grid(device: Collected, site: Site) -> Device:
    steps = [site.steps[part.target] for part in device.parts if part.target in site.steps]
    step_ms = min(steps, default=site.step_ms)
    at = _grid(device.parts, step_ms)
    ranked: Ranked = {}
    of_holders: dict[Claim, Ranked] = {}
    present: dict[Claim, npt.NDArray[np.bool_]] = {}
    undecided = np.zeros(len(at), bool)
    for part in device.parts:
        place, on_grid = _places(at, part.at_ms)
        values = part.values[on_grid]
        for claim in part.claims:
            present.setdefault(claim, np.zeros(len(at), bool))[place] = True
        if part.measure.unit is Unit.UNDECIDED:
            undecided[place[np.isnan(values)]] = True
        named = part.claims if part.measure.quantity in OF_HOLDERS else ()
        for columns in [of_holders.setdefault(claim, {}) for claim in named] or [ranked]:
            key = (part.measure.rank, part.measure.quantity)
            column = columns.setdefault(key, np.full(len(at), np.nan))
            column[place] = np.fmax(column[place], values)
    own = _believed(ranked)
    columns_by_claim = {claim: _believed(columns) for claim, columns in of_holders.items()}
    return Device(
        identity=device.identity,
        at_ms=at,
        width_ms=_widths(at, step_ms),
        columns=_with_repeated(own, columns_by_claim),
        present=present,
        undecided=undecided,
        of_holders=_beside_its_own(own, columns_by_claim),
    )


def _with_repeated(
    own: Mapping[str, Values], columns_by_claim: Mapping[Claim, Mapping[str, Values]]
) -> dict[str, Values]:
    """The device's columns; where no row is its own, those of its holders repeat its value."""
    columns = dict(own)
    for name in OF_HOLDERS:
        rows = [values[name] for values in columns_by_claim.values() if name in values]
        if rows:
            repeated = np.fmax.reduce(rows)
            columns[name] = np.where(np.isnan(own[name]), repeated, own[name]) if name in own else repeated
    return columns


def _beside_its_own(
    own: Mapping[str, Values], columns_by_claim: Mapping[Claim, Mapping[str, Values]]
) -> dict[Claim, dict[str, Values]]:
    """What single holders did, where a row was the device's own; without one, theirs repeat its value."""
    return {
        claim: {
            name: np.where(np.isnan(own[name]), np.nan, values)
            for name, values in columns.items()
            if name in own
        }
        for claim, columns in columns_by_claim.items()
        if columns.keys() & own.keys()
    }


def _believed(ranked: Ranked) -> dict[str, Values]:
    """A column a quantity: at each time the value of the name that ranks first there."""
    columns: dict[str, Values] = {}
    for (_, quantity), column in sorted(ranked.items(), key=lambda item: item[0]):
        best = columns.get(quantity)
        columns[quantity] = column if best is None else np.where(np.isnan(best), column, best)
    return columns


def _places(at: Times, times: Times) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where the times stand on the grid, and which of them do."""
    places = np.searchsorted(at, times)
    on_grid = at[np.minimum(places, len(at) - 1)] == times
    return places[on_grid], on_grid


def _grid(parts: Iterable[Part], step_ms: int) -> Times:
    """When the device was scraped. Of two targets that tell of it (replicas), one at a time is heard."""
    by_target: dict[tuple[str, ...], list[Times]] = {}
    for part in parts:
        by_target.setdefault(part.target, []).append(part.at_ms)
    grids = [np.unique(np.concatenate(times)) for times in by_target.values()]
    grid, *others = sorted(grids, key=len, reverse=True)
    for other in others:
        right = np.searchsorted(grid, other)
        after = np.abs(grid[np.minimum(right, len(grid) - 1)] - other)
        before = np.abs(other - grid[np.maximum(right - 1, 0)])
        grid = np.union1d(grid, other[np.minimum(after, before) > _APART * step_ms])
    return grid


def _widths(at: Times, step_ms: int) -> Times:
    """The time since the scrape before, and one step where that is long ago; the first has one step.

    The step is that of the scrapes around: one target is scraped oftener than another, and than before.
    """
    apart = np.diff(at)
    if len(apart) < _ENOUGH:
        steps = np.full(len(at), step_ms)
    else:
        around = sliding_window_view(np.pad(apart, _AROUND, mode="reflect"), 2 * _AROUND + 1)
        local = np.minimum(np.median(around, axis=1), max(step_ms, STALE_MS))
        steps = np.concatenate([local[:1], local])
    widths = np.concatenate([steps[:1], np.where(apart <= _STRETCH * steps[1:], apart, steps[1:])])
    return widths.round().astype(np.int64)[: len(at)]


def _without_blanks(series: Series) -> Series:
    """NaN for what is no number; the scrape itself took place."""
    values = series.values
    fine = (values >= 0) & (values < INT64_BLANK) & ~np.isin(values, _BLANKS)
    if fine.all():
        return series
    known = np.where(fine, values, np.nan)
    return Series(name=series.name, labels=series.labels, at_ms=series.at_ms, values=known)


def _instance(labels: Mapping[str, str]) -> str:
    return labels.get("instance", "").rpartition(":")[0] or labels.get("instance", "") or "unknown"
