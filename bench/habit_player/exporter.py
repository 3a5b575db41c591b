"""A world through dcgm-exporter: the text that it would serve, of the classic names and units.

The exporter shows the newest of DCGM's values. Those of devices (GPU utilization, memory, power) are of an
instant; a profiling value is a mean over the interval at which it is watched, which is the exporter's own
(DCGM's user guide, "Profiling metrics"). A pod's labels stand on the rows as the kubelet names it; who holds
a GPU by Slurm's or Fallow's word comes from the inventory.
"""

import numpy as np

from bench.habit_player.driver import RESERVED_BYTES, board_uuid
from bench.habit_player.naming import namespace, pod_name
from bench.habit_player.timeline import Holding
from bench.habit_player.world import TICK_MS, World, memory_gib
from collector.dcgm.labels import instance_uuid

MIB = 1 << 20
INTERVAL_MS = 30_000
"""dcgm-exporter's own ``--collect-interval``."""


def names(world: World) -> dict[int, str]:
    """The UUIDs of the GPUs as the exporter's rows name them."""
    if world.habit.hardware.mig is None:
        return {gpu: world.uuid(gpu) for gpu in range(world.habit.hardware.count)}
    board = board_uuid(world)
    return {gpu: instance_uuid(board, str(7 + gpu)) for gpu in range(world.habit.hardware.count)}


def page(world: World, at_ms: int, held: tuple[Holding, ...], *, lowest: bool) -> bytes | None:
    """The exposition at an instant; ``None`` where the exporter does not answer.

    ``lowest``: utilization alone.
    """
    tick = (at_ms - world.from_ms) // TICK_MS - 1
    if not any(series.seen[tick] and series.there[tick] for series in world.gpus):
        return None
    lines: list[str] = []
    for gpu, series in enumerate(world.gpus):
        if not series.there[tick]:
            continue
        blocks = [_labels(world, gpu, held, number) for number in range(_rows(held, gpu))]
        for name, value in _values(world, gpu, tick, lowest=lowest):
            lines += [f"{name}{block} {value:.6g}" for block in blocks]
    return ("\n".join(lines) + "\n").encode()


def _pods(held: tuple[Holding, ...], gpu: int) -> list[Holding]:
    return [one for one in held if one.plan.by == "kubernetes" and gpu in one.plan.gpus]


def _rows(held: tuple[Holding, ...], gpu: int) -> int:
    """One row a GPU, or one for each pod that shares it."""
    return max(1, len(_pods(held, gpu)))


def _labels(world: World, gpu: int, held: tuple[Holding, ...], number: int) -> str:
    hardware = world.habit.hardware
    mig = hardware.mig
    uuid = world.uuid(gpu) if mig is None else board_uuid(world)
    index = gpu if mig is None else 0
    told = {
        "gpu": str(index),
        "UUID": uuid,
        "device": f"nvidia{index}",
        "modelName": hardware.board.name,
        "Hostname": world.node,
    }
    if mig is not None:
        told |= {"GPU_I_PROFILE": mig, "GPU_I_ID": str(7 + gpu)}
    if any(plan.by == "kubernetes" for plan in world.habit.holders):
        pods = _pods(held, gpu)
        if number < len(pods):
            one = pods[number]
            told |= {"container": "main", "namespace": namespace(world, one), "pod": pod_name(world, one)}
        else:
            told |= {"container": "", "namespace": "", "pod": ""}
    return "{" + ",".join(f'{name}="{value}"' for name, value in told.items()) + "}"


def _values(world: World, gpu: int, tick: int, *, lowest: bool) -> list[tuple[str, float]]:
    series, hardware = world.gpus[gpu], world.habit.hardware
    loads = {name: float(values[tick]) for name, values in series.loads.items()}
    watched = slice(max(0, tick + 1 - INTERVAL_MS // TICK_MS), tick + 1)
    means = {name: float(np.mean(values[watched])) for name, values in series.loads.items()}
    whole = hardware.mig is None
    if lowest:  # a MIG instance has no GPU utilization: the graphics engine is its lowest measure
        return [
            ("DCGM_FI_DEV_GPU_UTIL", 100 * loads["gpu"])
            if whole
            else ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", means["graphics"])
        ]
    found = [("DCGM_FI_DEV_GPU_UTIL", 100 * loads["gpu"])] if whole else []
    if whole:
        found += [
            ("DCGM_FI_DEV_MEM_COPY_UTIL", 100 * loads["controller"]),
            ("DCGM_FI_DEV_ENC_UTIL", 100 * loads["encoder"]),
            ("DCGM_FI_DEV_DEC_UTIL", 100 * loads["decoder"]),
        ]
    if not hardware.unified:
        total, used = memory_gib(world.habit) * 1024, series.memory[tick] / MIB
        reserved = RESERVED_BYTES / MIB
        found += [
            ("DCGM_FI_DEV_FB_USED", used),
            ("DCGM_FI_DEV_FB_FREE", max(0.0, total - used - reserved)),
            ("DCGM_FI_DEV_FB_RESERVED", reserved),
        ]
    found += [("DCGM_FI_DEV_POWER_USAGE", float(series.power[tick])), ("DCGM_FI_DEV_GPU_TEMP", 45.0)]
    if hardware.board.dcgm_sm:
        found += [
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", means["graphics"]),
            ("DCGM_FI_PROF_SM_ACTIVE", means["sm"]),
            ("DCGM_FI_PROF_DRAM_ACTIVE", means["controller"]),
        ]
    return found
