"""``fallow burst profile | plan | show``: layers of one training on different numbers of GPUs."""

import argparse
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from analytics import text
from service.cli.screen import Column, console, print_json, table
from service.errors import FallowError

if TYPE_CHECKING:
    from advisor.burst.cost import Network
    from fallow.burst.plan import Placement, Plan

GIB = 2**30
BYTES_A_MICROSECOND_IN_A_GIGABYTE_A_SECOND = 1000.0
LARGEST_FILE = 64 * 2**20
"""Bytes of a table or plan that are read: one of 100,000 layers has some 30 MiB."""


class BadBurst(FallowError):
    """A model, table, plan or flag makes no sense; the message says which and what to do."""


def run_burst(flags: argparse.Namespace) -> int:
    """Profile, plan or show."""
    return {"profile": _profile, "plan": _plan, "show": _show}[flags.order](flags)


def _profile(flags: argparse.Namespace) -> int:
    try:
        from fallow.burst.profile import profile_named
    except ImportError as error:
        raise BadBurst(f"profiling needs torch, which is not installed here: {error}") from error
    from fallow.burst.table import BadTable, every_layer

    shape, batches = _numbers(flags.sample, "x", "--sample"), _numbers(flags.batches, ",", "--batches")
    try:
        profile = profile_named(flags.model, shape, batches)
    except BadTable as error:
        raise BadBurst(f"{flags.model} with a sample of {flags.sample}: {error}") from error
    _write(flags.out, profile.to_json())
    layers = list(every_layer(profile.layers))
    parameters = sum(layer.parameters for layer in layers)
    print(f"{len(layers)} layers with {parameters:,} parameters, measured on {profile.hardware}: {flags.out}")
    return 0


def _numbers(text: str, between: str, flag: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(between)]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise BadBurst(f"{flag} {text!r} is not whole numbers from 1 on with {between!r} between them")
    return numbers


def _plan(flags: argparse.Namespace) -> int:
    from advisor.burst.cost import Setting
    from advisor.burst.planner import Asked, NoPlan, plan
    from fallow.burst.table import BadTable, read_table

    try:
        layers = read_table(read_text(flags.table))
        setting = Setting(
            gpus=flags.gpus,
            batch=flags.global_batch,
            network=network_of(flags.network, flags.latency_us),
            overlap=not flags.no_overlap,
            powers_of_two=flags.powers_of_two,
            memory_bytes=None if flags.memory_gib is None else flags.memory_gib * GIB,
        )
        burst_plan = plan(layers, setting, Asked(amplification=flags.amplification, slowdown=flags.slowdown))
    except (BadTable, NoPlan, ValueError) as error:
        raise BadBurst(str(error)) from error
    if flags.out is not None:
        _write(flags.out, burst_plan.to_json())
    _tell(burst_plan, flags)
    return 0


def network_of(named: str, latency_us: float | None) -> "Network":
    """A preset by its name, or gigabytes a second with a latency."""
    from dataclasses import replace

    from advisor.burst.cost import NETWORKS, Network

    if named in NETWORKS:
        preset = NETWORKS[named]
        return preset if latency_us is None else replace(preset, latency_us=latency_us)
    try:
        bandwidth = float(named.removesuffix("GB/s")) * BYTES_A_MICROSECOND_IN_A_GIGABYTE_A_SECOND
    except ValueError:
        raise BadBurst(
            f"--network {named!r} is none of {', '.join(NETWORKS)}, nor gigabytes a second as in 12.5GB/s"
        ) from None
    return Network(
        name=named,
        bandwidth=bandwidth,
        latency_us=40.0 if latency_us is None else latency_us,
        source="as given",
    )


def _show(flags: argparse.Namespace) -> int:
    from fallow.burst.plan import BadPlan, read_plan

    try:
        burst_plan = read_plan(read_text(flags.plan))
    except BadPlan as error:
        raise BadBurst(f"{flags.plan}: {error}") from error
    _tell(burst_plan, flags)
    return 0


def _tell(burst_plan: "Plan", flags: argparse.Namespace) -> None:
    if flags.json:
        from dataclasses import asdict

        print_json([asdict(burst_plan)], flags)
        return
    screen = console()
    for line in summary(burst_plan):
        screen.print(line)
    columns = [Column(title="Layers", least=24), Column(title="GPUs", right=True), Column(title="Ranks")]
    screen.print(
        table(columns, [(_names(run), str(run[0].gpus), _ranks(run[0])) for run in _runs(burst_plan)])
    )
    waits = [1 - min(busy / burst_plan.predicted.time_us, 1.0) for busy in burst_plan.busy_us]
    screen.print(
        f"Each GPU waits this share of a step: {', '.join(f'{text.percent(wait)}' for wait in waits)}"
    )


def summary(result: "Plan") -> list[str]:
    """What a plan promises, beside what it was held against."""
    one, plain, best = result.one_gpu, result.uniform, result.predicted
    sums = "during the backward pass" if result.overlap else "after the backward pass"
    lines = [
        f"{result.model}: {result.global_batch} samples a step on up to {result.gpus} GPUs, "
        f"network {result.network}, gradients summed {sums}",
        f"  this plan        {_times(best.time_us, best.gpu_time_us, one.time_us)}",
        f"  {result.uniform_gpus} GPUs for all     {_times(plain.time_us, plain.gpu_time_us, one.time_us)}",
        f"  1 GPU            {_times(one.time_us, one.gpu_time_us, one.time_us)}",
    ]
    unit = "ms a step" if result.aim == "time" else "GPU-ms"
    lines.append(f"  no plan is below {result.bound / 1000:7.2f} {unit} within what was asked")
    if result.verdict == "uniform":
        lines.append(
            f"Run it on {result.uniform_gpus} GPUs: different numbers for its layers gain less than 5%."
        )
    else:
        lines.append(
            "Bursts pay: layers on different numbers of GPUs gain more than 5% over one number for all."
        )
    return lines


def _times(time_us: float, gpu_time_us: float, one_us: float) -> str:
    speed = f"{one_us / time_us:5.2f} times one GPU"
    return f"{time_us / 1000:8.2f} ms a step, {gpu_time_us / 1000:8.2f} GPU-ms, {speed}"


def _runs(burst_plan: "Plan") -> list[list["Placement"]]:
    """Layers in a row that lie on the same ranks."""
    return [
        list(run) for _, run in groupby(burst_plan.placements, key=lambda each: (each.first_rank, each.gpus))
    ]


def _names(run: Sequence["Placement"]) -> str:
    return run[0].layer if len(run) == 1 else f"{run[0].layer} to {run[-1].layer} ({len(run)})"


def _ranks(placed: "Placement") -> str:
    last = placed.first_rank + placed.gpus - 1
    return f"{placed.first_rank}" if placed.gpus == 1 else f"{placed.first_rank} to {last}"


def read_text(path: Path) -> str:
    """A table or a plan as it was written. Raises ``BadBurst``."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise BadBurst(f"{path}: {error.strerror}") from error
    if len(text) > LARGEST_FILE:
        raise BadBurst(f"{path} has more than {LARGEST_FILE // 2**20} MiB: it is no layer table and no plan")
    return text.decode("utf-8", errors="replace")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise BadBurst(f"{path}: {error.strerror}") from error
