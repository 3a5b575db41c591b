"""From stretches to what a driver would report at given instants: the simulated physics.

Pure and columnar: lanes by instants in, GPUs by instants out. Every figure is a function of the instant, so a
row of history and a live reading agree. The figures of an instant stand for the ten seconds they fall into.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collector.declared_metric import Simulated
from collector.metrics import METRICS
from collector.sources.simulated.hardware import Board, GpuModel
from collector.sources.simulated.labels import KINDS, MEASURED_BY_NOBODY
from collector.sources.simulated.timeline import (
    Floats,
    Ints,
    Keys,
    Stretches,
    bell,
    chained,
    drift,
    key_of,
    uniform,
)

BIN_MS = 10_000
DRIFT_MS = 420_000
LAG_MS = 150_000
DIP = 0.3
"""What is left of the work during a checkpoint or an evaluation."""
_LANE_SHIFT = 42  # a millisecond of this century fits below
_BLIND = np.array([kind in MEASURED_BY_NOBODY for kind in KINDS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """All lanes of a cluster for a while, ready to be played.

    ``energy_j`` is each lane's at a stretch's start, ``first`` the place of the first stretch of its epoch.

    The first lanes are the GPUs themselves; ``lane_gpus`` has each lane's GPU.
    """

    rows: Stretches
    order: Ints
    keys: Keys
    power_w: Floats
    energy_j: Floats
    first: Ints
    lane_gpus: npt.NDArray[np.int64]
    idle_w: Floats
    context_w: Floats
    limit_w: Floats
    sm_mhz: Floats
    idle_mhz: Floats
    memory_mhz: Floats
    reserved_bytes: Floats
    ambient_c: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """GPUs by instants, flat and GPU-major. ``lane_memory_bytes`` and ``lane_sm`` are lanes by instants."""

    columns: dict[str, npt.NDArray[np.generic]]
    measured: npt.NDArray[np.bool_]
    lane_memory_bytes: Ints
    lane_sm: Floats


def score(
    seed: int, lanes: tuple[tuple[Stretches, ...], ...], lane_gpus: tuple[int, ...], boards: tuple[Board, ...]
) -> Score:
    """``lanes`` has for each lane its stretches, one array an epoch."""
    rows, power, energy, order, first = [], [], [], [], []
    place = 0
    for lane, epochs in enumerate(lanes):
        model = boards[lane_gpus[lane]].model
        idle = model.idle_w if lane < len(boards) else 0.0
        for epoch in epochs:
            watts = np.minimum(idle + _mean_w(epoch, model), model.limit_w)
            seconds = np.diff(epoch["start_ms"]) / 1000.0
            first.append(np.full(len(epoch), place, np.int64))
            place += len(epoch)
            rows.append(epoch)
            power.append(watts)
            energy.append(np.concatenate([[0.0], np.cumsum(watts[:-1] * seconds)]))
            order.append((np.int64(lane) << _LANE_SHIFT) + epoch["start_ms"])
    return Score(
        rows=chained(*rows),
        order=np.concatenate(order),
        keys=np.array([key_of(seed, "lane", lane) for lane in range(len(lanes))], np.uint64),
        power_w=np.concatenate(power),
        energy_j=np.concatenate(energy),
        first=np.concatenate(first),
        lane_gpus=np.array(lane_gpus, np.int64),
        idle_w=_per_board(boards, "idle_w"),
        context_w=_per_board(boards, "context_w"),
        limit_w=_per_board(boards, "limit_w"),
        sm_mhz=_per_board(boards, "sm_mhz"),
        idle_mhz=_per_board(boards, "idle_mhz"),
        memory_mhz=_per_board(boards, "memory_mhz"),
        reserved_bytes=_per_board(boards, "reserved_bytes"),
        ambient_c=np.array([27.0 + key_of(seed, "place", g) % 6 for g in range(len(boards))]),
    )


def play(s: Score, at_ms: Ints) -> Played:
    """What every GPU reports at each instant; ``at_ms`` is the *end* of the time that a report stands for."""
    lanes, gpus, times = len(s.keys), len(s.idle_w), len(at_ms)
    t = np.tile(at_ms - 1, lanes)
    lane = np.repeat(np.arange(lanes, dtype=np.int64), times)
    place = _find(s, lane, t)
    row = s.rows[place]
    keys = s.keys[lane]
    level, util = _levels(row, keys, t)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(row["sm"] > 0, level / row["sm"], 0.0)
    watts = s.power_w[place]
    dynamic = np.where(row["sm"] > 0, (watts - _rest_w(s, lane, row)) * _share_of_mean(row, level), 0.0)
    energy = s.energy_j[place] + watts * (t - row["start_ms"]) / 1000.0
    before = np.maximum(t - LAG_MS, s.rows["start_ms"][s.first[place]])
    past = _find(s, lane, before)
    lagged = s.energy_j[past] + s.power_w[past] * (before - s.rows["start_ms"][past]) / 1000.0
    seconds = np.maximum((t - before) / 1000.0, 1.0)

    def fold(values: npt.NDArray[np.generic]) -> Floats:
        grid = values.reshape(lanes, times)[:gpus].astype(np.float64).copy()
        for extra in range(gpus, lanes):
            grid[s.lane_gpus[extra]] += values.reshape(lanes, times)[extra]
        return grid.ravel()

    columns = _columns(
        s,
        times,
        at_ms,
        sm=np.minimum(fold(level), 1.0),
        util=1.0 - np.clip(1.0 - fold(util), 0.0, 1.0),
        controller=fold(row["controller"] * gain),
        tensor=fold(row["tensor"] * gain),
        occupancy=fold(row["occupancy"] * np.minimum(gain, 1.2)),
        memory=fold(row["memory_bytes"]),
        processes=fold(row["process"] >= 0),
        power_w=fold(_rest_w(s, lane, row) + dynamic),
        energy_j=fold(energy),
        mean_w=fold((energy - lagged) / seconds),
    )
    measured = ~_BLIND[row["kind"]].reshape(lanes, times)[:gpus].ravel()
    return Played(
        columns=columns,
        measured=measured,
        lane_memory_bytes=row["memory_bytes"].reshape(lanes, times),
        lane_sm=level.reshape(lanes, times),
    )


def _levels(row: Stretches, keys: Keys, t: Ints) -> tuple[Floats, Floats]:
    slot = t // BIN_MS
    on = uniform(keys, slot, 1) < row["duty"]
    wander = 0.75 * drift(keys, t, DRIFT_MS, 2) + 0.66 * bell(keys, slot, 3)
    lowest = np.maximum(1.0 - 2.2 * row["jitter"], 0.05)
    gain = np.clip(1.0 + row["jitter"] * wander, lowest, 4.0)
    level = np.clip(row["sm"] * gain, 0.0, 1.0)
    period = np.maximum(row["dip_period_ms"], 1)
    dips = (row["dip_period_ms"] > 0) & ((t - row["start_ms"]) % period >= period - row["dip_ms"])
    level = np.where(on, np.where(dips, DIP * level, level), 0.0)
    slack = -np.log1p(-uniform(keys, slot, 4)) * (1.0 - row["util"]) * 0.9
    util = np.where(row["util"] >= 0.9, np.clip(1.0 - slack, 0.5, 1.0), row["util"] * gain)
    lull = DIP + 0.65 * uniform(keys, (t - row["start_ms"]) // period, 5)
    util = np.where(on, np.where(dips, lull * util, util), 0.0)
    return level, np.clip(np.where(row["util"] > 0, np.maximum(util, level), 0.0), 0.0, 1.0)


def _columns(
    s: Score,
    times: int,
    at_ms: Ints,
    *,
    sm: Floats,
    util: Floats,
    controller: Floats,
    tensor: Floats,
    occupancy: Floats,
    memory: Floats,
    processes: Floats,
    power_w: Floats,
    energy_j: Floats,
    mean_w: Floats,
) -> dict[str, npt.NDArray[np.generic]]:
    def each(values: Floats) -> Floats:
        return np.repeat(values, times)

    awake = (processes > 0) | (util > 0)
    limit = each(s.limit_w)
    capped = power_w >= 0.985 * limit
    power = np.minimum(power_w, limit)
    clock = np.where(sm > 0, each(s.sm_mhz), each(s.idle_mhz))
    clock = np.where((processes > 0) & (sm == 0), each(s.sm_mhz) * 0.8, clock)
    clock = np.where(capped, each(s.sm_mhz) * np.clip(limit / np.maximum(power_w, 1.0), 0.7, 1.0), clock)
    heat = each(s.ambient_c) + 45.0 * mean_w / limit
    return {
        "at_ms": np.tile(at_ms, len(s.idle_w)),
        "utilization_ratio": _ratio(sm),
        "gpu_utilization_ratio": _ratio(util),
        "gpu_utilization_max_ratio": _ratio(np.where(util > 0, np.minimum(1.0, util * 1.15 + 0.02), 0.0)),
        "gpu_busy_ratio": _ratio(1.0 - (1.0 - util) ** 3),
        "memory_controller_ratio": _ratio(controller),
        "graphics_active_ratio": _ratio(np.maximum(sm, 0.985 * util) * (processes > 0)),
        "sm_active_ratio": _ratio(sm),
        "sm_occupancy_ratio": _ratio(np.minimum(occupancy, sm)),
        "tensor_active_ratio": _ratio(np.minimum(tensor, sm)),
        "dram_active_ratio": _ratio(0.8 * controller),
        "memory_used_bytes": np.rint(memory).astype(np.int64),
        "memory_reserved_bytes": each(s.reserved_bytes).astype(np.int64),
        "power_mw": np.rint(power * 1000.0).astype(np.int32),
        "energy_mj": np.rint(energy_j * 1000.0).astype(np.int64),
        "temperature_c": np.rint(heat).astype(np.int16),
        "sm_clock_mhz": np.rint(clock).astype(np.int16),
        "memory_clock_mhz": each(s.memory_mhz).astype(np.int16),
        "throttle_reasons": np.where(capped, 4, np.where(awake, 0, 1)).astype(np.int64),
        "process_count": processes.astype(np.int16),
        **{each.name: np.zeros(len(sm), each.arrow) for each in METRICS if each.simulated is Simulated.ZERO},
    }


def _mean_w(rows: Stretches, model: GpuModel) -> Floats:
    alive = np.where(rows["process"] >= 0, model.context_w, 0.0)
    work = (model.sm_w, rows["sm"]), (model.memory_w, rows["controller"]), (model.tensor_w, rows["tensor"])
    full = sum(watts * share for watts, share in work)
    return np.asarray(alive + full * _mean_share(rows), np.float64)


def _mean_share(rows: Stretches) -> Floats:
    dipped = np.where(rows["dip_period_ms"] > 0, rows["dip_ms"] / np.maximum(rows["dip_period_ms"], 1), 0.0)
    return np.asarray(rows["duty"] * (1.0 - (1.0 - DIP) * dipped), np.float64)


def _share_of_mean(row: Stretches, level: Floats) -> Floats:
    usual = np.maximum(row["sm"] * _mean_share(row), 1e-9)
    return np.asarray(level / usual, np.float64)


def _rest_w(s: Score, lane: Ints, row: Stretches) -> Floats:
    gpu = s.lane_gpus[lane]
    idle = np.where(lane < len(s.idle_w), s.idle_w[gpu], 0.0)
    return np.asarray(idle + np.where(row["process"] >= 0, s.context_w[gpu], 0.0), np.float64)


def _find(s: Score, lane: Ints, t: Ints) -> Ints:
    place: Ints = np.searchsorted(s.order, (lane << _LANE_SHIFT) + t, side="right") - 1
    return place


def _per_board(boards: tuple[Board, ...], name: str) -> Floats:
    return np.array([getattr(board.model, name) for board in boards], np.float64)


def _ratio(values: Floats) -> Floats:
    """Rounded to what the store keeps, a ten-thousandth."""
    return np.rint(np.clip(values, 0.0, 1.0) * 1e4) / 1e4
