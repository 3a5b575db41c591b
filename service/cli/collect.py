"""``fallow collect --once``: read the sources once and print what they say; nothing is kept."""

import argparse
import sys

from rich.console import RenderableType
from rich.text import Text

from analytics import text
from collector.gpu_place import node_place, place_of
from collector.metrics import METRICS
from collector.model import (
    SIMULATED_SOURCE,
    Gpu,
    GpuSample,
    Holder,
    Unavailable,
)
from collector.reading import Tick
from service.cli.asking import say_simulated
from service.cli.screen import Column, console, place, print_json, table
from service.config.flags import settle
from service.printable import on_a_line, shown_rows
from service.schemas.answer import Row

NOTHING_READ = 1
MEASURES = tuple(each.name for each in METRICS if each.is_printed)


def run_collect(flags: argparse.Namespace) -> int:
    """Print one reading; status 1 when no source could be read."""
    from service.server.assemble import read_once

    tick, remarks = read_once(settle(flags).effective.config)
    rows = rows_of(tick)
    if any(each.source == SIMULATED_SOURCE for each in tick.outcomes):
        say_simulated(flags)
    for each in (*remarks, *unread(tick)):
        print(f"fallow: {on_a_line(each)}", file=sys.stderr)
    if flags.json:
        print_json(rows, flags)
    elif rows:
        console().print(_draw(shown_rows(rows)))
    else:
        console().print("No GPU was seen.")
    return NOTHING_READ if all(isinstance(each, Unavailable) for each in tick.outcomes) else 0


def rows_of(tick: Tick) -> list[Row]:
    """A row a GPU: what it is, what it did, who holds it; pure."""
    holders: dict[str, list[Holder]] = {}
    for allocation in tick.allocations or ():
        holders.setdefault(allocation.uuid, []).append(allocation.holder)
    rows = []
    for reading in tick.outcomes:
        if isinstance(reading, Unavailable):
            continue
        samples = {sample.uuid: sample for sample in reading.samples}
        rows += [
            _row(reading.source, gpu, samples.get(gpu.uuid), holders.get(gpu.uuid, []))
            for gpu in reading.gpus
        ]
    return rows


def _row(source: str, gpu: Gpu, sample: GpuSample | None, holders: list[Holder]) -> Row:
    return {
        "source": source,
        "uuid": gpu.uuid,
        "node": gpu.node,
        "gpu_index": gpu.index,
        "gpu_place": place_of(gpu),
        "model": gpu.model,
        "mig_profile": gpu.mig_profile,
        "user_name": ", ".join(sorted({each.user for each in holders if each.user})) or None,
        "project": ", ".join(sorted({each.project for each in holders if each.project})) or None,
        "job": ", ".join(sorted({each.job for each in holders})) or None,
        "utilization_ratio": sample and sample.utilization_ratio,
        "rung": sample and int(sample.rung),
        "width_s": sample and sample.width_ms / 1000,
        **{name: sample and getattr(sample, name) for name in MEASURES},
        "memory_total_bytes": gpu.memory_total_bytes,
        "power_w": None if sample is None or sample.power_mw is None else sample.power_mw / 1000,
        "flags": list(sample.flags) if sample else [],
    }


def unread(tick: Tick) -> list[str]:
    """What could not be read, each reason once: whole sources, and single GPUs or nodes of one that could."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in tick.outcomes:
        if isinstance(each, Unavailable):
            reasons.setdefault((each.source, each.reason), [])
            continue
        names = {gpu.uuid: node_place(gpu.node, place_of(gpu), gpu.uuid) for gpu in each.gpus}
        for gap in each.gaps:
            where = names.get(gap.uuid, gap.uuid) if gap.uuid is not None else gap.node
            reasons.setdefault((each.source, gap.reason), []).extend(
                [str(where)] if where is not None else []
            )
    return [
        f"{source}: {', '.join(sorted(places))}{': ' if places else ''}{reason}"
        for (source, reason), places in reasons.items()
    ]


def _draw(rows: list[Row]) -> RenderableType:
    columns = [
        Column(title="GPU"),
        Column(title="model", least=10),
        Column(title="busy", right=True),
        Column(title="SM", right=True),
        Column(title="memory", right=True),
        Column(title="power", right=True),
        Column(title="temp", right=True),
        Column(title="procs", right=True),
        Column(title="user"),
        Column(title="job", below=True),
    ]
    return table(columns, [_line(row) for row in rows])


def _line(row: Row) -> list[str | Text]:
    return [
        place(row),
        str(row["model"] or text.NOTHING).removeprefix("NVIDIA "),
        text.percent(text.known(row["utilization_ratio"])),
        text.percent(text.known(row["sm_active_ratio"])),
        text.memory(text.known(row["memory_used_bytes"]), text.known(row["memory_total_bytes"])),
        text.watts(text.known(row["power_w"])),
        text.NOTHING if row["temperature_c"] is None else f"{row['temperature_c']} C",
        text.count(text.known(row["process_count"])),
        str(row["user_name"] or ""),
        str(row["job"] or ""),
    ]
