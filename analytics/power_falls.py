"""Asks of GPUs that look stuck when their power fell, and from what. Blocks while it reads."""

from collections.abc import Mapping
from dataclasses import replace

from analytics.findings.hang import looks_stuck
from analytics.model import GpuPast, PowerFall
from analytics.query import Connection, run
from analytics.thresholds import Thresholds


def with_power_falls(
    connection: Connection, now_ms: int, pasts: Mapping[int, GpuPast], t: Thresholds
) -> dict[int, GpuPast]:
    """The pasts with the fall of their power, where one may hang: of few GPUs at a time, if of any."""
    wanted = sorted(gpu_id for gpu_id, past in pasts.items() if looks_stuck(past, t))
    if not wanted:
        return dict(pasts)
    rows = run(connection, "assess_power_falls", {"as_of": now_ms, "gpu_ids": wanted}).to_pylist()
    falls = {
        row["gpu_id"]: PowerFall(
            fell_ms=row["fell_ms"],
            before_mw=row["before_mw"],
            now_mw=row["now_mw"],
            measured_ratio=row["measured_ratio"],
        )
        for row in rows
    }
    return {gpu_id: replace(past, power_fall=falls.get(gpu_id)) for gpu_id, past in pasts.items()}
